-- Requests that were refused, kept for the owners of the tables they were for, and the way to try one again.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog. Works on PostgreSQL 14 to 18.
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
CREATE POLICY changed ON headgate.rejected_requests FOR UPDATE USING (
  relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation)));
CREATE POLICY dropped ON headgate.rejected_requests FOR DELETE USING (
  relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation)));
GRANT SELECT, DELETE ON headgate.rejected_requests TO PUBLIC;
GRANT UPDATE (retry_asked_at, retry_forced, retried_at, retry_outcome, retry_reason) ON headgate.rejected_requests TO PUBLIC;

-- Views run with their owner's rights, whom row-level security does not hold back: the condition stands here again.
-- (security_invoker would do, from PostgreSQL 15 on.)
CREATE VIEW headgate.rejected_summary WITH (security_barrier) AS
SELECT
  r.schema_name,
  r.table_name,
  r.code,
  date_trunc('hour', r.received_at) AS hour,
  count(*) AS requests,
  count(DISTINCT r.remote_address) AS addresses,
  min(r.received_at) AS first_at,
  max(r.received_at) AS last_at,
  (array_agg(r.reason ORDER BY r.id DESC))[1] AS last_reason,
  max(r.id) AS last_id
FROM headgate.rejected_requests r
WHERE r.relation IN (SELECT w.relation FROM headgate.webhook_table w WHERE headgate.owns_table(w.relation))
GROUP BY r.relation, r.schema_name, r.table_name, r.code, date_trunc('hour', r.received_at);
GRANT SELECT ON headgate.rejected_summary TO PUBLIC;

-- Asks Headgate to run a refused request through its stages again, once the caller's transaction has committed. What
-- becomes of it stands in the row then: a function cannot wait for what begins after it has ended.
CREATE FUNCTION headgate.retry_rejected(id bigint, force boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  request record;
BEGIN
  SELECT r.door, r.authenticated, r.retry_outcome, r.body_bytes, octet_length(r.body) AS kept_bytes INTO request
  FROM headgate.rejected_requests r WHERE r.id = retry_rejected.id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('there is no rejected request %s', retry_rejected.id),
      HINT = 'Only the owner of its table sees it, and old ones are forgotten.';
  ELSIF request.door <> 'http' THEN
    RETURN 'not retried: the batches of a WebSocket come in an order that only its client can repeat';
  ELSIF request.kept_bytes IS NULL THEN
    RETURN 'not retried: its body was not read';
  ELSIF request.kept_bytes < request.body_bytes THEN
    RETURN format('not retried: only %s of %s bytes of its body were kept', request.kept_bytes, request.body_bytes);
  ELSIF request.retry_outcome = 'waiting' THEN
    RETURN 'waiting already';
  ELSIF NOT force AND NOT request.authenticated THEN
    RETURN 'not retried: VALIDATE did not accept it, and its signature was not kept; force => true stores it unchecked';
  ELSIF NOT force AND request.retry_outcome = 'committed' THEN
    RETURN 'not retried: it was retried before and is stored; force => true stores it once more';
  ELSIF NOT force AND request.retry_outcome IN ('running', 'unknown') THEN
    RETURN 'not retried: it was retried before and may be stored; force => true tries once more';
  END IF;
  UPDATE headgate.rejected_requests r SET
    retry_asked_at = now(), retry_forced = force, retried_at = NULL, retry_outcome = 'waiting', retry_reason = NULL
  WHERE r.id = retry_rejected.id;
  PERFORM pg_notify('headgate_rejected', '');
  RETURN 'waiting: retry_outcome will tell';
END
$body$;
