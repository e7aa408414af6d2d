-- What Headgate reads to see whether the catalog has changed, and what it puts right.

-- Which webhook tables are looked at at all: for each look at the catalog PostgreSQL goes through all their columns, checks, triggers and
-- partitions, so those of one owner are bounded, unless that is a superuser. A table beyond the bound does not fit (catalog_sizes).
CREATE OR REPLACE FUNCTION headgate.counted() RETURNS TABLE (relation oid, counts boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT c.oid, r.rolsuper IS TRUE OR sum(
      10 + c.relnatts + c.relchecks
      + CASE WHEN c.relhastriggers THEN (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid) ELSE 0 END
      + CASE WHEN c.relhassubclass THEN (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid) ELSE 0 END
    ) OVER (PARTITION BY c.relowner ORDER BY c.oid) <= 200000
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  LEFT JOIN pg_roles r ON r.oid = c.relowner
$body$;

-- Changes whenever what is read of a webhook table changes, at a fraction of the cost: xmin is the transaction that wrote a row's
-- current version. Only what a default calls by name may be renamed unnoticed, until everything is read again. `among`: of these tables; NULL: of all,
-- and of relation 0, which covers what headgate.settle() puts right: the names of the owners of secrets and tokens, and rows of tables whose drop no
-- event trigger has seen. Each kind of row is looked up by itself, so that the plan is cheap whatever PostgreSQL knows of the tables.
CREATE OR REPLACE FUNCTION headgate.table_versions(among oid[] DEFAULT NULL) RETURNS TABLE (relation oid, version text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  -- Whose code a table's rows run is a question of what its owners are and may.
  WITH RECURSIVE looked AS MATERIALIZED (
    SELECT w.relation::oid AS relation, w.xmin AS version
    FROM headgate.webhook_table w JOIN headgate.counted() AS o ON o.relation = w.relation AND o.counts
    WHERE table_versions.among IS NULL OR w.relation = ANY (table_versions.among)
  ), part AS MATERIALIZED (
    -- pg_partition_tree() would wait for whoever has locked a partition.
    SELECT w.relation, c.oid FROM looked w JOIN pg_class c ON c.oid = w.relation AND c.relkind = 'p'
    UNION
    SELECT p.relation, i.inhrelid FROM part p JOIN pg_inherits i ON i.inhparent = p.oid
  ), owner AS MATERIALIZED (
    SELECT o.oid, concat_ws(' ', o.oid, pg_get_userbyid(o.oid), pg_has_role(o.oid, current_user, 'MEMBER'),
      pg_has_role(o.oid, 'MEMBER'), to_regrole('headgate_as_' || o.oid) IS NOT NULL) AS rights
    FROM (
      SELECT c.relowner AS oid FROM looked w JOIN pg_class c ON c.oid = w.relation
      UNION
      SELECT c.relowner FROM part p JOIN pg_class c ON c.oid = p.oid
    ) AS o
  ), fact (relation, kind, place, text) AS (
    SELECT c.oid, 1, 0::bigint, concat_ws(' ', w.version, c.xmin, n.xmin, o.rights)
    FROM looked w JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    JOIN pg_namespace n ON n.oid = c.relnamespace JOIN owner o ON o.oid = c.relowner
    UNION ALL
    SELECT p.relation, 2, c.oid::bigint, o.rights FROM part p JOIN pg_class c ON c.oid = p.oid JOIN owner o ON o.oid = c.relowner
    UNION ALL
    SELECT w.relation, 3, a.attnum, concat_ws(' ', a.xmin, d.xmin, t.xmin, n.xmin)
    FROM looked w
    JOIN pg_attribute a ON a.attrelid = w.relation AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON a.atthasdef AND d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_namespace n ON n.oid = t.typnamespace
    UNION ALL
    SELECT w.relation, 4, i.indexrelid::bigint, i.xmin::text
    FROM looked w JOIN pg_index i ON i.indrelid = w.relation
      AND (i.indisprimary OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    UNION ALL
    -- Whose code a table runs as well: its checks and triggers.
    SELECT w.relation, 5, k.oid::bigint, k.xmin::text FROM looked w JOIN pg_constraint k ON k.conrelid = w.relation AND k.contype = 'c'
    UNION ALL
    SELECT w.relation, 6, t.oid::bigint, t.xmin::text FROM looked w JOIN pg_trigger t ON t.tgrelid = w.relation
    UNION ALL
    SELECT w.relation, 7, b.position, concat_ws(' ', b.xmin, s.xmin)
    FROM looked w JOIN headgate.webhook_table_secret b ON b.relation = w.relation JOIN headgate.secret s ON s.id = b.secret_id
    UNION ALL
    -- A superuser's secret is believed more, and not every owner may use it, see catalog_rows.
    SELECT w.relation, 8, 0, concat_ws(' ', i.xmin, s.xmin, r.rolsuper, headgate.may_use(c.relowner, s.owner_oid))
    FROM looked w JOIN headgate.webhook_into i ON i.relation = w.relation JOIN pg_class c ON c.oid = w.relation
    JOIN headgate.secret s ON s.id = i.secret_id LEFT JOIN pg_roles r ON r.oid = s.owner_oid
    UNION ALL
    SELECT w.relation, 9, a.position, concat_ws(' ', a.xmin, a.seal_id) FROM looked w JOIN headgate.webhook_answer a ON a.relation = w.relation
    UNION ALL
    SELECT w.relation, 10, b.answer::bigint << 32 | b.position, concat_ws(' ', b.xmin, s.xmin)
    FROM looked w JOIN headgate.webhook_answer_secret b ON b.relation = w.relation JOIN headgate.secret s ON s.id = b.secret_id
    UNION ALL
    SELECT w.relation, 11, 0, p.xmin::text FROM looked w JOIN headgate.webhook_private p ON p.relation = w.relation
  )
  -- The sum of two hashes needs no order, which would take as long as everything else.
  SELECT f.relation, concat_ws(' ', sum(hashtextextended(f.text, f.place << 8 | f.kind)), sum(hashtextextended(f.text, ~(f.place << 8 | f.kind))))
  FROM fact f GROUP BY f.relation HAVING min(f.kind) = 1
  UNION ALL
  SELECT o.relation, '' FROM headgate.counted() AS o
  WHERE NOT o.counts AND (table_versions.among IS NULL OR o.relation = ANY (table_versions.among))
  UNION ALL
  SELECT 0::oid, md5(concat_ws(';', (
    SELECT string_agg(concat_ws(' ', r.oid, r.rolname), ',' ORDER BY r.oid)
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s UNION SELECT t.owner_oid FROM headgate.token t)), (
    SELECT string_agg(w.relation::oid::text, ',' ORDER BY w.relation::oid)
    FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation))))
  WHERE table_versions.among IS NULL
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
