-- Deliveries that a table has stored, for those that store each of them once (the option dedupe).
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

-- Headgate alone reads and writes it. `id` is a digest, so that no id of a sender's is larger than another. Without a reference to the
-- table: that would cost every row a lock, and ids of a table that is gone are forgotten with those that are too old.
CREATE TABLE headgate.delivery (
  relation regclass NOT NULL,
  id uuid NOT NULL,
  stored_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relation, id)
);
CREATE INDEX delivery_relation_stored_at ON headgate.delivery (relation, stored_at);

-- Takes these deliveries, once: in the transaction that stores their rows, and before any of them. One that another transaction is
-- storing is waited for. Fails with those that are known, as text; an id that is older than the window counts as new. The ids
-- are given without copies, and taken in their order, so that no two transactions wait for each other in a circle.
CREATE FUNCTION headgate.claim_deliveries(relation oid, ids uuid[], window_seconds bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  known text;
BEGIN
  WITH claimed AS (
    INSERT INTO headgate.delivery AS d (relation, id)
    SELECT claim_deliveries.relation, u.id FROM unnest(ids) AS u (id) ORDER BY u.id
    ON CONFLICT ON CONSTRAINT delivery_pkey DO UPDATE SET stored_at = excluded.stored_at
      WHERE d.stored_at < now() - make_interval(secs => window_seconds)
    RETURNING d.id
  )
  SELECT string_agg(replace(u.id::text, '-', ''), ' ') INTO known
  FROM unnest(ids) AS u (id) WHERE u.id NOT IN (SELECT c.id FROM claimed c);
  IF known IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'HG004', MESSAGE = known;
  END IF;
END
$body$;
REVOKE ALL ON FUNCTION headgate.claim_deliveries(oid, uuid[], bigint) FROM PUBLIC;

-- The window of a table's options in seconds; NULL: it keeps no ids.
CREATE FUNCTION headgate.dedupe_window(options jsonb) RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT CASE WHEN coalesce(options ->> 'dedupe', 'off') <> 'off'
    THEN coalesce(options ->> 'dedupe_window', '7 days')::interval END
$body$;

-- Forgets ids that are older than their table's window, and those of tables that keep none: so many of each table. Gives how many went.
CREATE FUNCTION headgate.forget_deliveries(most int) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  known record;
  went bigint;
  total bigint := 0;
BEGIN
  -- Each relation once, without reading its ids.
  FOR known IN
    WITH RECURSIVE relations AS (
      (SELECT d.relation::oid AS relation FROM headgate.delivery d ORDER BY d.relation LIMIT 1)
      UNION ALL
      SELECT (SELECT d.relation::oid FROM headgate.delivery d WHERE d.relation > r.relation::regclass ORDER BY d.relation LIMIT 1)
      FROM relations r WHERE r.relation IS NOT NULL
    )
    SELECT r.relation, coalesce(now() - headgate.dedupe_window(w.options), 'infinity') AS before
    FROM relations r LEFT JOIN headgate.webhook_table w ON w.relation = r.relation
    WHERE r.relation IS NOT NULL
  LOOP
    DELETE FROM headgate.delivery d WHERE d.ctid = ANY (ARRAY(
      SELECT o.ctid FROM headgate.delivery o WHERE o.relation = known.relation AND o.stored_at < known.before
      ORDER BY o.stored_at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS went = ROW_COUNT;
    total := total + went;
  END LOOP;
  RETURN total;
END
$body$;
REVOKE ALL ON FUNCTION headgate.forget_deliveries(int) FROM PUBLIC;

---------------------------------------------------------------- options

-- As in 0005_1, and what cannot be read of a body that is not one document is refused.
CREATE OR REPLACE PROCEDURE headgate.alter_options(relation regclass, table_name text, if_exists boolean, changes jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  made record;
  merged jsonb;
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  -- As for VALIDATE: requests on their way were read as the options of their moment say.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  SELECT w.options, w.includes, w.document, headgate.placed(w.relation, w.collect) AS collected INTO made
  FROM headgate.webhook_table w WHERE w.relation = alter_options.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  END IF;
  merged := made.options || changes;
  IF merged ->> 'dedupe' LIKE '%$%'
    AND (merged ->> 'is_batched' = 'true' OR coalesce(merged ->> 'format', 'json') IN ('text', 'bytes'))
  THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'dedupe by a value of the body needs a body that is one document',
      HINT = 'A header can be the id of any request: dedupe = ''header:name''.';
  END IF;
  -- The column of before stays, as long as there is something to put into it.
  IF merged ->> 'on_unknown' = 'collect' AND made.collected IS NOT NULL AND NOT changes ? 'collect_into' THEN
    merged := merged || jsonb_build_object('collect_into', made.collected);
  END IF;
  INSERT INTO headgate.request (action, given) VALUES ('options', jsonb_build_object(
    'relation', relation::oid::bigint, 'options', merged - 'collect_into',
    'collect', headgate.choose_collect(relation, made.includes, made.document, merged)));
END
$body$;
