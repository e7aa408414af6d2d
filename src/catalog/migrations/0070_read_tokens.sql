-- CREATE TOKEN … FOR SELECT: who holds one may follow some tables until it expires, and nothing else.
ALTER TABLE headgate.token ADD COLUMN reads boolean NOT NULL DEFAULT false, ADD COLUMN expires_at timestamptz,
  ADD CONSTRAINT token_expires CHECK (reads = (expires_at IS NOT NULL));
GRANT SELECT (reads, expires_at) ON headgate.token TO PUBLIC;

-- It has other columns now.
DROP FUNCTION IF EXISTS headgate.show_tokens();
