-- Schedules: texts that are given to a channel or an agent at certain times, and what became of each time.
CREATE TABLE schedule (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL UNIQUE,
    -- The recipient: one of these two.
    agent        TEXT,
    channel      TEXT COLLATE NOCASE,
    -- When it runs: cron (pattern, zone), every (period from at on), at (at), after (pattern is the event's name).
    kind         TEXT NOT NULL CHECK (kind IN ('cron', 'every', 'at', 'after')),
    pattern      TEXT NOT NULL DEFAULT '',
    zone         TEXT NOT NULL DEFAULT '',
    period       INTEGER NOT NULL DEFAULT 0,
    at           INTEGER NOT NULL DEFAULT 0,
    text         TEXT NOT NULL,
    -- What becomes of times that passed while nothing could run: once, skip or all.
    missed       TEXT NOT NULL CHECK (missed IN ('once', 'skip', 'all')),
    -- The budget of a day: tokens, and millionths of a dollar.
    tokens       INTEGER,
    cost         INTEGER,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    -- Why is for a schedule that flock has paused.
    state        TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'done')),
    why          TEXT NOT NULL DEFAULT '',
    -- Every time up to this one has its row below.
    covered_at   INTEGER NOT NULL,
    -- The latest time whose row was deleted for its age.
    pruned_until INTEGER NOT NULL DEFAULT 0,
    -- The event that the next run follows.
    event        TEXT,
    event_at     INTEGER,
    CHECK ((agent IS NULL) <> (channel IS NULL))
) STRICT;

-- The times of a schedule that have passed. Each has one row, which is written together with what it caused.
CREATE TABLE schedule_slot (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule   INTEGER NOT NULL REFERENCES schedule (id) ON DELETE CASCADE,
    cause      TEXT NOT NULL CHECK (cause IN ('time', 'person', 'event')),
    slot       INTEGER NOT NULL,
    -- A row may stand for several missed times: slot is the first then, last the last, and count their number.
    last       INTEGER NOT NULL,
    count      INTEGER NOT NULL DEFAULT 1,
    outcome    TEXT NOT NULL CHECK (outcome IN ('ran', 'missed', 'skipped')),
    why        TEXT NOT NULL DEFAULT '',
    event      TEXT,
    handled_at INTEGER NOT NULL,
    -- What it caused: a message in a channel, or a task of an agent.
    channel    TEXT COLLATE NOCASE,
    seq        INTEGER,
    task       TEXT
) STRICT;
CREATE UNIQUE INDEX schedule_slot_once ON schedule_slot (schedule, slot) WHERE cause = 'time';
CREATE UNIQUE INDEX schedule_slot_event ON schedule_slot (schedule, event) WHERE event IS NOT NULL;
CREATE INDEX schedule_slot_message ON schedule_slot (channel, seq) WHERE seq IS NOT NULL;
CREATE INDEX schedule_slot_task ON schedule_slot (task) WHERE task IS NOT NULL;

-- The turns that a schedule caused. Their use of models counts towards its budget.
CREATE TABLE schedule_turn (
    turn     TEXT NOT NULL,
    schedule INTEGER NOT NULL REFERENCES schedule (id) ON DELETE CASCADE,
    PRIMARY KEY (turn, schedule)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_turn_schedule ON schedule_turn (schedule);
CREATE INDEX usage_turn ON usage (turn);
