-- Secrets that the sender brings: they have no value until the first request of its handshake, in a window that their owner opens.

-- A secret without a row was given its value. Headgate alone writes it.
CREATE TABLE headgate.secret_learning (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  -- The seal of the empty value: who has read it may bring the first one.
  opened_seal uuid NOT NULL UNIQUE,
  until timestamptz NOT NULL,
  learned_at timestamptz,
  learned_from text,
  -- Another value came while the window was open.
  contested_at timestamptz,
  contested_from text,
  revealed_at timestamptz
);

-- It has one column more.
DROP FUNCTION IF EXISTS headgate.show_secrets();
