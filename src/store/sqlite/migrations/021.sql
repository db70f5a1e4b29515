-- The reason that was given for a freeze, in one line.
ALTER TABLE agent_state ADD COLUMN freeze_reason TEXT;
ALTER TABLE home_freeze ADD COLUMN reason TEXT;
