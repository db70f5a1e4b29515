-- The person whose budget what a message leads to counts against, without "human:"; NULL for that of its author. A message of
-- a schedule or a webhook has the one who added it.
ALTER TABLE message ADD COLUMN person TEXT;

-- The account of a person at the provider of OpenID Connect: its issuer, and the subject there. The e-mail address stands for
-- the subject until somebody has signed in with it.
ALTER TABLE person ADD COLUMN oidc_issuer TEXT;
ALTER TABLE person ADD COLUMN oidc_subject TEXT;
ALTER TABLE person ADD COLUMN oidc_email TEXT;
CREATE UNIQUE INDEX person_oidc_subject ON person (oidc_issuer, oidc_subject) WHERE oidc_subject IS NOT NULL;
CREATE UNIQUE INDEX person_oidc_email ON person (oidc_issuer, oidc_email) WHERE oidc_email IS NOT NULL;

-- The account with which a browser signed in; NULL if it came with a code or a token.
ALTER TABLE sign_in ADD COLUMN oidc_issuer TEXT;
ALTER TABLE sign_in ADD COLUMN oidc_subject TEXT;
