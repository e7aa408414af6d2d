-- Requests that were refused, kept for the owners of the tables they were for, and the way to try one again.
--
-- Headgate alone writes rows; whoever owns a table sees those of his table, may delete them, and may ask for a retry.

CREATE TABLE headgate.rejected_requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  received_at timestamptz NOT NULL,
  -- A dropped table takes them with it: nobody would be left who may see them.
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  -- What it was called then.
  schema_name text NOT NULL,
  table_name text NOT NULL,
  door text NOT NULL CHECK (door IN ('http', 'websocket')),
  status int NOT NULL,
  code text NOT NULL,
  reason text NOT NULL,
  -- VALIDATE had accepted it, or the table has none: it was refused for something else.
  authenticated boolean NOT NULL,
  remote_address text NOT NULL,
  method text NOT NULL,
  -- Path and query, the query's values left out.
  target text NOT NULL,
  -- By lower-case name, without those that may hold a credential, which are named beside.
  headers jsonb NOT NULL,
  headers_left_out text[] NOT NULL,
  -- As the sender sent it, after decompression, up to 64 KiB; NULL: it was not read.
  body bytea,
  body_bytes bigint,
  retry_asked_at timestamptz,
  retry_forced boolean NOT NULL DEFAULT false,
  retried_at timestamptz,
  -- waiting, running, committed, unknown, or the code of the refusal.
  retry_outcome text,
  retry_reason text
);
CREATE INDEX rejected_requests_relation_id ON headgate.rejected_requests (relation, id);
CREATE INDEX rejected_requests_waiting ON headgate.rejected_requests (id) WHERE retry_outcome = 'waiting';

ALTER TABLE headgate.rejected_requests ENABLE ROW LEVEL SECURITY;

-- Asked once for each webhook table, not for each row.
CREATE POLICY seen ON headgate.rejected_requests FOR SELECT USING (
  relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation)));
