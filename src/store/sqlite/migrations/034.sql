-- The time of the last run of a schedule that the agent asked for. It outlives the schedule, so that removing one and asking for
-- another makes no run come sooner.
ALTER TABLE agent_state ADD COLUMN scheduled_at INTEGER;
