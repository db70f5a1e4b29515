-- The browsers that are signed in to the dashboard. The cookie itself is not stored.
CREATE TABLE sign_in (
    id         TEXT PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,
    -- The person who signed in, without "human:".
    person     TEXT NOT NULL,
    -- What the browser says of itself.
    browser    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The cost of the hours of a day is read from the single calls.
CREATE INDEX usage_at ON usage (at);
