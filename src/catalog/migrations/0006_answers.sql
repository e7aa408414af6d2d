-- ANSWER: what a sender's question is answered with, and what a committed request is.

-- The clauses of a table, in the order of `position`. What is believed stands sealed, as it does for VALIDATE.
CREATE TABLE headgate.webhook_answer (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  -- Tried before VALIDATE.
  unchecked boolean NOT NULL,
  -- It has no WHEN.
  committed boolean NOT NULL,
  -- What follows ANSWER and its secrets, with secret literals masked.
  expression text NOT NULL,
  sealed text NOT NULL,
  seal_id uuid NOT NULL UNIQUE,
  PRIMARY KEY (relation, position)
);

-- Each clause has secrets of its own, also where they are those of VALIDATE: that may get others.
CREATE TABLE headgate.webhook_answer_secret (
  relation regclass NOT NULL,
  answer int NOT NULL,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, answer, position),
  UNIQUE (relation, answer, alias),
  FOREIGN KEY (relation, answer) REFERENCES headgate.webhook_answer ON DELETE CASCADE
);
CREATE INDEX webhook_answer_secret_secret_id ON headgate.webhook_answer_secret (secret_id);
GRANT SELECT (relation, position, unchecked, committed, expression) ON headgate.webhook_answer TO PUBLIC;
GRANT SELECT (relation, answer, position, alias, secret_id) ON headgate.webhook_answer_secret TO PUBLIC;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_answer
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();

-- Questions of senders, and what they were answered: nothing that a stranger has sent is in it but an address. Headgate
-- alone writes it, and keeps the newest.
CREATE TABLE headgate.handshake_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asked_at timestamptz NOT NULL,
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  method text NOT NULL,
  remote_address text NOT NULL,
  -- The place of the ANSWER, from 1; NULL: none matched.
  rule int,
  status int NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('answered', 'unmatched', 'too_many'))
);
CREATE INDEX handshake_log_relation_id ON headgate.handshake_log (relation, id);
