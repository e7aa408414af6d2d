-- CREATE TOKEN: who holds one may insert events into some tables, and nothing else.

-- Of a token only the SHA-256 is here: it has 256 random bits, so nobody finds it by trying. The owner is kept as of a secret.
CREATE TABLE headgate.token (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL UNIQUE CHECK (octet_length(name) <= 63),
  owner name,
  owner_oid oid,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  -- Of which pages it may come; empty: of those that may call the gateway anyway.
  origins text[] NOT NULL CHECK (
    cardinality(origins) <= 16 AND octet_length(array_to_string(origins, '')) <= 4096
    AND array_to_string(origins, ' ') ~ '^(https?://[^/*@[:space:]]+( |$))*$'),
  -- As kit/rate.ts reads it; NULL: any.
  rate text CHECK (octet_length(rate) <= 63),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX token_owner_oid ON headgate.token (owner_oid);
CREATE INDEX token_origins ON headgate.token USING gin (origins);

CREATE TABLE headgate.token_table (
  token_id uuid NOT NULL REFERENCES headgate.token ON DELETE CASCADE,
  relation regclass NOT NULL,
  PRIMARY KEY (token_id, relation)
);
CREATE INDEX token_table_relation ON headgate.token_table (relation);

-- Everybody sees the tokens of the roles whose rights are his, and the hash of none.
ALTER TABLE headgate.token ENABLE ROW LEVEL SECURITY;
ALTER TABLE headgate.token_table ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.token FOR SELECT USING (pg_has_role(owner_oid, 'USAGE'));
CREATE POLICY seen ON headgate.token_table FOR SELECT USING (EXISTS (SELECT FROM headgate.token t WHERE t.id = token_id));
GRANT SELECT (id, name, owner, owner_oid, origins, rate, created_at) ON headgate.token TO PUBLIC;
GRANT SELECT (token_id, relation) ON headgate.token_table TO PUBLIC;
