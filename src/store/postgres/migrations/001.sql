-- The schema that SQLite's database has after migration 036. The texts of the store's subjects run on both, so tables,
-- columns and types have the same names and the same meaning here.
--
-- Numbers are BIGINT, also those that SQLite's migrations call flags (0 or 1): each value is read and bound as 64 bits.
--
-- Texts have the collation "C". SQLite compares texts byte by byte, and flock's ids and days rely on that order; the
-- default of a database of PostgreSQL is a person's choice. References are deferrable for the renaming of an agent, which
-- changes keys before what refers to them.

-- Equal without regard to case, as NOCASE is in SQLite. Texts that say COLLATE NOCASE find this one, because PostgreSQL
-- reads names without quotation marks in lower case. It folds more letters than those of ASCII, but ids have no others.
-- Its order differs for `-`, `_` and digits. LIKE does not work with it.
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- Functions of SQLite that PostgreSQL lacks, so that one text serves both. As there, one NULL makes the result NULL. They
-- are plain expressions, which the planner puts in place of the call.
CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END';
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END';
CREATE FUNCTION instr(haystack TEXT, needle TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT CAST(strpos(haystack, needle) AS BIGINT)';
-- The texts of a JSON list. PostgreSQL has a function of this name for JSON, so the argument has to be CAST(… AS TEXT).
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT) LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT json_array_elements_text(CAST(list AS JSON))';

CREATE TABLE session (
    key        TEXT COLLATE "C" PRIMARY KEY,
    file       TEXT COLLATE "C" NOT NULL UNIQUE,
    agent      TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('channel', 'dm', 'request', 'main')),
    state      TEXT COLLATE "C" NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    turns      BIGINT NOT NULL DEFAULT 0,
    model      TEXT COLLATE "C",
    prompt     TEXT COLLATE "C",
    -- Of all its turns that have ended; a session may have many thousands.
    input       BIGINT NOT NULL DEFAULT 0,
    output      BIGINT NOT NULL DEFAULT 0,
    cache_read  BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    -- When the conversation that a session's model is shown last began anew or was compacted: its prompt is from then.
    renewed_at BIGINT,
    -- The calls of its tools that its last turn handed to its client, and that wait for their results: a JSON list of
    -- {"id", "name"}. NULL if none do.
    pending_calls TEXT COLLATE "C"
);
-- With the key, which the indexes of SQLite's table have at their end by themselves.
CREATE INDEX session_by_update ON session (updated_at, key);
CREATE INDEX session_by_agent ON session (agent, updated_at, key);
-- A session's key is found without regard to case.
CREATE INDEX session_nocase ON session (key COLLATE nocase);

CREATE TABLE prompt (
    inputs   TEXT COLLATE "C" PRIMARY KEY,
    text     TEXT COLLATE "C" NOT NULL,
    built_at BIGINT NOT NULL
);

CREATE TABLE turn (
    id          TEXT COLLATE "C" PRIMARY KEY,
    session     TEXT COLLATE "C" NOT NULL REFERENCES session (key) ON DELETE CASCADE DEFERRABLE,
    state       TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    model       TEXT COLLATE "C" NOT NULL,
    started_at  BIGINT NOT NULL,
    ended_at    BIGINT,
    steps       BIGINT NOT NULL DEFAULT 0,
    input       BIGINT NOT NULL DEFAULT 0,
    output      BIGINT NOT NULL DEFAULT 0,
    cache_read  BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    error       TEXT COLLATE "C"
);
CREATE INDEX turn_by_session ON turn (session, id);
CREATE INDEX turn_running ON turn (session) WHERE state = 'running';

-- Channels, their members and messages.
CREATE TABLE channel (
    id             TEXT COLLATE nocase PRIMARY KEY,
    name           TEXT COLLATE "C" NOT NULL,
    topic          TEXT COLLATE "C" NOT NULL,
    created_by     TEXT COLLATE "C" NOT NULL,
    created_at     BIGINT NOT NULL,
    state          TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'archiving', 'archived')),
    -- Of an archive under way: when it began, who began it, when it ends whoever is not ready.
    archiving_at   BIGINT,
    archiving_by   TEXT COLLATE "C",
    archive_due_at BIGINT,
    archived_at    BIGINT,
    last_seq       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX channel_archiving ON channel (archive_due_at) WHERE state = 'archiving';

CREATE TABLE member (
    channel   TEXT COLLATE nocase NOT NULL REFERENCES channel (id) ON DELETE CASCADE DEFERRABLE,
    member    TEXT COLLATE "C" NOT NULL,
    joined_at BIGINT NOT NULL,
    -- Of an archive under way: when this agent said that it is ready.
    ready_at  BIGINT,
    PRIMARY KEY (channel, member)
);
CREATE INDEX member_by_member ON member (member, channel);

-- Messages that wait for a session, or that its turn was given.
CREATE TABLE inbox (
    id         TEXT COLLATE "C" PRIMARY KEY,
    session    TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('session', 'dm', 'answer', 'result', 'notice', 'resume')),
    sender     TEXT COLLATE "C" NOT NULL,
    text       TEXT COLLATE "C" NOT NULL,
    task       TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    -- The turn it was given to; without one it waits.
    turn       TEXT COLLATE "C",
    attempts   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX inbox_by_session ON inbox (session, id);
CREATE INDEX inbox_by_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_by_task ON inbox (task) WHERE task IS NOT NULL;

CREATE TABLE message (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    channel    TEXT COLLATE nocase NOT NULL REFERENCES channel (id) ON DELETE CASCADE DEFERRABLE,
    seq        BIGINT NOT NULL,
    author     TEXT COLLATE "C" NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    -- Whom it wakes: 0 nobody, 1 in time, 2 at once; what it mentions, with a space before and after each.
    wake       BIGINT NOT NULL DEFAULT 1 CHECK (wake BETWEEN 0 AND 2),
    mentions   TEXT COLLATE "C",
    turn       TEXT COLLATE "C",
    -- Whether it is the final text of its turn, which is posted once.
    is_final   BIGINT NOT NULL DEFAULT 0 CHECK (is_final IN (0, 1)),
    -- The person whose budget what it leads to counts against, without "human:"; NULL for that of its author. A message of a
    -- schedule or a webhook has the one who added it.
    person     TEXT COLLATE "C",
    UNIQUE (channel, seq)
);
CREATE INDEX message_waking ON message (channel, seq) WHERE wake > 0;
CREATE UNIQUE INDEX message_final ON message (turn) WHERE is_final = 1;
CREATE INDEX message_by_turn ON message (turn) WHERE turn IS NOT NULL;
CREATE INDEX message_by_human ON message (channel, created_at) WHERE author >= 'human:' AND author < 'human;';
CREATE INDEX message_by_payer ON message (channel, seq)
    WHERE person IS NOT NULL OR (author >= 'human:' AND author < 'human;');

