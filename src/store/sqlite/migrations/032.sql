-- The credentials whose quota is used up, by the model that was refused. `credential` is a keyed digest or a name, never
-- the key. Times are Unix milliseconds.
CREATE TABLE quota_park (
    credential TEXT NOT NULL,
    model      TEXT NOT NULL,
    -- The name for people: the provider's, or that of the program whose login it is.
    name       TEXT NOT NULL,
    since      INTEGER NOT NULL,
    noted      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    -- 1 if the provider named the time.
    named      INTEGER NOT NULL,
    refusals   INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (credential, model)
) STRICT, WITHOUT ROWID;
