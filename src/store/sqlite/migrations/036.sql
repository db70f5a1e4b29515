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
