-- What agents asked for that is not theirs to do, what was decided, and what came of it. A finished one of
-- kind egress or mount is a grant until it is revoked.
CREATE TABLE request (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN
        ('package', 'egress', 'mount', 'command', 'agent-create', 'agent-remove', 'other')),
    agent       TEXT NOT NULL,
    session     TEXT NOT NULL,
    channel     TEXT,
    -- What exactly would be done, and its SHA-256 in hex.
    body        TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    -- In the agent's own words.
    reason      TEXT NOT NULL,
    floor       TEXT NOT NULL CHECK (floor IN ('GREEN', 'YELLOW', 'RED')),
    level       TEXT NOT NULL CHECK (level IN ('GREEN', 'YELLOW', 'RED')),
    -- Why it has that level: a JSON list.
    why         TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN
        ('triage', 'waiting', 'approved', 'running', 'done', 'failed', 'denied', 'expired')),
    scope       TEXT NOT NULL CHECK (scope IN ('once', 'agent')),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    decided_by  TEXT,
    decided_at  INTEGER,
    -- The digest of what the person who approved it was shown.
    approved    TEXT,
    used_at     INTEGER,
    ended_at    INTEGER,
    result      TEXT,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX request_open ON request (created_at) WHERE state IN ('triage', 'waiting', 'approved', 'running');
CREATE INDEX request_by_time ON request (created_at);
CREATE INDEX request_grant ON request (agent, kind) WHERE state = 'done' AND scope = 'agent';
