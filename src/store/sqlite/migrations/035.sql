-- The people of a home beside its owner. Lists have commas between their words; NULL stands for all. Times are Unix
-- milliseconds. The row of a removed person stays, so that nobody else gets the name of messages and of the audit.
CREATE TABLE person (
    -- In lower case, without "human:".
    name       TEXT PRIMARY KEY,
    role       TEXT NOT NULL,
    agents     TEXT,
    channels   TEXT,
    -- The budget of a day; NULL for none. The cost is in millionths of a dollar.
    day_tokens INTEGER,
    day_cost   INTEGER,
    added_by   TEXT NOT NULL,
    added_at   INTEGER NOT NULL,
    removed_at INTEGER
) STRICT, WITHOUT ROWID;

-- The person whose token it is; NULL for a client's.
ALTER TABLE client_token ADD COLUMN person TEXT;
CREATE INDEX client_token_person ON client_token (person) WHERE person IS NOT NULL;

-- The name of the person's token with which a browser signed in; NULL if it came with a code of the owner.
ALTER TABLE sign_in ADD COLUMN token TEXT;

-- The person whose budget a call of a model counts against.
ALTER TABLE usage ADD COLUMN person TEXT;
CREATE INDEX usage_of_people ON usage (day, person) WHERE person IS NOT NULL;

-- The person whose budget the calls of a task or a session count against, by its id.
CREATE TABLE person_charge (
    id     TEXT PRIMARY KEY,
    person TEXT NOT NULL
) STRICT, WITHOUT ROWID;
