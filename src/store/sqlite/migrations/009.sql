-- The last turn of a session that a program's conversation has: what was said after it is new to the program. It is not
-- known of the conversations of before, which are begun anew.
DROP TABLE program_conversation;
CREATE TABLE program_conversation (
    session    TEXT NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    program    TEXT NOT NULL,
    name       TEXT NOT NULL,
    turn       TEXT NOT NULL,
    -- What it was begun with: flock's own name of the conversation, where the program ran, the digest of its prompt.
    conversation TEXT NOT NULL,
    place      TEXT NOT NULL,
    prompt     TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, program)
) STRICT, WITHOUT ROWID;
