-- What Headgate reads to see whether the catalog has changed, and what it puts right.

-- Functions that are called again and again are in PL/pgSQL, which keeps a plan for the session, also behind a pooler. Each row is looked up by an index,
-- whatever PostgreSQL knew of the tables when it made the plan: a subquery that refers to the row around it, with OFFSET 0 in FROM, is not planned as a join.

-- Which webhook tables are looked at at all: for each look at the catalog PostgreSQL goes through all their columns, checks, triggers and
-- partitions, so those of one owner are bounded, unless that is a superuser. A table beyond the bound does not fit (catalog_sizes). `counts` is NULL: the
-- table is gone. `version`: see headgate.table_versions().
-- `among`: of these tables, which are counted as if their owner had no others; NULL: of all.
CREATE OR REPLACE FUNCTION headgate.counted_tables(among oid[] DEFAULT NULL) RETURNS TABLE (
  relation oid, counts boolean, owner oid, kind "char", has_index boolean, has_checks boolean, has_triggers boolean, version bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT w.relation::oid, CASE WHEN c.oid IS NOT NULL THEN sum(
      10 + c.relnatts + c.relchecks
      + CASE WHEN c.relhastriggers THEN (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid) ELSE 0 END
      + CASE WHEN c.relhassubclass THEN (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid) ELSE 0 END
    ) OVER (PARTITION BY c.relowner ORDER BY c.oid) <= 200000 OR (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = c.relowner) IS TRUE END,
    c.relowner, c.relkind, c.relhasindex, c.relchecks > 0, c.relhastriggers,
    hash_record_extended(ROW(w.xmin, c.version, (SELECT n.xmin FROM pg_namespace n WHERE n.oid = c.relnamespace)), 0)
  FROM headgate.webhook_table w
  LEFT JOIN LATERAL (SELECT k.*, k.xmin AS version FROM pg_class k WHERE k.oid = w.relation OFFSET 0) AS c ON true
  WHERE (counted_tables.among IS NULL OR w.relation = ANY (counted_tables.among))
    AND (c.oid IS NULL OR c.relkind IN ('r', 'p') AND c.relpersistence <> 't');
END
$body$;

-- Changes whenever what is read of a webhook table changes, at a fraction of the cost: xmin is the transaction that wrote a row's
-- current version. Only what a default calls by name may be renamed unnoticed, until everything is read again. `among`: of these tables; NULL: of all,
-- and of relation 0, which covers what headgate.settle() puts right: the names of the owners of secrets and tokens, and, behind a semicolon, rows of
-- tables whose drop no event trigger has seen.
CREATE OR REPLACE FUNCTION headgate.table_versions(among oid[] DEFAULT NULL) RETURNS TABLE (relation oid, version text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $body$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE counted AS MATERIALIZED (
    SELECT c.* FROM headgate.counted_tables(table_versions.among) AS c
  ), part AS MATERIALIZED (
    -- pg_partition_tree() would wait for whoever has locked a partition.
    SELECT c.relation, c.relation AS oid, c.owner FROM counted c WHERE c.counts AND c.kind = 'p'
    UNION
    SELECT p.relation, i.inhrelid, i.owner FROM part p CROSS JOIN LATERAL (
      SELECT h.inhrelid, (SELECT c.relowner FROM pg_class c WHERE c.oid = h.inhrelid) AS owner
      FROM pg_inherits h WHERE h.inhparent = p.oid OFFSET 0) AS i
  ), fact (relation, kind, place, hash) AS (
    -- An array has the order of an index: as long as no row changes, it does not.
    SELECT c.relation, 1, 0::bigint, hash_record_extended(ROW(c.version,
      (SELECT hash_record_extended(ROW(array_agg(a.xmin), array_agg((
          SELECT hash_record_extended(ROW(t.xmin, (SELECT n.xmin FROM pg_namespace n WHERE n.oid = t.typnamespace)), 0)
          FROM pg_type t WHERE t.oid = a.atttypid)) FILTER (WHERE a.atttypid >= 16384)), 0)
        FROM pg_attribute a WHERE a.attrelid = c.relation AND a.attnum > 0),
      ARRAY(SELECT d.xmin FROM pg_attrdef d WHERE d.adrelid = c.relation),
      -- Types of PostgreSQL's own are not looked up for each column: they are part of every version.
      (SELECT hash_array_extended(array_agg(t.xmin), 0) FROM pg_type t WHERE t.oid < 16384),
      (SELECT hash_array_extended(array_agg(n.xmin), 0) FROM pg_namespace n WHERE n.oid < 16384),
      CASE WHEN c.has_index THEN ARRAY(SELECT i.xmin FROM pg_index i
        WHERE i.indrelid = c.relation AND (i.indisprimary OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)) END,
      -- Whose code a table runs as well: its checks and triggers.
      CASE WHEN c.has_checks THEN ARRAY(SELECT k.xmin FROM pg_constraint k WHERE k.conrelid = c.relation AND k.contype = 'c') END,
      CASE WHEN c.has_triggers THEN ARRAY(SELECT t.xmin FROM pg_trigger t WHERE t.tgrelid = c.relation) END), 0)
    FROM counted c WHERE c.counts
    UNION ALL
    -- Whose code a table's rows run is a question of what its owners are and may.
    SELECT u.relation, 2, u.oid::bigint, o.hash FROM (
      SELECT array_agg(p.relation) AS relations, array_agg(p.oid) AS oids, hash_record_extended(ROW(p.owner, pg_get_userbyid(p.owner),
        pg_has_role(p.owner, current_user, 'MEMBER'), pg_has_role(p.owner, 'MEMBER'), to_regrole('headgate_as_' || p.owner) IS NOT NULL), 0) AS hash
      FROM (SELECT c.relation, c.relation, c.owner FROM counted c WHERE c.counts UNION ALL SELECT p.relation, p.oid, p.owner FROM part p)
        AS p (relation, oid, owner) GROUP BY p.owner
    ) AS o CROSS JOIN LATERAL unnest(o.relations, o.oids) AS u (relation, oid)
    UNION ALL
    SELECT b.relation, 3, b.position, hash_record_extended(ROW(b.xmin, (SELECT s.xmin FROM headgate.secret s WHERE s.id = b.secret_id)), 0)
    FROM headgate.webhook_table_secret b
    UNION ALL
    -- A superuser's secret is believed more, and not every owner may use it, see catalog_rows.
    SELECT i.relation, 4, 0, (
      SELECT hash_record_extended(ROW(i.xmin, s.xmin, (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = s.owner_oid),
        headgate.may_use((SELECT c.relowner FROM pg_class c WHERE c.oid = i.relation), s.owner_oid)), 0)
      FROM headgate.secret s WHERE s.id = i.secret_id) FROM headgate.webhook_into i
    UNION ALL
    SELECT a.relation, 5, a.position, hash_record_extended(ROW(a.xmin, a.seal_id), 0) FROM headgate.webhook_answer a
    UNION ALL
    SELECT b.relation, 6, b.answer::bigint << 32 | b.position,
      hash_record_extended(ROW(b.xmin, (SELECT s.xmin FROM headgate.secret s WHERE s.id = b.secret_id)), 0) FROM headgate.webhook_answer_secret b
    UNION ALL
    SELECT p.relation, 7, 0, hash_record_extended(ROW(p.xmin), 0) FROM headgate.webhook_private p
  )
  -- The sum of hashes needs no order, which would take as long as everything else.
  SELECT f.relation, sum(hash_record_extended(ROW(f.kind, f.place, f.hash), 0))::text
  FROM fact f WHERE table_versions.among IS NULL OR f.relation = ANY (table_versions.among)
  GROUP BY f.relation HAVING min(f.kind) = 1
  UNION ALL
  SELECT c.relation, '' FROM counted c WHERE NOT c.counts
  UNION ALL
  SELECT 0::oid, concat((
    SELECT sum(hash_record_extended(ROW(r.oid, r.rolname), 0))
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s UNION SELECT t.owner_oid FROM headgate.token t)), ';', (
    SELECT string_agg(c.relation::text, ' ' ORDER BY c.relation) FROM counted c WHERE c.counts IS NULL))
  WHERE table_versions.among IS NULL;
END
$body$;

-- The one question that is put again and again. `snapshot`, `fingerprint`: the last answer. Returns NULL as the snapshot if no transaction has
-- changed anything since, and as `versions` if no version is another one.
CREATE OR REPLACE FUNCTION headgate.look(INOUT snapshot text, INOUT fingerprint text, OUT versions text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  known text := fingerprint;
BEGIN
  IF snapshot = pg_current_snapshot()::text THEN
    snapshot := NULL;
    RETURN;
  END IF;
  snapshot := pg_current_snapshot()::text;
  SELECT string_agg(concat(v.relation, ' ', v.version), ',' ORDER BY v.relation) INTO versions FROM headgate.table_versions() AS v;
  fingerprint := encode(sha256(convert_to(versions, 'UTF8')), 'hex');
  IF fingerprint = known THEN
    versions := NULL;
  END IF;
END
$body$;

-- Another one each time a statement is planned that calls it: not immutable, but declared so, as headgate.stays() is.
CREATE OR REPLACE FUNCTION headgate.stamp() RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN gen_random_uuid();
END
$body$;

-- Changes with all of headgate.table_versions() that is no table's definition: roles, these types and PostgreSQL's own, and what Headgate itself has stored. As
-- long as no transaction has changed anything, the session remembers it.
CREATE OR REPLACE FUNCTION headgate.watched_rows(types oid[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $body$
BEGIN
  IF current_setting('headgate.watched_at', true) IS DISTINCT FROM pg_current_snapshot()::text THEN
    PERFORM set_config('headgate.watched_at', pg_current_snapshot()::text, false);
    PERFORM set_config('headgate.watched_rows', concat_ws(' ',
      (SELECT sum(hash_record_extended(ROW(r.oid, r.rolname, r.rolsuper), 0)) FROM pg_roles r),
      (SELECT hash_array_extended(array_agg(m.xmin), 0) FROM pg_auth_members m),
      (SELECT hash_array_extended(array_agg(t.xmin), 0) FROM pg_type t WHERE t.oid < 16384),
      (SELECT hash_array_extended(array_agg(t.xmin), 0) FROM pg_type t WHERE t.oid = ANY (types)),
      (SELECT hash_array_extended(array_agg(s.xmin), 0) FROM headgate.secret s),
      (SELECT hash_array_extended(array_agg(w.xmin), 0) FROM headgate.webhook_table w),
      (SELECT hash_array_extended(array_agg(b.xmin), 0) FROM headgate.webhook_table_secret b),
      (SELECT hash_array_extended(array_agg(i.xmin), 0) FROM headgate.webhook_into i),
      (SELECT hash_array_extended(array_agg(a.xmin), 0) FROM headgate.webhook_answer a),
      (SELECT hash_array_extended(array_agg(b.xmin), 0) FROM headgate.webhook_answer_secret b),
      (SELECT hash_array_extended(array_agg(p.xmin), 0) FROM headgate.webhook_private p)), false);
  END IF;
  RETURN current_setting('headgate.watched_rows');
END
$body$;

-- Prepares, for each `together` tables, a statement whose answer is another one after whatever may have changed their versions, at a fraction of the cost of a
-- look: it is planned again, and so stamped again, after PostgreSQL has told the session of a change to a relation that it names as a constant of type
-- regclass, or to any schema. That includes what VACUUM notes of a table. It is told of a change a moment after the change can be seen: so the answer is asked
-- for before a look, and compared with the one before the next look. Returns the tables of each, and a digest of them with their partitions; and first, without
-- a statement, the types of headgate.watched_rows().
CREATE OR REPLACE FUNCTION headgate.watch(together int) RETURNS TABLE (statement text, watched oid[], digest text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  relations text;
  wanted text;
BEGIN
  watched := ARRAY(SELECT DISTINCT a.atttypid FROM pg_attribute a JOIN headgate.webhook_table w ON w.relation = a.attrelid
    WHERE a.attnum > 0 AND a.atttypid >= 16384);
  RETURN NEXT;
  FOR statement, watched, relations IN
    WITH RECURSIVE known (root, oid) AS (
      SELECT w.relation::oid, w.relation::oid FROM headgate.webhook_table w
      UNION SELECT p.root, i.inhrelid FROM known p JOIN pg_inherits i ON i.inhparent = p.oid
    ), parts AS (SELECT (dense_rank() OVER (ORDER BY k.root) - 1) / together AS part, k.root, k.oid FROM known k)
    SELECT 'headgate_watched_' || p.part, array_agg(DISTINCT p.root), string_agg(format('%L::pg_catalog.regclass', p.oid), ',' ORDER BY p.oid)
    FROM parts p GROUP BY p.part
  LOOP
    digest := md5(relations);
    wanted := format('PREPARE %I AS SELECT headgate.stamp() AS state, CASE WHEN false THEN ARRAY[%s] IS NULL END', statement, relations);
    IF EXISTS (SELECT FROM pg_prepared_statements s WHERE s.name = watch.statement AND s.statement <> wanted) THEN
      EXECUTE format('DEALLOCATE %I', statement);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_prepared_statements s WHERE s.name = watch.statement) THEN
      EXECUTE wanted;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$body$;

-- Whether some tables are still what is known of them, at the cost of these alone: those with these oids, and those with these names, if there
-- are any by now.
CREATE OR REPLACE FUNCTION headgate.look_at(oids oid[], schemas text[], tables text[]) RETURNS TABLE (relation oid, version text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
  SELECT v.relation, v.version FROM headgate.table_versions(look_at.oids || ARRAY(
    SELECT c.oid FROM ROWS FROM (unnest(look_at.schemas), unnest(look_at.tables)) AS a (schema_name, table_name)
    JOIN pg_namespace n ON n.nspname = a.schema_name COLLATE "C"
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = a.table_name COLLATE "C"
  )) AS v
$body$;

-- Citus adds a local table to its metadata by turning it into the one shard of a new table of the same name, and hides shards from
-- pg_class unless told not to.
CREATE OR REPLACE PROCEDURE headgate.leave_shards()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'citus') AND to_regclass('pg_dist_shard') IS NOT NULL THEN
    PERFORM set_config('citus.override_table_visibility', 'off', true);
    PERFORM headgate.carry(c.oid, l.oid)
    FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation
    JOIN pg_dist_shard s ON s.shardid::text = substring(c.relname FROM '_([0-9]+)$')
    JOIN pg_class l ON l.oid = s.logicalrelid
    WHERE l.relowner = c.relowner AND l.relnamespace = c.relnamespace
      AND NOT EXISTS (SELECT FROM headgate.webhook_table o WHERE o.relation = l.oid);
  END IF;
END
$body$;

-- Puts right what nothing has notified of: what a restored dump has brought from elsewhere, roles that were renamed or
-- dropped, and rows of tables whose drop no event trigger has seen. A role may have changed a row of its own in a transaction that it
-- leaves open: what that concerns is put right another time, and nobody waits for it.
CREATE OR REPLACE PROCEDURE headgate.settle()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  patience text := current_setting('lock_timeout');
BEGIN
  IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '50ms', true);
  FOR step IN 1 .. 6 LOOP
    BEGIN
      CASE step
        WHEN 1 THEN CALL headgate.place_restored();
        WHEN 2 THEN PERFORM headgate.keep_owners();
        WHEN 3 THEN CALL headgate.leave_shards();
        WHEN 4 THEN PERFORM headgate.keep_claimers();
        WHEN 5 THEN
          IF EXISTS (SELECT FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)) THEN
            DELETE FROM headgate.webhook_table g WHERE g.relation IN (
              SELECT w.relation FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)
              FOR UPDATE SKIP LOCKED);
          END IF;
        ELSE DELETE FROM headgate.token_table k WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation);
      END CASE;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', patience, true);
END
$body$;
