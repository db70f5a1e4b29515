-- That a person froze the whole home: one row, or none.
CREATE TABLE home_freeze (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL,
    by  TEXT NOT NULL
) STRICT;

-- Whom a person let go on although the home is frozen.
ALTER TABLE agent_state ADD COLUMN spared INTEGER NOT NULL DEFAULT 0 CHECK (spared IN (0, 1));

-- Which channel pays for a task, or for a session that an agent began for itself, where it is not its own.
CREATE TABLE charge (
    id      TEXT PRIMARY KEY,
    channel TEXT NOT NULL COLLATE NOCASE
) STRICT, WITHOUT ROWID;

-- When the sysadmin was given what came of a request for review.
ALTER TABLE request ADD COLUMN reviewed_at INTEGER;
UPDATE request SET reviewed_at = ended_at WHERE level = 'YELLOW';
CREATE INDEX request_to_review ON request (ended_at) WHERE level = 'YELLOW' AND reviewed_at IS NULL;
