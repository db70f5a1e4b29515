CREATE TABLE session (
    key        TEXT PRIMARY KEY,
    file       TEXT NOT NULL UNIQUE,
    agent      TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('channel', 'dm', 'request', 'main')),
    state      TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    turns      INTEGER NOT NULL DEFAULT 0,
    model      TEXT,
    prompt     TEXT,
    -- Of all its turns that have ended; a session may have many thousands.
    input       INTEGER NOT NULL DEFAULT 0,
    output      INTEGER NOT NULL DEFAULT 0,
    cache_read  INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX session_by_update ON session (updated_at);
CREATE INDEX session_by_agent ON session (agent, updated_at);

CREATE TABLE prompt (
    inputs   TEXT PRIMARY KEY,
    text     TEXT NOT NULL,
    built_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turn (
    id          TEXT PRIMARY KEY,
    session     TEXT NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    state       TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    model       TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    steps       INTEGER NOT NULL DEFAULT 0,
    input       INTEGER NOT NULL DEFAULT 0,
    output      INTEGER NOT NULL DEFAULT 0,
    cache_read  INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    error       TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX turn_by_session ON turn (session, id);
CREATE INDEX turn_running ON turn (session) WHERE state = 'running';

-- Messages between sessions that were accepted and whose turn has not ended.
CREATE TABLE message (
    turn        TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    text        TEXT NOT NULL,
    context     TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
