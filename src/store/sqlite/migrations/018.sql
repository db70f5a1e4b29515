-- Messages over bridges, by the day in this machine's time zone.
CREATE TABLE bridge_traffic (
    day        TEXT NOT NULL,
    bridge     TEXT NOT NULL COLLATE NOCASE,
    received   INTEGER NOT NULL DEFAULT 0,
    sent       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, bridge)
) STRICT, WITHOUT ROWID;

-- Set while the pause of a link is a person's, which no agent ends.
ALTER TABLE link ADD COLUMN paused_by_person INTEGER NOT NULL DEFAULT 0;
