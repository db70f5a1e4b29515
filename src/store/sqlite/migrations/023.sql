-- Receipts: signed records of the checks that were run on a delivered tree. The document is kept byte for byte, because
-- its hash is its id and a row of the audit names it.
CREATE TABLE receipt (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    task TEXT NOT NULL,
    branch TEXT NOT NULL,
    author TEXT NOT NULL,
    tree TEXT NOT NULL,
    -- The hash of the checks that were run.
    checks TEXT NOT NULL,
    document TEXT NOT NULL,
    signature TEXT NOT NULL,
    -- The repository that has the delivered commit, relative to the home if it is in the home.
    repository TEXT NOT NULL,
    -- The row of the audit that names the receipt.
    audit_row INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX receipt_by_tree ON receipt (project, tree);
CREATE INDEX receipt_by_time ON receipt (created_at);

-- The kept output of each command of a receipt: its start and its end.
CREATE TABLE receipt_output (
    receipt TEXT NOT NULL REFERENCES receipt (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    head BLOB NOT NULL,
    tail BLOB NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (receipt, position)
) STRICT;

-- The results of checks on a base tree, by the hash of all that decides about them.
CREATE TABLE check_run (
    inputs TEXT PRIMARY KEY,
    runs TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
