-- WITH (keep = …): what was removed of webhook tables that are kept for a time, or up to a number of rows.

-- Whoever removes rows holds its one row meanwhile: of several Headgates one does it.
CREATE TABLE headgate.keeping ("only" boolean PRIMARY KEY DEFAULT true CHECK ("only"));
INSERT INTO headgate.keeping DEFAULT VALUES;

-- Each pass over a table that removed something, or that could not. Written in the transactions that remove the rows.
CREATE TABLE headgate.keep_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  keep text NOT NULL,
  began_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz NOT NULL DEFAULT now(),
  rows bigint NOT NULL,
  -- Rows that had arrived before it were removed; NULL: none were.
  older_than timestamptz,
  -- Why none were; NULL: some were.
  reason text
);
CREATE INDEX keep_log_relation_id ON headgate.keep_log (relation, id);
