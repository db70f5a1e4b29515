-- Unix milliseconds of the last use of a token, about a minute exact. NULL until it was used.
ALTER TABLE client_token ADD COLUMN used_at INTEGER;
