-- The tokens of clients: what each may do, for which agents and how long. Only a hash of the token itself is kept.
CREATE TABLE client_token (
    name       TEXT NOT NULL COLLATE NOCASE PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,
    -- Ids with a comma between them; null stands for all agents.
    agents     TEXT,
    rights     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
