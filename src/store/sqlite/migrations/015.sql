-- Bridges. A bridge is an account on another platform and stands in the configuration; a link joins a channel with a
-- channel of the platform. The two tables of before were never filled.
DROP TABLE outbox;
DROP TABLE bridge;

CREATE TABLE link (
    id         TEXT PRIMARY KEY,
    channel    TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    bridge     TEXT NOT NULL COLLATE NOCASE,
    -- The platform's id of its channel, and the name that people know it by.
    external   TEXT NOT NULL,
    title      TEXT NOT NULL,
    -- Paused by a person, or stopped because the channel is archived.
    state      TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'archived')),
    -- Set if it also passes on what people said on other platforms.
    is_cross   INTEGER NOT NULL DEFAULT 0,
    -- The accounts that are heard, as a JSON list of the platform's ids; ["*"] hears everybody in the channel.
    hears      TEXT NOT NULL DEFAULT '[]',
    -- Set if programs among them are heard too.
    hears_bots INTEGER NOT NULL DEFAULT 0,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (bridge, external)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_channel ON link (channel);

CREATE TABLE outbox (
    -- Never used twice: it is part of the key by which a platform recognises a message that is sent again.
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    link       TEXT NOT NULL REFERENCES link (id) ON DELETE CASCADE,
    channel    TEXT NOT NULL,
    -- The message to send; NULL is a word to the other side about the channel itself, in `notice`.
    seq        INTEGER,
    notice     TEXT,
    created_at INTEGER NOT NULL,
    -- The number of its parts that were sent.
    sent       INTEGER NOT NULL DEFAULT 0,
    -- Set if an attempt at the next part began whose result is not known.
    begun      INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (link, seq)
) STRICT;

-- Messages that both sides have: for replies, and so that none is taken or sent twice.
CREATE TABLE linked_message (
    link       TEXT NOT NULL REFERENCES link (id) ON DELETE CASCADE,
    external   TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (link, external)
) STRICT, WITHOUT ROWID;

CREATE INDEX linked_message_seq ON linked_message (link, seq);

CREATE TRIGGER linked_message_deleted AFTER DELETE ON message BEGIN
    DELETE FROM linked_message WHERE seq = old.seq AND link IN (SELECT id FROM link WHERE channel = old.channel);
END;

-- Earlier texts of messages that people changed or deleted on their platform.
CREATE TABLE message_edit (
    channel    TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    -- The time of the change, in Unix milliseconds.
    at         INTEGER NOT NULL,
    content    TEXT NOT NULL
) STRICT;

CREATE INDEX message_edit_seq ON message_edit (channel, seq);

CREATE TRIGGER message_edit_deleted AFTER DELETE ON message BEGIN
    DELETE FROM message_edit WHERE channel = old.channel AND seq = old.seq;
END;

-- Messages did not change before.
CREATE TRIGGER message_changed AFTER UPDATE OF content ON message BEGIN
    INSERT INTO message_text (message_text, rowid, content) VALUES ('delete', old.id, old.content);
    INSERT INTO message_text (rowid, content) VALUES (new.id, new.content);
END;

-- Accounts that are not heard over a link and were told so.
CREATE TABLE told_account (
    link       TEXT NOT NULL REFERENCES link (id) ON DELETE CASCADE,
    account    TEXT NOT NULL,
    PRIMARY KEY (link, account)
) STRICT, WITHOUT ROWID;

-- Tasks that people gave by a message to flock's account, with the place where the answer goes.
CREATE TABLE direct_message (
    task       TEXT PRIMARY KEY,
    bridge     TEXT NOT NULL COLLATE NOCASE,
    -- The platform's ids of the conversation and of the message.
    external   TEXT NOT NULL,
    message    TEXT NOT NULL,
    -- The time of the task's question that was sent last.
    asked_at   INTEGER NOT NULL DEFAULT 0,
    -- As in the outbox.
    sent       INTEGER NOT NULL DEFAULT 0,
    begun      INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX direct_message_place ON direct_message (bridge, external);

-- The place in a bridge's stream of events up to which everything was taken.
CREATE TABLE bridge_cursor (
    bridge     TEXT PRIMARY KEY COLLATE NOCASE,
    cursor     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The people behind accounts of platforms. Several accounts may belong to one person.
CREATE TABLE account (
    platform   TEXT NOT NULL,
    id         TEXT NOT NULL,
    person     TEXT NOT NULL,
    username   TEXT NOT NULL,
    -- Who bound the account to the person; NULL if the account's first message made the person.
    bound_by   TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (platform, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_person ON account (person);
