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
-- current version. Only what a default calls by name may be renamed unnoticed, until the next row that needs it. Relation 0 covers what
-- headgate.settle() puts right: the names of the owners of secrets and tokens, and rows of tables whose drop no event trigger has seen.
CREATE OR REPLACE FUNCTION headgate.catalog_versions() RETURNS TABLE (relation oid, version text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  -- Whose code a table's rows run is a question of what its owners are and may.
  WITH RECURSIVE looked AS MATERIALIZED (
    SELECT w.relation::oid AS relation, w.xmin AS version
    FROM headgate.webhook_table w JOIN headgate.counted() AS o ON o.relation = w.relation AND o.counts
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
  )
  SELECT c.oid, md5(concat_ws(';', concat_ws(' ', w.version, c.xmin, n.xmin, has_database_privilege(current_database(), 'CREATE')), owner.rights, parts.versions, columns.versions, keys.versions, code.versions,
    secrets.versions, target.version, answers.versions, answer_secrets.versions))
  FROM looked w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN owner ON owner.oid = c.relowner
  LEFT JOIN (
    SELECT p.relation, string_agg(concat_ws(' ', c.oid, o.rights), ',' ORDER BY c.oid) AS versions
    FROM part p JOIN pg_class c ON c.oid = p.oid JOIN owner o ON o.oid = c.relowner
    GROUP BY p.relation
  ) AS parts ON parts.relation = c.oid
  LEFT JOIN (
    SELECT w.relation, string_agg(concat_ws(' ', a.xmin, d.xmin, t.xmin, n.xmin), ',' ORDER BY a.attnum) AS versions
    FROM looked w
    JOIN pg_attribute a ON a.attrelid = w.relation AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_namespace n ON n.oid = t.typnamespace
    GROUP BY w.relation
  ) AS columns ON columns.relation = c.oid
  LEFT JOIN (
    SELECT i.indrelid AS relation, string_agg(concat_ws(' ', i.indexrelid, i.xmin), ',' ORDER BY i.indexrelid) AS versions
    FROM looked w JOIN pg_index i ON i.indrelid = w.relation
      AND (i.indisprimary OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    GROUP BY i.indrelid
  ) AS keys ON keys.relation = c.oid
  -- Whose code a table runs as well: its checks and triggers.
  LEFT JOIN (
    SELECT found.relation, string_agg(concat(found.oid, '/', found.version), ',' ORDER BY found.oid) AS versions
    FROM (
      SELECT k.conrelid AS relation, k.oid, k.xmin::text AS version
      FROM looked w JOIN pg_constraint k ON k.conrelid = w.relation AND k.contype = 'c'
      UNION ALL
      SELECT t.tgrelid, t.oid, t.xmin::text FROM looked w JOIN pg_trigger t ON t.tgrelid = w.relation
    ) AS found
    GROUP BY found.relation
  ) AS code ON code.relation = c.oid
  LEFT JOIN (
    SELECT b.relation::oid AS relation, string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.position) AS versions
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
    GROUP BY b.relation
  ) AS secrets ON secrets.relation = c.oid
  -- A superuser's secret is believed more, and not every owner may use it, see catalog_rows.
  LEFT JOIN (
    SELECT i.relation::oid AS relation, concat_ws(' ', i.xmin, s.xmin, r.rolsuper, headgate.may_use(c.relowner, s.owner_oid)) AS version
    FROM headgate.webhook_into i JOIN pg_class c ON c.oid = i.relation JOIN headgate.secret s ON s.id = i.secret_id
    LEFT JOIN pg_roles r ON r.oid = s.owner_oid
  ) AS target ON target.relation = c.oid
  LEFT JOIN (
    SELECT a.relation::oid AS relation, string_agg(concat_ws(' ', a.xmin, a.seal_id), ',' ORDER BY a.position) AS versions
    FROM headgate.webhook_answer a GROUP BY a.relation
  ) AS answers ON answers.relation = c.oid
  LEFT JOIN (
    SELECT b.relation::oid AS relation, string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.answer, b.position) AS versions
    FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
    GROUP BY b.relation
  ) AS answer_secrets ON answer_secrets.relation = c.oid
  UNION ALL
  SELECT o.relation, '' FROM headgate.counted() AS o WHERE NOT o.counts
  UNION ALL
  SELECT 0::oid, md5(concat_ws(';', (
    SELECT string_agg(concat_ws(' ', r.oid, r.rolname), ',' ORDER BY r.oid)
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s UNION SELECT t.owner_oid FROM headgate.token t)), (
    SELECT string_agg(w.relation::oid::text, ',' ORDER BY w.relation::oid)
    FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation))))
$body$;

-- For all of them together: whether anything has changed.
CREATE OR REPLACE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT encode(sha256(convert_to(coalesce(string_agg(concat(v.relation, ' ', v.version), ',' ORDER BY v.relation), ''), 'UTF8')), 'hex')
  FROM headgate.catalog_versions() AS v
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
  FOR step IN 1 .. 5 LOOP
    BEGIN
      CASE step
        WHEN 1 THEN CALL headgate.place_restored();
        WHEN 2 THEN PERFORM headgate.keep_owners();
        WHEN 3 THEN CALL headgate.leave_shards();
        WHEN 4 THEN
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
