-- Webhooks: texts that other services send to a channel.
CREATE TABLE hook (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL COLLATE NOCASE,
    -- How a sender signs: github, gitlab or generic.
    kind       TEXT NOT NULL CHECK (kind IN ('github', 'gitlab', 'generic')),
    -- Empty for the built-in template of the kind.
    template   TEXT NOT NULL,
    added_by   TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Why is for a hook that flock has paused.
    state      TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
    why        TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX hook_channel ON hook (channel);

-- What came with a good signature. Each has one row, which is written together with its message.
CREATE TABLE hook_delivery (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    hook        INTEGER NOT NULL REFERENCES hook (id) ON DELETE CASCADE,
    -- SHA-256 of what was signed: the same content is taken once.
    digest      TEXT NOT NULL,
    -- The sender's own names for it.
    delivery    TEXT NOT NULL,
    event       TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    outcome     TEXT NOT NULL CHECK (outcome IN ('posted', 'ignored')),
    why         TEXT NOT NULL DEFAULT '',
    seq         INTEGER,
    UNIQUE (hook, digest)
) STRICT;
CREATE INDEX hook_delivery_message ON hook_delivery (hook, seq) WHERE seq IS NOT NULL;
