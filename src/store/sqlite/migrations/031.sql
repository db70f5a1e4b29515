-- The calls of its tools that a session's last turn handed to its client, and that wait for their results: a JSON list
-- of {"id", "name"}. NULL if none do.
ALTER TABLE session ADD COLUMN pending_calls TEXT;
