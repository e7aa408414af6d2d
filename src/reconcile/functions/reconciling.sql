-- Tables whose deliveries are compared with the log of their sender (the option reconcile). Called by src/reconcile as Headgate's role, one statement
-- at a time; a table is worked on by the Headgate that holds it.

-- Refuses what cannot be compared. `merged`: the options as they will be. `wanted`: the option dedupe that the log's ids belong to; NULL: the log stays
-- as it is. `has_secret`: one is given, or was.
CREATE OR REPLACE FUNCTION headgate.refuse_unreconciled(merged jsonb, wanted text, has_secret boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF coalesce(merged ->> 'reconcile', 'off') = 'off' THEN
    IF merged ? 'every' THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'every needs the option reconcile';
    END IF;
  ELSIF coalesce(merged ->> 'dedupe', 'off') = 'off' OR merged ->> 'dedupe' <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('reconcile needs dedupe = ''%s''', coalesce(wanted, 'sender')),
      HINT = 'What has come is known by the ids of deliveries that dedupe remembers.';
  ELSIF headgate.option_window(merged, 'dedupe') < interval '1 day' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'reconcile needs a dedupe_window of at least a day';
  ELSIF merged ->> 'is_batched' = 'true' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'reconcile is not supported for a table with is_batched = true';
  ELSIF NOT has_secret THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'reconcile needs the option reconcile_secret',
      HINT = 'It names a secret that holds a token of the sender''s API: docs/reconcile.md.';
  END IF;
END
$body$;

-- The secret of a table with the option, or none. `secret`: as written in SQL; NULL: it stays. Another one may end the problem: it is tried at once.
CREATE OR REPLACE FUNCTION headgate.keep_log_secret(me oid, relation oid, options jsonb, secret text, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  target text[] := CASE WHEN secret IS NOT NULL THEN parse_ident(secret) END;
BEGIN
  IF coalesce(options ->> 'reconcile', 'off') = 'off' THEN
    DELETE FROM headgate.webhook_reconcile r WHERE r.relation = keep_log_secret.relation;
    DELETE FROM headgate.reconciling r WHERE r.relation = keep_log_secret.relation;
    DELETE FROM headgate.announced a WHERE a.relation = keep_log_secret.relation;
    DELETE FROM headgate.past_window p WHERE p.relation = keep_log_secret.relation;
  ELSIF cardinality(target) > 2 THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('secret "%s" does not exist', secret);
  ELSIF target IS NOT NULL THEN
    INSERT INTO headgate.webhook_reconcile (relation, secret_id) VALUES (relation,
      headgate.find_secret(me, (target)[cardinality(target) - 1], (target)[cardinality(target)], caller_schemas))
    ON CONFLICT ON CONSTRAINT webhook_reconcile_pkey DO UPDATE SET secret_id = excluded.secret_id;
    UPDATE headgate.reconciling r SET next_at = least(r.next_at, now()) WHERE r.relation = keep_log_secret.relation AND r.problem IS NOT NULL;
  END IF;
END
$body$;

-- Whether these deliveries are stored: claimed by Headgate, or in a session of the table's present owner.
CREATE OR REPLACE FUNCTION headgate.has_come(relation oid, delivery uuid, mark oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT EXISTS (SELECT FROM headgate.delivery d WHERE d.relation = has_come.relation AND d.id = has_come.delivery
    AND (d.claimed_by IS NULL OR d.claimed_by = mark))
$body$;

-- Takes tables that are due, at most so many, for `seconds`; `me`: of this turn alone. Another log or another owner begins anew: what came before is not of it. The first look goes
-- back to the first delivery that the table remembers.
CREATE OR REPLACE FUNCTION headgate.take_reconciling(me uuid, seconds int, most int) RETURNS TABLE (
  relation oid, schema_name text, table_name text, log text, every text, dedupe text, window_seconds bigint, seal_id uuid, sealed text, secret text,
  allowed boolean, failures int, since timestamptz, read_to timestamptz, walk_top timestamptz, walk_reach timestamptz, walk_cursor text, walk_pages int)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
BEGIN
  IF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE coalesce(w.options ->> 'reconcile', 'off') <> 'off') THEN
    RETURN;
  END IF;
  INSERT INTO headgate.reconciling AS r (relation, log, mark, since)
  SELECT w.relation, w.options ->> 'reconcile', m.mark,
    coalesce((SELECT min(d.stored_at) FROM headgate.delivery d WHERE d.relation = w.relation), now())
  FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation CROSS JOIN LATERAL headgate.mark_of_owner(c.oid) AS m (mark)
  WHERE coalesce(w.options ->> 'reconcile', 'off') <> 'off' AND NOT EXISTS (
    SELECT FROM headgate.reconciling k WHERE k.relation = w.relation AND (k.log, k.mark) = (w.options ->> 'reconcile', m.mark))
  FOR KEY SHARE OF w SKIP LOCKED
  ON CONFLICT ON CONSTRAINT reconciling_pkey DO UPDATE SET log = excluded.log, mark = excluded.mark, since = now(), read_to = NULL,
    walk_top = NULL, walk_reach = NULL, walk_cursor = NULL, walk_pages = 0, held = 0, next_at = now(), failures = 0, looked_at = NULL, problem = NULL, holder = NULL;
  DELETE FROM headgate.announced a USING headgate.reconciling r WHERE r.relation = a.relation AND r.looked_at IS NULL;
  DELETE FROM headgate.past_window p USING headgate.reconciling r WHERE r.relation = p.relation AND r.looked_at IS NULL;
  RETURN QUERY
  WITH due AS (
    SELECT k.relation FROM headgate.reconciling k
    WHERE k.next_at <= now() AND (k.holder IS NULL OR k.held_until < now())
      AND EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = k.relation AND coalesce(w.options ->> 'reconcile', 'off') <> 'off')
    ORDER BY k.next_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE headgate.reconciling r SET holder = me, held_until = now() + make_interval(secs => seconds)
    FROM due WHERE r.relation = due.relation RETURNING r.*
  )
  SELECT t.relation::oid, n.nspname::text, c.relname::text, t.log, w.options ->> 'every', w.options ->> 'dedupe',
    extract(epoch FROM headgate.option_window(w.options, 'dedupe'))::bigint, s.seal_id, s.sealed, s.name,
    headgate.may_use(c.relowner, s.owner_oid), t.failures, t.since, t.read_to, t.walk_top, t.walk_reach, t.walk_cursor, t.walk_pages
  FROM taken t JOIN headgate.webhook_table w ON w.relation = t.relation JOIN pg_class c ON c.oid = t.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN headgate.webhook_reconcile b ON b.relation = t.relation LEFT JOIN headgate.secret s ON s.id = b.secret_id;
END
$body$;

-- Fails (HG007) unless this Headgate still holds the table, for the same log, and holds it for longer.
CREATE OR REPLACE FUNCTION headgate.hold_reconciling(relation oid, me uuid, seconds int) RETURNS headgate.reconciling
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  it headgate.reconciling;
BEGIN
  UPDATE headgate.reconciling r SET held_until = now() + make_interval(secs => seconds)
  FROM headgate.webhook_table w
  WHERE r.relation = hold_reconciling.relation AND r.holder = me AND w.relation = r.relation AND w.options ->> 'reconcile' = r.log
    AND r.mark = headgate.mark_of_owner(hold_reconciling.relation)
  RETURNING r.* INTO it;
  IF it.relation IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'HG007', MESSAGE = 'another Headgate reads the log of this table, or it is not compared any more';
  END IF;
  RETURN it;
END
$body$;

-- Notes one page of the log. `entries`: [{delivery, id, log, at}], `at` in ms. `walk`: {top, reach} of a reading that begins with this page; NULL: it goes
-- on. `cursor`: the next page; NULL: the reading is over, and everything up to `read_to` is known. Returns those that have not come and may be asked for.
CREATE OR REPLACE FUNCTION headgate.announce(relation oid, me uuid, seconds int, entries jsonb, walk jsonb, cursor text, read_to timestamptz, settled timestamptz)
RETURNS TABLE (delivery uuid)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
  it headgate.reconciling := headgate.hold_reconciling(relation, me, seconds);
  reach timestamptz := coalesce((walk ->> 'reach')::timestamptz, it.walk_reach);
  added int;
BEGIN
  -- What a crash takes back is read again: it goes together with the place in the log.
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO headgate.announced AS a (relation, delivery, id, log_id, announced_at, next_at, came_at)
  SELECT announce.relation, e.delivery, e.id, e.log, to_timestamp(e.at / 1000.0), to_timestamp(e.at / 1000.0),
    CASE WHEN headgate.has_come(announce.relation, e.delivery, it.mark) THEN now() END
  FROM (
    SELECT DISTINCT ON (x.delivery) x.* FROM jsonb_to_recordset(entries) AS x (delivery uuid, id text, log text, at float8) ORDER BY x.delivery, x.at
  ) AS e
  WHERE to_timestamp(e.at / 1000.0) >= reach
  ON CONFLICT ON CONSTRAINT announced_pkey DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  IF it.held + added > 1000000 THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'more than 1000000 deliveries of the log are not accounted for';
  END IF;
  UPDATE headgate.reconciling r SET held = r.held + added, looked_at = now(), failures = 0, problem = NULL,
    walk_top = CASE WHEN cursor IS NOT NULL THEN coalesce((walk ->> 'top')::timestamptz, r.walk_top) END,
    walk_reach = CASE WHEN cursor IS NOT NULL THEN reach END, walk_cursor = cursor, walk_pages = CASE WHEN cursor IS NULL THEN 0 ELSE r.walk_pages + 1 END,
    read_to = coalesce(announce.read_to, r.read_to)
  WHERE r.relation = announce.relation;
  RETURN QUERY SELECT a.delivery FROM jsonb_to_recordset(entries) AS e (delivery uuid)
    JOIN headgate.announced a ON a.relation = announce.relation AND a.delivery = e.delivery
    WHERE a.came_at IS NULL AND a.next_at <= settled AND a.asked = 0 AND NOT headgate.has_come(announce.relation, a.delivery, it.mark);
END
$body$;

-- Notes what has come since, and returns what may be asked for now, oldest first: [{delivery, id, log, asked}]. What the log no longer has is not asked for
-- again. `settled` and `forgotten` are of the sender's clock.
CREATE OR REPLACE FUNCTION headgate.missing(relation oid, me uuid, seconds int, settled timestamptz, forgotten timestamptz, most int)
RETURNS TABLE (delivery uuid, id text, log text, asked int)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
  it headgate.reconciling := headgate.hold_reconciling(relation, me, seconds);
BEGIN
  UPDATE headgate.announced a SET came_at = now()
  WHERE a.relation = missing.relation AND a.came_at IS NULL AND headgate.has_come(missing.relation, a.delivery, it.mark);
  UPDATE headgate.announced a SET next_at = 'infinity', reason = coalesce(a.reason || '; ', '') || 'the log of the sender no longer has it'
  WHERE a.relation = missing.relation AND a.came_at IS NULL AND a.announced_at < forgotten AND a.next_at < 'infinity';
  RETURN QUERY SELECT a.delivery, a.id, a.log_id, a.asked FROM headgate.announced a
    WHERE a.relation = missing.relation AND a.came_at IS NULL AND a.announced_at <= settled
      AND (a.next_at <= CASE a.asked WHEN 0 THEN settled ELSE now() END)
    ORDER BY a.next_at LIMIT most;
END
$body$;

-- The end of a turn: what has come in windows that are read whole becomes numbers, and the next turn is at `next`. `problem`: why the log was not read.
CREATE OR REPLACE FUNCTION headgate.end_turn(relation oid, me uuid, next timestamptz, problem text, kept interval) RETURNS TABLE (missing bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
  it headgate.reconciling := headgate.hold_reconciling(relation, me, 1);
  gone int;
BEGIN
  UPDATE headgate.announced a SET came_at = now()
  WHERE a.relation = end_turn.relation AND a.came_at IS NULL AND headgate.has_come(end_turn.relation, a.delivery, it.mark);
  WITH past AS (
    DELETE FROM headgate.announced a WHERE a.relation = end_turn.relation AND a.came_at IS NOT NULL
      AND date_bin('1 hour', a.announced_at, 'epoch') + interval '1 hour' <= it.read_to
    RETURNING date_bin('1 hour', a.announced_at, 'epoch') AS window_from, a.asked > 0 AND a.reason IS NULL AS fetched
  ), counted AS (
    INSERT INTO headgate.past_window AS p (relation, window_from, window_to, came, fetched)
    SELECT end_turn.relation, q.window_from, q.window_from + interval '1 hour', count(*), count(*) FILTER (WHERE q.fetched) FROM past q GROUP BY q.window_from
    ON CONFLICT ON CONSTRAINT past_window_pkey DO UPDATE SET came = p.came + excluded.came, fetched = p.fetched + excluded.fetched
    RETURNING 1
  )
  SELECT count(*) FROM past WHERE (SELECT count(*) FROM counted) >= 0 INTO gone;
  WITH old AS (
    DELETE FROM headgate.announced a WHERE a.relation = end_turn.relation AND a.announced_at < now() - kept AND a.next_at = 'infinity' RETURNING 1
  ) SELECT gone + count(*) FROM old INTO gone;
  DELETE FROM headgate.past_window p WHERE p.relation = end_turn.relation AND p.window_to < now() - kept;
  UPDATE headgate.reconciling r SET held = greatest(0, r.held - gone), next_at = end_turn.next, holder = NULL, held_until = NULL,
    problem = left(end_turn.problem, 500), failures = CASE WHEN end_turn.problem IS NULL THEN 0 ELSE r.failures + 1 END,
    looked_at = now()
  WHERE r.relation = end_turn.relation;
  RETURN QUERY SELECT count(*) FROM headgate.announced a WHERE a.relation = end_turn.relation AND a.came_at IS NULL;
END
$body$;
