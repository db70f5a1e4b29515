-- The codes with which browsers sign in to the dashboard, until they are used or expire. The codes themselves are not stored.
CREATE TABLE sign_in_code (
    id         INTEGER PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,
    -- The person whose browser signs in, without "human:".
    person     TEXT NOT NULL,
    -- The person's own token and account of OpenID Connect, with which the sign-in ends; NULL for a code of the owner.
    token      TEXT,
    oidc_issuer  TEXT,
    oidc_subject TEXT,
    -- The id of the sign-in whose browser made the code.
    made_by    TEXT,
    -- Unix milliseconds by the database's clock.
    created_at INTEGER NOT NULL
) STRICT;

-- The sign-ins whose browsers were led to a provider of OpenID Connect, until they come back.
CREATE TABLE oidc_sign_in (
    id         INTEGER PRIMARY KEY,
    -- The hashes of the state and of the browser's cookie.
    state      TEXT NOT NULL UNIQUE,
    browser    TEXT NOT NULL,
    -- The address to which the browser comes back.
    redirect   TEXT NOT NULL,
    issuer     TEXT NOT NULL,
    -- Unix milliseconds by the database's clock.
    created_at INTEGER NOT NULL
) STRICT;
