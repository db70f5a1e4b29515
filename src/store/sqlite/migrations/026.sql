-- The answers of the Responses API that clients may read again and continue. `turn` is the turn that gave it.
CREATE TABLE response (
    turn       TEXT PRIMARY KEY,
    session    TEXT NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    -- The whole answer as JSON. Empty if a client deleted it.
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX response_session ON response (session, created_at, turn);
