-- What an agent program knows a session's conversation by. Another conversation, prompt or place needs a new one.
CREATE TABLE program_conversation (
    session    TEXT NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    program    TEXT NOT NULL,
    name       TEXT NOT NULL,
    -- What it was begun with: flock's own name of the conversation, where the program ran, the digest of its prompt.
    conversation TEXT NOT NULL,
    place      TEXT NOT NULL,
    prompt     TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, program)
) STRICT, WITHOUT ROWID;
