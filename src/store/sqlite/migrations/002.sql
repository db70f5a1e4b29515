-- Channels, their members and messages.
CREATE TABLE channel (
    id             TEXT PRIMARY KEY COLLATE NOCASE,
    name           TEXT NOT NULL,
    topic          TEXT NOT NULL,
    created_by     TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    state          TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'archiving', 'archived')),
    -- Of an archive under way: when it began, who began it, when it ends whoever is not ready.
    archiving_at   INTEGER,
    archiving_by   TEXT,
    archive_due_at INTEGER,
    archived_at    INTEGER,
    last_seq       INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX channel_archiving ON channel (archive_due_at) WHERE state = 'archiving';

CREATE TABLE member (
    channel   TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    member    TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    -- Of an archive under way: when this agent said that it is ready.
    ready_at  INTEGER,
    PRIMARY KEY (channel, member)
) STRICT, WITHOUT ROWID;

CREATE INDEX member_by_member ON member (member, channel);

-- Messages between sessions move to the inbox, which has more kinds of them.
CREATE TABLE inbox (
    id         TEXT PRIMARY KEY,
    session    TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('session', 'dm', 'answer', 'result', 'notice', 'resume')),
    sender     TEXT NOT NULL,
    text       TEXT NOT NULL,
    task       TEXT,
    created_at INTEGER NOT NULL,
    -- The turn it was given to; without one it waits.
    turn       TEXT,
    attempts   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_by_session ON inbox (session, id);
CREATE INDEX inbox_by_turn ON inbox (turn) WHERE turn IS NOT NULL;

INSERT INTO inbox (id, session, kind, sender, text, created_at, turn, attempts)
    SELECT turn, session, 'session', context, text, accepted_at,
        (SELECT id FROM turn WHERE turn.id = message.turn), attempts
    FROM message;
DROP TABLE message;

CREATE TABLE message (
    id         INTEGER PRIMARY KEY,
    channel    TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    author     TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Whom it wakes: 0 nobody, 1 in time, 2 at once; what it mentions, with a space before and after each.
    wake       INTEGER NOT NULL DEFAULT 1 CHECK (wake BETWEEN 0 AND 2),
    mentions   TEXT,
    turn       TEXT,
    -- Whether it is the final text of its turn, which is posted once.
    is_final   INTEGER NOT NULL DEFAULT 0 CHECK (is_final IN (0, 1)),
    UNIQUE (channel, seq)
) STRICT;

CREATE INDEX message_waking ON message (channel, seq) WHERE wake > 0;
CREATE UNIQUE INDEX message_final ON message (turn) WHERE is_final = 1;

CREATE VIRTUAL TABLE message_text USING fts5 (
    content, content = 'message', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    INSERT INTO message_text (rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_deleted AFTER DELETE ON message BEGIN
    INSERT INTO message_text (message_text, rowid, content) VALUES ('delete', old.id, old.content);
END;

-- How far an agent has been given a channel, and what the turn under way was given.
CREATE TABLE delivery (
    agent         TEXT NOT NULL,
    channel       TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    delivered_seq INTEGER NOT NULL DEFAULT 0,
    inflight_seq  INTEGER,
    inflight_turn TEXT,
    PRIMARY KEY (agent, channel)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_inflight ON delivery (inflight_turn) WHERE inflight_turn IS NOT NULL;

-- How an agent stands in the team's loop.
CREATE TABLE agent_state (
    agent        TEXT PRIMARY KEY,
    asleep_at    INTEGER,
    sleep_reason TEXT,
    frozen_at    INTEGER,
    frozen_by    TEXT,
    last_turn_at INTEGER
) STRICT, WITHOUT ROWID;

-- Channels that are bridged to other platforms, and what is still to be sent there.
CREATE TABLE bridge (
    id         TEXT PRIMARY KEY,
    channel    TEXT NOT NULL COLLATE NOCASE REFERENCES channel (id) ON DELETE CASCADE,
    platform   TEXT NOT NULL,
    external   TEXT NOT NULL,
    -- Paused by a person, or stopped because the channel is archived.
    state      TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'archived')),
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (channel, platform),
    UNIQUE (platform, external)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY,
    bridge     TEXT NOT NULL REFERENCES bridge (id) ON DELETE CASCADE,
    channel    TEXT NOT NULL,
    -- The message to send; NULL is a word to the other side about the channel itself, in `notice`.
    seq        INTEGER,
    notice     TEXT,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (bridge, seq)
) STRICT;

-- What was done by whom, each row chained to the one before it.
CREATE TABLE audit (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    level    TEXT NOT NULL CHECK (level IN ('GREEN', 'YELLOW', 'RED')),
    detail   TEXT NOT NULL,
    session  TEXT,
    turn     TEXT,
    previous BLOB NOT NULL,
    hash     BLOB NOT NULL
) STRICT;

CREATE INDEX audit_by_actor ON audit (actor, id);
