-- The runs of gateways that share a database on a server. A database in a file has one gateway and no row here.
CREATE TABLE gateway (
    -- Counts up, and is never given twice. A fail-over can lose the newest rows, so `run`, a random text, goes with it.
    epoch      INTEGER PRIMARY KEY,
    run        TEXT NOT NULL,
    -- The instance id of its home.
    home       TEXT NOT NULL,
    name       TEXT NOT NULL,
    address    TEXT NOT NULL,
    version    TEXT NOT NULL,
    -- Unix milliseconds by the database's clock.
    started_at INTEGER NOT NULL,
    -- Until then, others take it for living without another sign of it.
    beat_until INTEGER NOT NULL,
    -- From then on, it changes nothing. It ended itself or was taken for dead, by the gateway with the epoch `ended_by`.
    ended_at   INTEGER,
    ended_by   INTEGER
) STRICT;

-- What only one gateway may do at a time, and which one does it. A lease lives as long as its gateway. Rows stay when
-- nobody owns them, so that `token` never repeats for a subject.
CREATE TABLE lease (
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    -- The epoch of the owner; NULL while there is none.
    epoch   INTEGER,
    -- Counts the owners.
    token   INTEGER NOT NULL,
    -- Unix milliseconds of the last change of the owner, by the database's clock.
    since   INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_owner ON lease (epoch);