-- How far an agent has been given a channel, and what the turn under way was given.
CREATE TABLE delivery (
    agent         TEXT COLLATE "C" NOT NULL,
    channel       TEXT COLLATE nocase NOT NULL REFERENCES channel (id) ON DELETE CASCADE DEFERRABLE,
    delivered_seq BIGINT NOT NULL DEFAULT 0,
    inflight_seq  BIGINT,
    inflight_turn TEXT COLLATE "C",
    PRIMARY KEY (agent, channel)
);
CREATE INDEX delivery_inflight ON delivery (inflight_turn) WHERE inflight_turn IS NOT NULL;

-- How an agent stands in the team's loop.
CREATE TABLE agent_state (
    agent        TEXT COLLATE "C" PRIMARY KEY,
    asleep_at    BIGINT,
    sleep_reason TEXT COLLATE "C",
    frozen_at    BIGINT,
    frozen_by    TEXT COLLATE "C",
    last_turn_at BIGINT,
    -- Whom a person let go on although the home is frozen.
    spared BIGINT NOT NULL DEFAULT 0 CHECK (spared IN (0, 1)),
    -- The reason that was given for a freeze, in one line.
    freeze_reason TEXT COLLATE "C",
    -- The time of the last run of a schedule that the agent asked for. It outlives the schedule, so that removing one
    -- and asking for another makes no run come sooner.
    scheduled_at BIGINT
);

-- What was done by whom, each row chained to the one before it.
CREATE TABLE audit (
    -- Without a gap, which a sequence does not promise: whoever adds a row numbers it.
    id       BIGINT PRIMARY KEY,
    at       BIGINT NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL,
    action   TEXT COLLATE "C" NOT NULL,
    subject  TEXT COLLATE "C" NOT NULL,
    level    TEXT COLLATE "C" NOT NULL CHECK (level IN ('GREEN', 'YELLOW', 'RED')),
    detail   TEXT COLLATE "C" NOT NULL,
    session  TEXT COLLATE "C",
    turn     TEXT COLLATE "C",
    previous BYTEA NOT NULL,
    hash     BYTEA NOT NULL
);
CREATE INDEX audit_by_actor ON audit (actor, id);
CREATE INDEX audit_chat ON audit (subject, at) WHERE action = 'chat.turn';

