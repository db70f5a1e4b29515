-- Tasks and cards.

-- What one party asked of an agent: a direct message, or a request that came by A2A.
CREATE TABLE task (
    id           TEXT PRIMARY KEY,
    context      TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('message', 'a2a')),
    requester    TEXT NOT NULL,
    -- The requester's session, which is given the answer; nothing for A2A, where it is fetched.
    origin       TEXT,
    assignee     TEXT NOT NULL,
    session      TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('submitted', 'working', 'input-required', 'completed', 'failed',
                                                'canceled', 'rejected')),
    summary      TEXT NOT NULL,
    request      TEXT NOT NULL,
    -- What the assignee asked back last, in which turn, and what it was told.
    question     TEXT,
    asked_in     TEXT,
    reply        TEXT,
    -- What came of it: the answer, or why there is none.
    response     TEXT,
    turn         TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    completed_at INTEGER
) STRICT;

CREATE INDEX task_by_requester ON task (requester, id);
CREATE INDEX task_by_assignee ON task (assignee, state);
CREATE INDEX task_open ON task (id) WHERE state IN ('submitted', 'working', 'input-required');

CREATE INDEX inbox_by_task ON inbox (task) WHERE task IS NOT NULL;

-- What an agent says of itself, where it has said something.
CREATE TABLE card (
    agent       TEXT PRIMARY KEY,
    name        TEXT,
    description TEXT,
    skills      TEXT,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What agents sent directly to one another, in outline: what the brakes look at. `pair` is both ids, sorted.
CREATE TABLE exchange (
    id         INTEGER PRIMARY KEY,
    pair       TEXT NOT NULL,
    sender     TEXT NOT NULL,
    receiver   TEXT NOT NULL,
    start      TEXT NOT NULL,
    length     INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX exchange_by_pair ON exchange (pair, id);
CREATE INDEX message_by_human ON message (channel, created_at) WHERE author >= 'human:' AND author < 'human;';
CREATE INDEX audit_chat ON audit (subject, at) WHERE action = 'chat.turn';
