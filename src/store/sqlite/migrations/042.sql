-- The group of gateways that use the database at the same time. Without a row, one gateway uses it, as in a file always.
CREATE TABLE gateway_group (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    -- A random text, which the folder of the agents' files has too.
    files      TEXT NOT NULL,
    -- Counts the configurations.
    revision   INTEGER NOT NULL,
    -- The configuration of all of them, without what each has for itself.
    config     TEXT NOT NULL,
    -- The path of the folder of the agents' files in it, as the machine that wrote it has it.
    root       TEXT NOT NULL,
    -- Unix milliseconds by the database's clock.
    changed_at INTEGER NOT NULL,
    -- The instance id of the home that wrote it.
    changed_by TEXT NOT NULL
);