-- What one party asked of an agent: a direct message, or a request that came by A2A.
CREATE TABLE task (
    id           TEXT COLLATE "C" PRIMARY KEY,
    context      TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL CHECK (kind IN ('message', 'a2a')),
    requester    TEXT COLLATE "C" NOT NULL,
    -- The requester's session, which is given the answer; nothing for A2A, where it is fetched.
    origin       TEXT COLLATE "C",
    assignee     TEXT COLLATE "C" NOT NULL,
    session      TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL CHECK (state IN
        ('submitted', 'working', 'input-required', 'completed', 'failed', 'canceled', 'rejected')),
    summary      TEXT COLLATE "C" NOT NULL,
    request      TEXT COLLATE "C" NOT NULL,
    -- What the assignee asked back last, in which turn, and what it was told.
    question     TEXT COLLATE "C",
    asked_in     TEXT COLLATE "C",
    reply        TEXT COLLATE "C",
    -- What came of it: the answer, or why there is none.
    response     TEXT COLLATE "C",
    turn         TEXT COLLATE "C",
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    completed_at BIGINT,
    -- A task with a project is done only when the project's tip has what was submitted for it. `delivered_in` is the
    -- turn that said that it is done.
    project TEXT COLLATE "C",
    delivered_in TEXT COLLATE "C",
    reminders BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX task_by_requester ON task (requester, id);
CREATE INDEX task_by_assignee ON task (assignee, state);
CREATE INDEX task_open ON task (id) WHERE state IN ('submitted', 'working', 'input-required');

-- What an agent says of itself, where it has said something.
CREATE TABLE card (
    agent       TEXT COLLATE "C" PRIMARY KEY,
    name        TEXT COLLATE "C",
    description TEXT COLLATE "C",
    skills      TEXT COLLATE "C",
    updated_at  BIGINT NOT NULL
);

-- What agents sent directly to one another, in outline: what the brakes look at. `pair` is both ids, sorted.
CREATE TABLE exchange (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    pair       TEXT COLLATE "C" NOT NULL,
    sender     TEXT COLLATE "C" NOT NULL,
    receiver   TEXT COLLATE "C" NOT NULL,
    start      TEXT COLLATE "C" NOT NULL,
    length     BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX exchange_by_pair ON exchange (pair, id);

-- What models were asked, one row for each call: set aside before it, settled after it.
CREATE TABLE usage (
    -- Chosen by the gateway, which settles the call by it later.
    id          BIGINT PRIMARY KEY,
    at          BIGINT NOT NULL,
    -- The day in the zone of the machine, as 2026-02-28.
    day         TEXT COLLATE "C" NOT NULL,
    agent       TEXT COLLATE "C" NOT NULL,
    session     TEXT COLLATE "C" NOT NULL,
    channel     TEXT COLLATE nocase NOT NULL DEFAULT '',
    turn        TEXT COLLATE "C" NOT NULL,
    model       TEXT COLLATE "C" NOT NULL,
    input       BIGINT NOT NULL,
    output      BIGINT NOT NULL,
    cache_read  BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    -- In millionths of a dollar; NULL where the model's price is not known.
    cost        BIGINT,
    state       TEXT COLLATE "C" NOT NULL CHECK (state IN ('reserved', 'settled')),
    -- The MCP server that asked for a call of a model. NULL for the agent's own calls.
    server TEXT COLLATE "C",
    -- The person whose budget the call counts against.
    person      TEXT COLLATE "C"
);
CREATE INDEX usage_of_people ON usage (day, person) WHERE person IS NOT NULL;
CREATE INDEX usage_reserved ON usage (id) WHERE state = 'reserved';
-- The cost of the hours of a day is read from the single calls.
CREATE INDEX usage_at ON usage (at);
CREATE INDEX usage_turn ON usage (turn);
CREATE INDEX usage_of_servers ON usage (day, server, agent) WHERE server IS NOT NULL;

-- The sums of these rows, kept for each day.
CREATE TABLE usage_sum (
    day         TEXT COLLATE "C" NOT NULL,
    agent       TEXT COLLATE "C" NOT NULL,
    channel     TEXT COLLATE nocase NOT NULL,
    model       TEXT COLLATE "C" NOT NULL,
    calls       BIGINT NOT NULL,
    -- Calls of models whose price is not known.
    unpriced    BIGINT NOT NULL,
    input       BIGINT NOT NULL,
    output      BIGINT NOT NULL,
    cache_read  BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    cost        BIGINT NOT NULL,
    PRIMARY KEY (day, agent, channel, model)
);

-- In which channel it was said already that a budget is used up.
CREATE TABLE budget_notice (
    day     TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE nocase NOT NULL,
    budget  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (day, channel, budget)
);

-- The last of the audit's rows that are not kept any more.
CREATE TABLE audit_base (
    id   BIGINT NOT NULL,
    hash BYTEA NOT NULL
);

-- That a person froze the whole home: one row, or none.
CREATE TABLE home_freeze (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    at  BIGINT NOT NULL,
    by  TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C"
);

-- Which channel pays for a task, or for a session that an agent began for itself, where it is not its own.
CREATE TABLE charge (
    id      TEXT COLLATE "C" PRIMARY KEY,
    channel TEXT COLLATE nocase NOT NULL
);

-- What an agent program knows a session's conversation by. Another conversation, prompt or place needs a new one.
CREATE TABLE program_conversation (
    session    TEXT COLLATE "C" NOT NULL REFERENCES session (key) ON DELETE CASCADE DEFERRABLE,
    program    TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    turn       TEXT COLLATE "C" NOT NULL,
    -- What it was begun with: flock's own name of the conversation, where the program ran, the digest of its prompt.
    conversation TEXT COLLATE "C" NOT NULL,
    place      TEXT COLLATE "C" NOT NULL,
    prompt     TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (session, program)
);

-- What the idempotency keys of clients stand for, for a day. There is no answer while the first request is on its way.
CREATE TABLE idempotency_key (
    caller     TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    -- Of the request: the same key with another one is refused.
    digest     TEXT COLLATE "C" NOT NULL,
    session    TEXT COLLATE "C",
    turn       TEXT COLLATE "C",
    answer     TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    PRIMARY KEY (caller, name)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

-- What was said in a task that came by A2A, under the names that its client gave its own messages.
CREATE TABLE task_message (
    task       TEXT COLLATE "C" NOT NULL REFERENCES task (id) ON DELETE CASCADE DEFERRABLE,
    seq        BIGINT NOT NULL,
    is_client  BIGINT NOT NULL,
    name       TEXT COLLATE "C",
    text       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (task, seq)
);

-- The tokens of clients: what each may do, for which agents and how long. Only a hash of the token itself is kept.
CREATE TABLE client_token (
    name       TEXT COLLATE nocase NOT NULL PRIMARY KEY,
    hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    -- Ids with a comma between them; null stands for all agents.
    agents     TEXT COLLATE "C",
    rights     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    -- A token that is made under the name of a revoked one is another client: which one of its name it is.
    generation BIGINT NOT NULL DEFAULT 1,
    -- The person whose token it is; NULL for a client's.
    person     TEXT COLLATE "C",
    -- Unix milliseconds of the last use, about a minute exact. NULL until it was used.
    used_at    BIGINT
);
CREATE INDEX client_token_person ON client_token (person) WHERE person IS NOT NULL;

CREATE TABLE link (
    id         TEXT COLLATE "C" PRIMARY KEY,
    channel    TEXT COLLATE nocase NOT NULL REFERENCES channel (id) ON DELETE CASCADE DEFERRABLE,
    bridge     TEXT COLLATE nocase NOT NULL,
    -- The platform's id of its channel, and the name that people know it by.
    external   TEXT COLLATE "C" NOT NULL,
    title      TEXT COLLATE "C" NOT NULL,
    -- Paused by a person, or stopped because the channel is archived.
    state      TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'archived')),
    -- Set if it also passes on what people said on other platforms.
    is_cross   BIGINT NOT NULL DEFAULT 0,
    -- The accounts that are heard, as a JSON list of the platform's ids; ["*"] hears everybody in the channel.
    hears      TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    -- Set if programs among them are heard too.
    hears_bots BIGINT NOT NULL DEFAULT 0,
    created_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    -- Set while the pause of a link is a person's, which no agent ends.
    paused_by_person BIGINT NOT NULL DEFAULT 0,
    UNIQUE (bridge, external)
);
CREATE INDEX link_channel ON link (channel);

CREATE TABLE outbox (
    -- Never used twice: it is part of the key by which a platform recognises a message that is sent again.
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    link       TEXT COLLATE "C" NOT NULL REFERENCES link (id) ON DELETE CASCADE DEFERRABLE,
    channel    TEXT COLLATE "C" NOT NULL,
    -- The message to send; NULL is a word to the other side about the channel itself, in `notice`.
    seq        BIGINT,
    notice     TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    -- The number of its parts that were sent.
    sent       BIGINT NOT NULL DEFAULT 0,
    -- Set if an attempt at the next part began whose result is not known.
    begun      BIGINT NOT NULL DEFAULT 0,
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT NOT NULL DEFAULT 0,
    UNIQUE (link, seq)
);

-- Messages that both sides have: for replies, and so that none is taken or sent twice.
CREATE TABLE linked_message (
    link       TEXT COLLATE "C" NOT NULL REFERENCES link (id) ON DELETE CASCADE DEFERRABLE,
    external   TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (link, external)
);
CREATE INDEX linked_message_seq ON linked_message (link, seq);

-- Earlier texts of messages that people changed or deleted on their platform.
CREATE TABLE message_edit (
    channel    TEXT COLLATE nocase NOT NULL REFERENCES channel (id) ON DELETE CASCADE DEFERRABLE,
    seq        BIGINT NOT NULL,
    -- The time of the change, in Unix milliseconds.
    at         BIGINT NOT NULL,
    content    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX message_edit_seq ON message_edit (channel, seq);

-- Accounts that are not heard over a link and were told so.
CREATE TABLE told_account (
    link       TEXT COLLATE "C" NOT NULL REFERENCES link (id) ON DELETE CASCADE DEFERRABLE,
    account    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (link, account)
);

-- Tasks that people gave by a message to flock's account, with the place where the answer goes.
CREATE TABLE direct_message (
    task       TEXT COLLATE "C" PRIMARY KEY,
    bridge     TEXT COLLATE nocase NOT NULL,
    -- The platform's ids of the conversation and of the message.
    external   TEXT COLLATE "C" NOT NULL,
    message    TEXT COLLATE "C" NOT NULL,
    -- The time of the task's question that was sent last.
    asked_at   BIGINT NOT NULL DEFAULT 0,
    -- As in the outbox.
    sent       BIGINT NOT NULL DEFAULT 0,
    begun      BIGINT NOT NULL DEFAULT 0,
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX direct_message_place ON direct_message (bridge, external);

-- The place in a bridge's stream of events up to which everything was taken.
CREATE TABLE bridge_cursor (
    bridge     TEXT COLLATE nocase PRIMARY KEY,
    cursor     TEXT COLLATE "C" NOT NULL
);

-- The people behind accounts of platforms. Several accounts may belong to one person.
CREATE TABLE account (
    platform   TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    person     TEXT COLLATE "C" NOT NULL,
    username   TEXT COLLATE "C" NOT NULL,
    -- Who bound the account to the person; NULL if the account's first message made the person.
    bound_by   TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    PRIMARY KEY (platform, id)
);
CREATE INDEX account_person ON account (person);

-- Messages on other platforms that show a waiting request, and by which it can be decided.
CREATE TABLE decision_message (
    -- Never used twice: it is part of the key by which a platform recognises a message that is sent again.
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    link       TEXT COLLATE "C" NOT NULL REFERENCES link (id) ON DELETE CASCADE DEFERRABLE,
    request    TEXT COLLATE "C" NOT NULL,
    -- The digest of the body that is shown.
    sha256     TEXT COLLATE "C" NOT NULL,
    -- By which a reply names it. NULL if the request can't be shown whole there, and so can't be decided there.
    code       TEXT COLLATE "C" UNIQUE,
    -- The platform's id of the message, once it is known.
    message    TEXT COLLATE "C",
    -- Set once an attempt at sending it began.
    begun      BIGINT NOT NULL DEFAULT 0,
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    -- Set once the message says how the request ended, or can't say it.
    closed_at  BIGINT,
    UNIQUE (link, request)
);
CREATE INDEX decision_message_open ON decision_message (link) WHERE closed_at IS NULL;
CREATE INDEX decision_message_external ON decision_message (message) WHERE message IS NOT NULL;

-- Messages over bridges, by the day in this machine's time zone.
CREATE TABLE bridge_traffic (
    day        TEXT COLLATE "C" NOT NULL,
    bridge     TEXT COLLATE nocase NOT NULL,
    received   BIGINT NOT NULL DEFAULT 0,
    sent       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (day, bridge)
);

-- The browsers that are signed in to the dashboard. The cookie itself is not stored.
CREATE TABLE sign_in (
    id         TEXT COLLATE "C" PRIMARY KEY,
    hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    -- The person who signed in, without "human:".
    person     TEXT COLLATE "C" NOT NULL,
    -- What the browser says of itself.
    browser    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    -- The name of the person's token with which a browser signed in; NULL if it came with a code of the owner.
    token      TEXT COLLATE "C",
    -- The account of OpenID Connect with which it signed in; NULL if it came with a code or a token.
    oidc_issuer  TEXT COLLATE "C",
    oidc_subject TEXT COLLATE "C"
);

-- The codes with which browsers sign in to the dashboard, until they are used or expire. The codes themselves are not stored.
CREATE TABLE sign_in_code (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    -- The person whose browser signs in, without "human:".
    person     TEXT COLLATE "C" NOT NULL,
    -- The person's own token and account of OpenID Connect, with which the sign-in ends; NULL for a code of the owner.
    token      TEXT COLLATE "C",
    oidc_issuer  TEXT COLLATE "C",
    oidc_subject TEXT COLLATE "C",
    -- The id of the sign-in whose browser made the code.
    made_by    TEXT COLLATE "C",
    -- Unix milliseconds by the database's clock.
    created_at BIGINT NOT NULL
);

-- The sign-ins whose browsers were led to a provider of OpenID Connect, until they come back.
CREATE TABLE oidc_sign_in (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    -- The hashes of the state and of the browser's cookie.
    state      TEXT COLLATE "C" NOT NULL UNIQUE,
    browser    TEXT COLLATE "C" NOT NULL,
    -- The address to which the browser comes back.
    redirect   TEXT COLLATE "C" NOT NULL,
    issuer     TEXT COLLATE "C" NOT NULL,
    -- Unix milliseconds by the database's clock.
    created_at BIGINT NOT NULL
);

-- The browsers that get notifications, by Web Push. A subscription ends with the sign-in of its browser.
CREATE TABLE push_subscription (
    id         TEXT COLLATE "C" PRIMARY KEY,
    sign_in    TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES sign_in (id) ON DELETE CASCADE DEFERRABLE,
    -- The address at the push service. Whoever knows it and a key of the gateway can send to the browser.
    endpoint   TEXT COLLATE "C" NOT NULL UNIQUE,
    -- The browser's public key (an uncompressed point) and its secret, for the encryption.
    p256dh     BYTEA NOT NULL,
    auth       BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    -- How the last attempt ended; NULL before the first one.
    result     TEXT COLLATE "C",
    result_at  BIGINT,
    -- The attempts in a row that failed.
    failures   BIGINT NOT NULL DEFAULT 0
);

-- The notifications that were begun, one for each browser and thing. A closed one is never sent again.
CREATE TABLE push_notice (
    subscription TEXT COLLATE "C" NOT NULL REFERENCES push_subscription (id) ON DELETE CASCADE DEFERRABLE,
    subject      TEXT COLLATE "C" NOT NULL,
    attempts     BIGINT NOT NULL,
    -- Unix milliseconds before which it is not tried again.
    next_at      BIGINT NOT NULL,
    closed_at    BIGINT,
    PRIMARY KEY (subscription, subject)
);

-- Branches of agents that are to be joined with their project, and what became of them.
CREATE TABLE submission (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    project    TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    branch     TEXT COLLATE "C" NOT NULL,
    -- The branch's commit when it was submitted. Exactly this one is joined.
    commit_id  TEXT COLLATE "C" NOT NULL,
    title      TEXT COLLATE "C" NOT NULL,
    -- The session that submitted it, which is told the outcome.
    session    TEXT COLLATE "C",
    -- The task of the team that it is for.
    task       TEXT COLLATE "C",
    state      TEXT COLLATE "C" NOT NULL,
    -- The tip that it was joined with, and the result. NULL before that.
    base       TEXT COLLATE "C",
    candidate  TEXT COLLATE "C",
    -- What became of it, in words: the log of a failed check, the paths of a conflict.
    detail     TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Why a person has to accept it, as a JSON list.
    reasons    TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    receipt    TEXT COLLATE "C",
    -- The candidate that passed its checks.
    checked    TEXT COLLATE "C",
    -- The agent that was asked to review it, and when it approved.
    reviewer    TEXT COLLATE "C",
    reviewed_at BIGINT,
    -- The person who accepted it.
    accepted_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX submission_open ON submission (project, state, id);
CREATE INDEX submission_task ON submission (task) WHERE task IS NOT NULL;

-- What reviewers found.
CREATE TABLE finding (
    id          BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    submission  BIGINT NOT NULL REFERENCES submission (id) ON DELETE CASCADE DEFERRABLE,
    reviewer    TEXT COLLATE "C" NOT NULL,
    is_blocking BIGINT NOT NULL,
    path        TEXT COLLATE "C",
    line        BIGINT,
    content     TEXT COLLATE "C" NOT NULL,
    answer      TEXT COLLATE "C",
    created_at  BIGINT NOT NULL
);
CREATE INDEX finding_submission ON finding (submission);

-- The paths of a project that agents announced they work on.
CREATE TABLE claim (
    project    TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (project, agent, path)
);

-- Receipts: signed records of the checks that were run on a delivered tree. The document is kept byte for byte, because
-- its hash is its id and a row of the audit names it.
CREATE TABLE receipt (
    id TEXT COLLATE "C" PRIMARY KEY,
    project TEXT COLLATE "C" NOT NULL,
    task TEXT COLLATE "C" NOT NULL,
    branch TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    tree TEXT COLLATE "C" NOT NULL,
    -- The hash of the checks that were run.
    checks TEXT COLLATE "C" NOT NULL,
    document TEXT COLLATE "C" NOT NULL,
    signature TEXT COLLATE "C" NOT NULL,
    -- The repository that has the delivered commit, relative to the home if it is in the home.
    repository TEXT COLLATE "C" NOT NULL,
    -- The row of the audit that names the receipt.
    audit_row BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    -- The order in which receipts of the same millisecond were made. Tables of SQLite have this column by themselves.
    rowid BIGINT GENERATED BY DEFAULT AS IDENTITY
);
CREATE INDEX receipt_by_tree ON receipt (project, tree);
CREATE INDEX receipt_by_time ON receipt (created_at);

-- The kept output of each command of a receipt: its start and its end.
CREATE TABLE receipt_output (
    receipt TEXT COLLATE "C" NOT NULL REFERENCES receipt (id) ON DELETE CASCADE DEFERRABLE,
    position BIGINT NOT NULL,
    head BYTEA NOT NULL,
    tail BYTEA NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (receipt, position)
);

-- The results of checks on a base tree, by the hash of all that decides about them.
CREATE TABLE check_run (
    inputs TEXT COLLATE "C" PRIMARY KEY,
    runs TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

-- Races: copies of a channel's team that work on the same task, and what became of them.
CREATE TABLE race (
    -- Chosen before the race is written, because the copies of its team have it in their names.
    id         BIGINT PRIMARY KEY,
    project    TEXT COLLATE "C" NOT NULL,
    -- The channel whose team was copied.
    channel    TEXT COLLATE nocase NOT NULL,
    task       TEXT COLLATE "C" NOT NULL,
    -- The tip with which everything is joined that the copies submit.
    base       TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    -- The budget of all copies together: tokens, and millionths of a dollar.
    tokens     BIGINT,
    cost       BIGINT,
    ends_at    BIGINT,
    -- When a call of a model was refused because the budget had no more room for it.
    spent_at   BIGINT,
    -- The number of the copy that won, who chose it, and why.
    winner     BIGINT,
    chosen_by  TEXT COLLATE "C",
    why        TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- 0: something that the state asks for is still to be done; 1: it is done; 2: nothing will follow.
    settled    BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    decided_at BIGINT,
    dropped_at BIGINT
);
CREATE INDEX race_open ON race (id) WHERE settled < 2;

-- The copies of a race. What they delivered is written down with the decision.
CREATE TABLE race_copy (
    race       BIGINT NOT NULL REFERENCES race (id) ON DELETE CASCADE DEFERRABLE,
    number     BIGINT NOT NULL,
    channel    TEXT COLLATE nocase NOT NULL,
    submission BIGINT,
    -- How it ended, and why it won or lost, in words.
    ended      TEXT COLLATE "C" NOT NULL DEFAULT '',
    why        TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (race, number)
);

-- The agents of the copies, and whose copies they are.
CREATE TABLE race_agent (
    agent    TEXT COLLATE "C" PRIMARY KEY,
    race     BIGINT NOT NULL REFERENCES race (id) ON DELETE CASCADE DEFERRABLE,
    number   BIGINT NOT NULL,
    original TEXT COLLATE "C" NOT NULL
);
CREATE INDEX race_agent_race ON race_agent (race, number);

-- Channel messages that were deleted or changed, for the search indexes, which are files of their own. Each takes them in
-- order, and the oldest rows are deleted. New messages need none: an index remembers the last id that it has.
CREATE TABLE search_mark (
    id      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    message BIGINT NOT NULL
);

-- The answers of the Responses API that clients may read again and continue. `turn` is the turn that gave it.
CREATE TABLE response (
    turn       TEXT COLLATE "C" PRIMARY KEY,
    session    TEXT COLLATE "C" NOT NULL REFERENCES session (key) ON DELETE CASCADE DEFERRABLE,
    -- The whole answer as JSON. Empty if a client deleted it.
    body       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX response_session ON response (session, created_at, turn);

-- Schedules: texts that are given to a channel or an agent at certain times, and what became of each time.
CREATE TABLE schedule (
    id           BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL UNIQUE,
    -- The recipient: one of these two.
    agent        TEXT COLLATE "C",
    channel      TEXT COLLATE nocase,
    -- When it runs: cron (pattern, zone), every (period from at on), at (at), after (pattern is the event's name).
    kind         TEXT COLLATE "C" NOT NULL CHECK (kind IN ('cron', 'every', 'at', 'after')),
    pattern      TEXT COLLATE "C" NOT NULL DEFAULT '',
    zone         TEXT COLLATE "C" NOT NULL DEFAULT '',
    period       BIGINT NOT NULL DEFAULT 0,
    at           BIGINT NOT NULL DEFAULT 0,
    text         TEXT COLLATE "C" NOT NULL,
    -- What becomes of times that passed while nothing could run: once, skip or all.
    missed       TEXT COLLATE "C" NOT NULL CHECK (missed IN ('once', 'skip', 'all')),
    -- The budget of a day: tokens, and millionths of a dollar.
    tokens       BIGINT,
    cost         BIGINT,
    created_by   TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    -- Why is for a schedule that flock has paused.
    state        TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'done')),
    why          TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Every time up to this one has its row below.
    covered_at   BIGINT NOT NULL,
    -- The latest time whose row was deleted for its age.
    pruned_until BIGINT NOT NULL DEFAULT 0,
    -- The event that the next run follows.
    event        TEXT COLLATE "C",
    event_at     BIGINT,
    CHECK ((agent IS NULL) <> (channel IS NULL))
);

-- The times of a schedule that have passed. Each has one row, which is written together with what it caused.
CREATE TABLE schedule_slot (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    schedule   BIGINT NOT NULL REFERENCES schedule (id) ON DELETE CASCADE DEFERRABLE,
    cause      TEXT COLLATE "C" NOT NULL CHECK (cause IN ('time', 'person', 'event')),
    slot       BIGINT NOT NULL,
    -- A row may stand for several missed times: slot is the first then, last the last, and count their number.
    last       BIGINT NOT NULL,
    count      BIGINT NOT NULL DEFAULT 1,
    outcome    TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('ran', 'missed', 'skipped')),
    why        TEXT COLLATE "C" NOT NULL DEFAULT '',
    event      TEXT COLLATE "C",
    handled_at BIGINT NOT NULL,
    -- What it caused: a message in a channel, or a task of an agent.
    channel    TEXT COLLATE nocase,
    seq        BIGINT,
    task       TEXT COLLATE "C"
);
CREATE UNIQUE INDEX schedule_slot_once ON schedule_slot (schedule, slot) WHERE cause = 'time';
CREATE UNIQUE INDEX schedule_slot_event ON schedule_slot (schedule, event) WHERE event IS NOT NULL;
CREATE INDEX schedule_slot_message ON schedule_slot (channel, seq) WHERE seq IS NOT NULL;
CREATE INDEX schedule_slot_task ON schedule_slot (task) WHERE task IS NOT NULL;

-- The turns that a schedule caused. Their use of models counts towards its budget.
CREATE TABLE schedule_turn (
    turn     TEXT COLLATE "C" NOT NULL,
    schedule BIGINT NOT NULL REFERENCES schedule (id) ON DELETE CASCADE DEFERRABLE,
    PRIMARY KEY (turn, schedule)
);
CREATE INDEX schedule_turn_schedule ON schedule_turn (schedule);

-- What agents asked for that is not theirs to do, what was decided, and what came of it. A finished one of kind egress or
-- mount is a grant until it is revoked. The kinds are checked by the code that reads a request, so there is no list of
-- them here.
CREATE TABLE request (
    id          TEXT COLLATE "C" PRIMARY KEY,
    kind        TEXT COLLATE "C" NOT NULL,
    agent       TEXT COLLATE "C" NOT NULL,
    session     TEXT COLLATE "C" NOT NULL,
    channel     TEXT COLLATE "C",
    -- What exactly would be done, and its SHA-256 in hex.
    body        TEXT COLLATE "C" NOT NULL,
    sha256      TEXT COLLATE "C" NOT NULL,
    -- In the agent's own words.
    reason      TEXT COLLATE "C" NOT NULL,
    floor       TEXT COLLATE "C" NOT NULL CHECK (floor IN ('GREEN', 'YELLOW', 'RED')),
    level       TEXT COLLATE "C" NOT NULL CHECK (level IN ('GREEN', 'YELLOW', 'RED')),
    -- Why it has that level: a JSON list.
    why         TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL CHECK (state IN
        ('triage', 'waiting', 'approved', 'running', 'done', 'failed', 'denied', 'expired')),
    scope       TEXT COLLATE "C" NOT NULL CHECK (scope IN ('once', 'agent')),
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    decided_by  TEXT COLLATE "C",
    decided_at  BIGINT,
    -- The digest of what the person who approved it was shown.
    approved    TEXT COLLATE "C",
    used_at     BIGINT,
    ended_at    BIGINT,
    result      TEXT COLLATE "C",
    revoked_at  BIGINT,
    -- When the sysadmin was given what came of a request for review.
    reviewed_at BIGINT,
    -- Who took back what it granted: it counts as a denial of the same for that agent until a person says otherwise. It
    -- is empty where the grant only ended with its agent.
    revoked_by  TEXT COLLATE "C",
    -- 1 while it waits for the sysadmin's word.
    asks_sysadmin BIGINT NOT NULL DEFAULT 0,
    -- 1 on the hosts that were granted before a person was asked about new ones: they stay, and are listed once.
    to_list     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX request_open ON request (created_at) WHERE state IN ('triage', 'waiting', 'approved', 'running');
CREATE INDEX request_by_time ON request (created_at);
CREATE INDEX request_grant ON request (agent, kind) WHERE state = 'done' AND scope = 'agent';
CREATE INDEX request_to_review ON request (ended_at) WHERE level = 'YELLOW' AND reviewed_at IS NULL;

-- Tools of MCP servers that a person has seen, and the agents that may call them.
CREATE TABLE mcp_tool (
    server     TEXT COLLATE "C" NOT NULL,
    -- The server's own name of the tool.
    tool       TEXT COLLATE "C" NOT NULL,
    -- The definition that a person has seen, as canonical JSON, and its SHA-256 in hex. Only this one is offered.
    definition TEXT COLLATE "C" NOT NULL,
    sha256     TEXT COLLATE "C" NOT NULL,
    -- Another definition that the server has sent since. NULL while it sends the one above. The tool waits for a person.
    changed_definition TEXT COLLATE "C",
    changed_sha256     TEXT COLLATE "C",
    changed_at         BIGINT,
    -- The person who has seen the definition.
    seen_by    TEXT COLLATE "C" NOT NULL,
    seen_at    BIGINT NOT NULL,
    PRIMARY KEY (server, tool)
);

CREATE TABLE mcp_grant (
    server     TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    tool       TEXT COLLATE "C" NOT NULL,
    -- 1 if the agent may call it although its autonomy is readonly.
    readonly_ok BIGINT NOT NULL,
    granted_by TEXT COLLATE "C" NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (server, agent, tool),
    FOREIGN KEY (server, tool) REFERENCES mcp_tool (server, tool) ON DELETE CASCADE DEFERRABLE
);
CREATE INDEX mcp_grant_agent ON mcp_grant (agent);

-- Webhooks: texts that other services send to a channel.
CREATE TABLE hook (
    id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    channel    TEXT COLLATE nocase NOT NULL,
    -- How a sender signs: github, gitlab or generic.
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('github', 'gitlab', 'generic')),
    -- Empty for the built-in template of the kind.
    template   TEXT COLLATE "C" NOT NULL,
    added_by   TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    -- Why is for a hook that flock has paused.
    state      TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
    why        TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX hook_channel ON hook (channel);

-- What came with a good signature. Each has one row, which is written together with its message.
CREATE TABLE hook_delivery (
    id          BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    hook        BIGINT NOT NULL REFERENCES hook (id) ON DELETE CASCADE DEFERRABLE,
    -- SHA-256 of what was signed: the same content is taken once.
    digest      TEXT COLLATE "C" NOT NULL,
    -- The sender's own names for it.
    delivery    TEXT COLLATE "C" NOT NULL,
    event       TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    outcome     TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('posted', 'ignored')),
    why         TEXT COLLATE "C" NOT NULL DEFAULT '',
    seq         BIGINT,
    UNIQUE (hook, digest)
);
CREATE INDEX hook_delivery_message ON hook_delivery (hook, seq) WHERE seq IS NOT NULL;

-- The credentials whose quota is used up, by the model that was refused. `credential` is a keyed digest or a name, never
-- the key. Times are Unix milliseconds.
CREATE TABLE quota_park (
    credential TEXT COLLATE "C" NOT NULL,
    model      TEXT COLLATE "C" NOT NULL,
    -- The name for people: the provider's, or that of the program whose login it is.
    name       TEXT COLLATE "C" NOT NULL,
    since      BIGINT NOT NULL,
    noted      BIGINT NOT NULL,
    until      BIGINT NOT NULL,
    -- 1 if the provider named the time.
    named      BIGINT NOT NULL,
    refusals   BIGINT NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (credential, model)
);

-- What a person lets MCP servers ask for while an agent calls them: answers of the agent's model (sampling),
-- answers of a person (elicitation).
CREATE TABLE mcp_capability (
    server     TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    -- The protocol's name.
    capability TEXT COLLATE "C" NOT NULL,
    granted_by TEXT COLLATE "C" NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (server, agent, capability)
);
CREATE INDEX mcp_capability_agent ON mcp_capability (agent);

-- What goes with a message that is deleted, in retention or with its channel.
CREATE FUNCTION message_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM linked_message WHERE seq = old.seq AND link IN (SELECT id FROM link WHERE channel = old.channel);
    DELETE FROM message_edit WHERE channel = old.channel AND seq = old.seq;
    INSERT INTO search_mark (message) VALUES (old.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER message_deleted AFTER DELETE ON message FOR EACH ROW EXECUTE FUNCTION message_deleted();

CREATE FUNCTION message_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO search_mark (message) VALUES (new.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER message_changed AFTER UPDATE OF content ON message FOR EACH ROW EXECUTE FUNCTION message_changed();

-- The words of messages, in place of SQLite's table `message_text`. Both split a text at everything that is no letter or
-- digit, and compare without case and without marks on letters: `fold` does here what the tokenizer does there. The rules
-- of ICU are named, because those of the database may know the letters of ASCII only.
CREATE FUNCTION fold(content TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$SELECT lower(regexp_replace(normalize(content, NFD), '[\u0300-\u036f]+', '', 'g') COLLATE "und-x-icu")$$;

-- PostgreSQL refuses the words of a text if they take more than a megabyte. What is after the cut is not found.
--
-- It is no SQL function, because the planner would put that in place of its call and forget its cost, and then look at
-- each message instead of at the index. It does not call `fold`, because an index is also made where no function of this
-- schema has a name: when a dump is restored, and by newer versions in all maintenance.
CREATE FUNCTION words(content TEXT) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10000 AS $$
DECLARE
    plain TEXT := regexp_replace(normalize(left(content, 200000), NFD), '[\u0300-\u036f]+', '', 'g');
BEGIN
    RETURN to_tsvector('pg_catalog.simple', regexp_replace(lower(left(plain, 200000) COLLATE "und-x-icu"),
        '[^[:alnum:]]+', ' ', 'g'));
END
$$;

CREATE INDEX message_words ON message USING gin (words(content));

-- The people of a home beside its owner. Lists have commas between their words; NULL stands for all. Times are Unix
-- milliseconds. The row of a removed person stays, so that nobody else gets the name of messages and of the audit.
CREATE TABLE person (
    -- In lower case, without "human:".
    name       TEXT COLLATE "C" PRIMARY KEY,
    role       TEXT COLLATE "C" NOT NULL,
    agents     TEXT COLLATE "C",
    channels   TEXT COLLATE "C",
    -- The budget of a day; NULL for none. The cost is in millionths of a dollar.
    day_tokens BIGINT,
    day_cost   BIGINT,
    added_by   TEXT COLLATE "C" NOT NULL,
    added_at   BIGINT NOT NULL,
    removed_at BIGINT,
    -- The account at the provider of OpenID Connect: its issuer, and the subject there. The e-mail address stands for the
    -- subject until somebody has signed in with it.
    oidc_issuer  TEXT COLLATE "C",
    oidc_subject TEXT COLLATE "C",
    oidc_email   TEXT COLLATE "C"
);
CREATE UNIQUE INDEX person_oidc_subject ON person (oidc_issuer, oidc_subject) WHERE oidc_subject IS NOT NULL;
CREATE UNIQUE INDEX person_oidc_email ON person (oidc_issuer, oidc_email) WHERE oidc_email IS NOT NULL;

-- The person whose budget the calls of a task or a session count against, by its id.
CREATE TABLE person_charge (
    id     TEXT COLLATE "C" PRIMARY KEY,
    person TEXT COLLATE "C" NOT NULL
);

-- The runs of gateways that share a database on a server. A database in a file has one gateway and no row here.
CREATE TABLE gateway (
    -- Counts up, and is never given twice. A fail-over can lose the newest rows, so `run`, a random text, goes with it.
    epoch      BIGINT PRIMARY KEY,
    run        TEXT COLLATE "C" NOT NULL,
    -- The instance id of its home.
    home       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    address    TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    -- Unix milliseconds by the database's clock.
    started_at BIGINT NOT NULL,
    -- Until then, others take it for living without another sign of it.
    beat_until BIGINT NOT NULL,
    -- From then on, it changes nothing. It ended itself or was taken for dead, by the gateway with the epoch `ended_by`.
    ended_at   BIGINT,
    ended_by   BIGINT,
    -- Where a gateway of a group takes requests from the others, as in `127.0.0.1:40123`, and the public key by which they know it:
    -- the 32 bytes of an Ed25519 key in hex. NULL for one that takes none.
    peer_address TEXT COLLATE "C",
    peer_key     TEXT COLLATE "C",
    -- The engines that answer a gateway of a group, as a JSON list of their names. NULL until it has asked them.
    engines      TEXT COLLATE "C"
);

-- What only one gateway may do at a time, and which one does it. A lease lives as long as its gateway. Rows stay when
-- nobody owns them, so that `token` never repeats for a subject.
CREATE TABLE lease (
    kind    TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    -- The epoch of the owner; NULL while there is none.
    epoch   BIGINT,
    -- Counts the owners.
    token   BIGINT NOT NULL,
    -- Unix milliseconds of the last change of the owner, by the database's clock.
    since   BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX lease_owner ON lease (epoch);

-- A random text that is another one after each change of a lease, so that who knows all leases need not read them again.
CREATE TABLE lease_change (
    id   BIGINT PRIMARY KEY CHECK (id = 1),
    mark TEXT COLLATE "C" NOT NULL
);

-- The group of gateways that use the database at the same time. Without a row, one gateway uses it, as in a file always.
CREATE TABLE gateway_group (
    id         BIGINT PRIMARY KEY CHECK (id = 1),
    -- A random text, which the folder of the agents' files has too.
    files      TEXT COLLATE "C" NOT NULL,
    -- Counts the configurations.
    revision   BIGINT NOT NULL,
    -- The configuration of all of them, without what each has for itself.
    config     TEXT COLLATE "C" NOT NULL,
    -- The path of the folder of the agents' files in it, as the machine that wrote it has it.
    root       TEXT COLLATE "C" NOT NULL,
    -- Unix milliseconds by the database's clock.
    changed_at BIGINT NOT NULL,
    -- The instance id of the home that wrote it.
    changed_by TEXT COLLATE "C" NOT NULL
);

-- The segments of transcripts that are in the second place, one after the other from the beginning of the file. A transcript is
-- known by the name of its file, which stays when its agent is renamed.
CREATE TABLE transcript_segment (
    file         TEXT COLLATE "C" NOT NULL,
    -- From 1.
    number       BIGINT NOT NULL,
    -- Where it begins in the file, and how many bytes it has. It ends with a line.
    start_byte   BIGINT NOT NULL,
    bytes        BIGINT NOT NULL,
    -- The numbers of its first and last line in the file, from 1.
    first_record BIGINT NOT NULL,
    last_record  BIGINT NOT NULL,
    -- In hex.
    sha256       TEXT COLLATE "C" NOT NULL,
    key          TEXT COLLATE "C" NOT NULL,
    place        TEXT COLLATE "C" NOT NULL,
    -- Unix milliseconds.
    made_at      BIGINT NOT NULL,
    PRIMARY KEY (file, number)
);

-- The engines that agents are placed on. Without a row, an agent is placed when it first needs a sandbox. Times are Unix
-- milliseconds.
CREATE TABLE placement (
    agent     TEXT COLLATE "C" PRIMARY KEY,
    -- The engine's name in the configuration, or "local".
    engine    TEXT COLLATE "C" NOT NULL,
    placed_at BIGINT NOT NULL
);
