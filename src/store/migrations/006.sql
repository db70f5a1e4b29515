-- That a person froze the whole home: one row, or none.
CREATE TABLE home_freeze (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL,
    by  TEXT NOT NULL
) STRICT;

-- Whom a person let go on although the home is frozen.
ALTER TABLE agent_state ADD COLUMN spared INTEGER NOT NULL DEFAULT 0 CHECK (spared IN (0, 1));
