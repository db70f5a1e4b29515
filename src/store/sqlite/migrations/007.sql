-- When the conversation that a session's model is shown last began anew or was compacted: its prompt is from then.
ALTER TABLE session ADD COLUMN renewed_at INTEGER;
