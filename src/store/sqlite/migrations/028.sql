-- Requests for schedules. SQLite can't change the check of a column, so the table is made anew. The kinds are checked by the
-- code that reads a request, so the new table has no list of them.
CREATE TABLE request_new (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    agent       TEXT NOT NULL,
    session     TEXT NOT NULL,
    channel     TEXT,
    body        TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    floor       TEXT NOT NULL CHECK (floor IN ('GREEN', 'YELLOW', 'RED')),
    level       TEXT NOT NULL CHECK (level IN ('GREEN', 'YELLOW', 'RED')),
    why         TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN
        ('triage', 'waiting', 'approved', 'running', 'done', 'failed', 'denied', 'expired')),
    scope       TEXT NOT NULL CHECK (scope IN ('once', 'agent')),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    decided_by  TEXT,
    decided_at  INTEGER,
    approved    TEXT,
    used_at     INTEGER,
    ended_at    INTEGER,
    result      TEXT,
    revoked_at  INTEGER,
    reviewed_at INTEGER,
    revoked_by  TEXT,
    asks_sysadmin INTEGER NOT NULL DEFAULT 0,
    to_list     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

INSERT INTO request_new
    (id, kind, agent, session, channel, body, sha256, reason, floor, level, why, state, scope, created_at, expires_at,
     decided_by, decided_at, approved, used_at, ended_at, result, revoked_at, reviewed_at, revoked_by, asks_sysadmin,
     to_list)
SELECT id, kind, agent, session, channel, body, sha256, reason, floor, level, why, state, scope, created_at, expires_at,
    decided_by, decided_at, approved, used_at, ended_at, result, revoked_at, reviewed_at, revoked_by, asks_sysadmin,
    to_list
FROM request;

DROP TABLE request;
ALTER TABLE request_new RENAME TO request;

CREATE INDEX request_open ON request (created_at) WHERE state IN ('triage', 'waiting', 'approved', 'running');
CREATE INDEX request_by_time ON request (created_at);
CREATE INDEX request_grant ON request (agent, kind) WHERE state = 'done' AND scope = 'agent';
CREATE INDEX request_to_review ON request (ended_at) WHERE level = 'YELLOW' AND reviewed_at IS NULL;
