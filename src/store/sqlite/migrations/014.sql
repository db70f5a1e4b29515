-- A token that is made under the name of a revoked one is another client: which one of its name it is.
ALTER TABLE client_token ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
