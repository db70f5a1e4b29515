-- The engines that agents are placed on. Without a row, an agent is placed when it first needs a sandbox. Times are Unix
-- milliseconds.
CREATE TABLE placement (
    agent     TEXT NOT NULL PRIMARY KEY,
    -- The engine's name in the configuration, or "local".
    engine    TEXT NOT NULL,
    placed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
