-- Webhooks that were kept on Headgate's disk while the database was away: how far they have arrived, and those that it refused.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

-- Of each spool and table the last request whose rows are here. Written in the transaction that stores them, so that it is
-- never anything else: whatever is believed elsewhere of how far a spool has come is compared with this.
CREATE TABLE headgate.spool_position (
  spool uuid NOT NULL,
  relation oid NOT NULL,
  position bigint NOT NULL CHECK (position > 0),
  moved_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (spool, relation)
);

-- Takes the requests `first` to `last` of a table for arrived, once: of two that hand over the same ones the second waits
-- for the first, and fails.
CREATE FUNCTION headgate.advance(spool uuid, relation oid, first bigint, last bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF last >= first AND first = 1 THEN
    INSERT INTO headgate.spool_position (spool, relation, position) VALUES (advance.spool, advance.relation, last)
    ON CONFLICT DO NOTHING;
  ELSIF last >= first THEN
    UPDATE headgate.spool_position p SET position = last, moved_at = now()
    WHERE p.spool = advance.spool AND p.relation = advance.relation AND p.position = first - 1;
  END IF;
  IF last < first OR NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'HG002', MESSAGE = 'the requests have arrived already';
  END IF;
END
$body$;
REVOKE ALL ON FUNCTION headgate.advance(uuid, oid, bigint, bigint) FROM PUBLIC;

-- Which database this is, for a spool to know whether it is its own: another server, or a database that was made anew, gives
-- the same numbers to other tables.
CREATE FUNCTION headgate.home() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT format('%s, %s', headgate.cluster_identity(), d.oid) FROM pg_database d WHERE d.datname = current_database()
$body$;
REVOKE ALL ON FUNCTION headgate.home() FROM PUBLIC;

---------------------------------------------------------------- requests that the database refused

-- NULL: the table was gone when its request was handed over. Superusers see it.
ALTER TABLE headgate.rejected_requests ALTER COLUMN relation DROP NOT NULL;
ALTER TABLE headgate.rejected_requests DROP CONSTRAINT rejected_requests_door_check;
ALTER TABLE headgate.rejected_requests
  ADD CONSTRAINT rejected_requests_door_check CHECK (door IN ('http', 'websocket', 'spool'));

CREATE OR REPLACE FUNCTION headgate.do_retry(me oid, id bigint, force boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  request record;
BEGIN
  SELECT r.door, r.authenticated, r.retry_outcome, r.body_bytes, octet_length(r.body) AS kept_bytes INTO request
  FROM headgate.rejected_requests r JOIN pg_class c ON c.oid = r.relation
  WHERE r.id = do_retry.id AND pg_has_role(me, c.relowner, 'USAGE') FOR UPDATE OF r;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('there is no rejected request %s', do_retry.id),
      HINT = 'Only the owner of its table sees it, and old ones are forgotten.';
  ELSIF request.door = 'websocket' THEN
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
  WHERE r.id = do_retry.id;
  PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'rejected';
  RETURN 'waiting: retry_outcome will tell';
END
$body$;

---------------------------------------------------------------- SHOW SPOOL

-- `state`: what the Headgate that was asked has on its disk, by oid. The owner of a table sees it.
CREATE FUNCTION headgate.show_spool(state jsonb)
RETURNS TABLE ("Table" text, "State" text, "Requests" bigint, "Since" timestamptz, "Reason" text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT format('%I.%I', n.nspname, c.relname), s.value ->> 'state', (s.value ->> 'requests')::bigint,
    to_timestamp((s.value ->> 'since')::double precision), s.value ->> 'reason'
  FROM jsonb_each(state) s
  JOIN pg_class c ON c.oid = s.key::oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE headgate.owns_table(c.oid)
  ORDER BY 1
$body$;
