-- A session's key is found without regard to case.
CREATE INDEX session_nocase ON session (key COLLATE NOCASE);
