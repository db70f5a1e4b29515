-- Messages on other platforms that show a waiting request, and by which it can be decided.
CREATE TABLE decision_message (
    -- Never used twice: it is part of the key by which a platform recognises a message that is sent again.
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    link       TEXT NOT NULL REFERENCES link (id) ON DELETE CASCADE,
    request    TEXT NOT NULL,
    -- The digest of the body that is shown.
    sha256     TEXT NOT NULL,
    -- By which a reply names it. NULL if the request can't be shown whole there, and so can't be decided there.
    code       TEXT UNIQUE,
    -- The platform's id of the message, once it is known.
    message    TEXT,
    -- Set once an attempt at sending it began.
    begun      INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    -- Set once the message says how the request ended, or can't say it.
    closed_at  INTEGER,
    UNIQUE (link, request)
) STRICT;

CREATE INDEX decision_message_open ON decision_message (link) WHERE closed_at IS NULL;
CREATE INDEX decision_message_external ON decision_message (message) WHERE message IS NOT NULL;
