-- Races: copies of a channel's team that work on the same task, and what became of them.
CREATE TABLE race (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL,
    -- The channel whose team was copied.
    channel    TEXT NOT NULL COLLATE NOCASE,
    task       TEXT NOT NULL,
    -- The tip with which everything is joined that the copies submit.
    base       TEXT NOT NULL,
    created_by TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- The budget of all copies together: tokens, and millionths of a dollar.
    tokens     INTEGER,
    cost       INTEGER,
    ends_at    INTEGER,
    -- When a call of a model was refused because the budget had no more room for it.
    spent_at   INTEGER,
    -- The number of the copy that won, who chose it, and why.
    winner     INTEGER,
    chosen_by  TEXT,
    why        TEXT NOT NULL DEFAULT '',
    -- 0: something that the state asks for is still to be done; 1: it is done; 2: nothing will follow.
    settled    INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    decided_at INTEGER,
    dropped_at INTEGER
) STRICT;
CREATE INDEX race_open ON race (id) WHERE settled < 2;

-- The copies of a race. What they delivered is written down with the decision.
CREATE TABLE race_copy (
    race       INTEGER NOT NULL REFERENCES race (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    channel    TEXT NOT NULL COLLATE NOCASE,
    submission INTEGER,
    -- How it ended, and why it won or lost, in words.
    ended      TEXT NOT NULL DEFAULT '',
    why        TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (race, number)
) STRICT, WITHOUT ROWID;

-- The agents of the copies, and whose copies they are.
CREATE TABLE race_agent (
    agent    TEXT PRIMARY KEY,
    race     INTEGER NOT NULL REFERENCES race (id) ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    original TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX race_agent_race ON race_agent (race, number);
