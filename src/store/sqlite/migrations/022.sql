-- Branches of agents that are to be joined with their project, and what became of them.
CREATE TABLE submission (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    branch     TEXT NOT NULL,
    -- The branch's commit when it was submitted. Exactly this one is joined.
    commit_id  TEXT NOT NULL,
    title      TEXT NOT NULL,
    -- The session that submitted it, which is told the outcome.
    session    TEXT,
    -- The task of the team that it is for.
    task       TEXT,
    state      TEXT NOT NULL,
    -- The tip that it was joined with, and the result. NULL before that.
    base       TEXT,
    candidate  TEXT,
    -- What became of it, in words: the log of a failed check, the paths of a conflict.
    detail     TEXT NOT NULL DEFAULT '',
    -- Why a person has to accept it, as a JSON list.
    reasons    TEXT NOT NULL DEFAULT '[]',
    receipt    TEXT,
    -- The candidate that passed its checks.
    checked    TEXT,
    -- The agent that was asked to review it, and when it approved.
    reviewer    TEXT,
    reviewed_at INTEGER,
    -- The person who accepted it.
    accepted_by TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX submission_open ON submission (project, state, id);
CREATE INDEX submission_task ON submission (task) WHERE task IS NOT NULL;

-- What reviewers found.
CREATE TABLE finding (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    submission  INTEGER NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    reviewer    TEXT NOT NULL,
    is_blocking INTEGER NOT NULL,
    path        TEXT,
    line        INTEGER,
    content     TEXT NOT NULL,
    answer      TEXT,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX finding_submission ON finding (submission);

-- The paths of a project that agents announced they work on.
CREATE TABLE claim (
    project    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    path       TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (project, agent, path)
) STRICT, WITHOUT ROWID;

-- A task with a project is done only when the project's tip has what was submitted for it. `delivered_in` is the turn that
-- said that it is done.
ALTER TABLE task ADD COLUMN project TEXT;
ALTER TABLE task ADD COLUMN delivered_in TEXT;
ALTER TABLE task ADD COLUMN reminders INTEGER NOT NULL DEFAULT 0;
