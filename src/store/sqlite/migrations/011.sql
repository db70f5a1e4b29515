-- What the idempotency keys of clients stand for, for a day. There is no answer while the first request is on its way.
CREATE TABLE idempotency_key (
    caller     TEXT NOT NULL,
    name       TEXT NOT NULL,
    -- Of the request: the same key with another one is refused.
    digest     TEXT NOT NULL,
    session    TEXT,
    turn       TEXT,
    answer     TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (caller, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

-- What was said in a task that came by A2A, under the names that its client gave its own messages.
CREATE TABLE task_message (
    task       TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    is_client  INTEGER NOT NULL,
    name       TEXT,
    text       TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
