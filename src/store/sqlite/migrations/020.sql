-- The browsers that get notifications, by Web Push. A subscription ends with the sign-in of its browser.
CREATE TABLE push_subscription (
    id         TEXT PRIMARY KEY,
    sign_in    TEXT NOT NULL UNIQUE REFERENCES sign_in (id) ON DELETE CASCADE,
    -- The address at the push service. Whoever knows it and a key of the gateway can send to the browser.
    endpoint   TEXT NOT NULL UNIQUE,
    -- The browser's public key (an uncompressed point) and its secret, for the encryption.
    p256dh     BLOB NOT NULL,
    auth       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    -- How the last attempt ended; NULL before the first one.
    result     TEXT,
    result_at  INTEGER,
    -- The attempts in a row that failed.
    failures   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The notifications that were begun, one for each browser and thing. A closed one is never sent again.
CREATE TABLE push_notice (
    subscription TEXT NOT NULL REFERENCES push_subscription (id) ON DELETE CASCADE,
    subject      TEXT NOT NULL,
    attempts     INTEGER NOT NULL,
    -- Unix milliseconds before which it is not tried again.
    next_at      INTEGER NOT NULL,
    closed_at    INTEGER,
    PRIMARY KEY (subscription, subject)
) STRICT, WITHOUT ROWID;
