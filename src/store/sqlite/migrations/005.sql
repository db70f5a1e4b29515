-- What models were asked, one row for each call: set aside before it, settled after it.
CREATE TABLE usage (
    id          INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    -- The day in the zone of the machine, as 2026-02-28.
    day         TEXT NOT NULL,
    agent       TEXT NOT NULL,
    session     TEXT NOT NULL,
    channel     TEXT NOT NULL DEFAULT '' COLLATE NOCASE,
    turn        TEXT NOT NULL,
    model       TEXT NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    -- In millionths of a dollar; NULL where the model's price is not known.
    cost        INTEGER,
    state       TEXT NOT NULL CHECK (state IN ('reserved', 'settled'))
) STRICT;

CREATE INDEX usage_reserved ON usage (id) WHERE state = 'reserved';

-- The sums of these rows, kept for each day.
CREATE TABLE usage_sum (
    day         TEXT NOT NULL,
    agent       TEXT NOT NULL,
    channel     TEXT NOT NULL COLLATE NOCASE,
    model       TEXT NOT NULL,
    calls       INTEGER NOT NULL,
    -- Calls of models whose price is not known.
    unpriced    INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost        INTEGER NOT NULL,
    PRIMARY KEY (day, agent, channel, model)
) STRICT, WITHOUT ROWID;

-- In which channel it was said already that a budget is used up.
CREATE TABLE budget_notice (
    day     TEXT NOT NULL,
    channel TEXT NOT NULL COLLATE NOCASE,
    budget  TEXT NOT NULL,
    PRIMARY KEY (day, channel, budget)
) STRICT, WITHOUT ROWID;

-- The last of the audit's rows that are not kept any more.
CREATE TABLE audit_base (
    id   INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
