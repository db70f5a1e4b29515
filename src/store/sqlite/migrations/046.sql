-- A random text that is another one after each change of a lease, so that who knows all leases need not read them again.
CREATE TABLE lease_change (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    mark TEXT NOT NULL
) STRICT;
