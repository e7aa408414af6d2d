-- Deliveries that a table stores once (the option dedupe).

-- An owner's code can claim ids in the owner's session and store nothing. So such a claim holds a mark of the table's owner, and counts while the table
-- has that mark: another owner has another one. Roles have other oids where a dump is restored, so headgate.claimer records the mark of a table.
CREATE OR REPLACE FUNCTION headgate.mark_of_owner(relation oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN (
    SELECT coalesce(
      (SELECT k.mark FROM headgate.claimer k WHERE k.relation = c.oid::regclass AND k.owner = c.relowner),
      hashtext(format('%s, %s', headgate.home(), c.relowner))::oid)
    FROM pg_class c WHERE c.oid = mark_of_owner.relation);
END
$body$;

-- Records the marks, whenever the catalog is read. In a database that was restored or moved, the owner that a table has got there takes over the mark of
-- the last one that was recorded, whatever role that was. A table that is being dropped is not waited for.
CREATE OR REPLACE FUNCTION headgate.keep_claimers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  here text := headgate.home();
BEGIN
  INSERT INTO headgate.claimer AS k (relation, owner, place, mark)
  SELECT w.relation, c.relowner, here, hashtext(format('%s, %s', here, c.relowner))::oid
  FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation LEFT JOIN headgate.claimer o ON o.relation = w.relation
  WHERE (o.relation IS NOT NULL OR coalesce(w.options ->> 'dedupe', 'off') <> 'off')
    AND (o.owner, o.place) IS DISTINCT FROM (c.relowner, here)
  FOR KEY SHARE OF w SKIP LOCKED
  ON CONFLICT ON CONSTRAINT claimer_pkey DO UPDATE SET owner = excluded.owner, place = excluded.place,
    mark = CASE WHEN k.place = excluded.place THEN excluded.mark ELSE k.mark END
    WHERE (k.owner, k.place) IS DISTINCT FROM (excluded.owner, excluded.place);
END
$body$;

-- Claims these deliveries, once: in the transaction that stores their rows, and before any of them. Waits for a delivery that
-- another transaction is storing. Fails with the ids that are known, as text, each with the digest of the body that it came with if that
-- is known (`id:body`); an id that is older than the window counts as new, and so does one that a former owner of the table has claimed.
-- The ids are passed without duplicates, and claimed in their order, so that no two transactions wait for each other.
CREATE OR REPLACE FUNCTION headgate.claim_deliveries(relation oid, ids uuid[], window_seconds bigint, bodies uuid[] DEFAULT NULL,
  claimer oid DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  known uuid[];
BEGIN
  WITH claimed AS (
    INSERT INTO headgate.delivery AS d (relation, id, body, claimed_by)
    SELECT claim_deliveries.relation, u.id, u.body, claimer FROM unnest(ids, bodies) AS u (id, body) ORDER BY u.id
    ON CONFLICT ON CONSTRAINT delivery_pkey DO UPDATE
      SET stored_at = excluded.stored_at, body = excluded.body, claimed_by = excluded.claimed_by
      WHERE d.stored_at < now() - make_interval(secs => window_seconds)
        OR d.claimed_by <> (SELECT headgate.mark_of_owner(claim_deliveries.relation))
    RETURNING d.id
  )
  SELECT array_agg(u.id) INTO known FROM unnest(ids) AS u (id) WHERE u.id NOT IN (SELECT c.id FROM claimed c);
  IF known IS NOT NULL THEN
    -- A statement of its own sees what was committed while the first one waited. The rows are locked: none of them is gone.
    RAISE EXCEPTION USING ERRCODE = 'HG004', MESSAGE = (
      SELECT string_agg(replace(d.id || coalesce(':' || d.body, ''), '-', ''), ' ')
      FROM headgate.delivery d WHERE d.relation = claim_deliveries.relation AND d.id = ANY (known));
  END IF;
END
$body$;

-- For how long a table keeps what belongs to one of its options; NULL: not at all. Its owner can have stored any text: what is no window must not keep
-- those of other tables from being forgotten.
CREATE OR REPLACE FUNCTION headgate.option_window(options jsonb, option text) RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT CASE WHEN coalesce(options ->> option, 'off') = 'off' THEN NULL
    WHEN options ->> (option || '_window') ~ '^[0-9]{1,9} ?(second|minute|hour|day)s?$'
      THEN least((options ->> (option || '_window'))::interval, '3650 days')
    ELSE '7 days' END
$body$;

-- Forgets rows of `kept` that are older, by the column `arrival`, than the window of that option of their table, and those of tables without it: at
-- most so many per table. Returns how many.
CREATE OR REPLACE FUNCTION headgate.forget_old(kept regclass, arrival name, option text, most int) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  known record;
  went bigint;
  total bigint := 0;
BEGIN
  -- Each relation once, without reading its rows.
  FOR known IN EXECUTE format($sql$
    WITH RECURSIVE relations AS (
      (SELECT k.relation::oid AS relation FROM %1$s k ORDER BY k.relation LIMIT 1)
      UNION ALL
      SELECT (SELECT k.relation::oid FROM %1$s k WHERE k.relation > r.relation::regclass ORDER BY k.relation LIMIT 1)
      FROM relations r WHERE r.relation IS NOT NULL
    )
    SELECT r.relation, coalesce(now() - headgate.option_window(w.options, $1), 'infinity') AS before
    FROM relations r LEFT JOIN headgate.webhook_table w ON w.relation = r.relation
    WHERE r.relation IS NOT NULL$sql$, kept) USING option
  LOOP
    EXECUTE format($sql$
      DELETE FROM %1$s k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM %1$s o WHERE o.relation = $1 AND (o.%2$I < $2 OR $2 = 'infinity')
        ORDER BY o.%2$I LIMIT $3 FOR UPDATE SKIP LOCKED))$sql$, kept, arrival)
      USING known.relation, known.before, most;
    GET DIAGNOSTICS went = ROW_COUNT;
    total := total + went;
  END LOOP;
  RETURN total;
END
$body$;
