-- What Headgate reads to know whether the catalog has changed, and what it puts right.

-- The tables themselves: their columns, keys and secrets.
CREATE OR REPLACE FUNCTION headgate.table_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', tables.versions, columns.versions, keys.versions, secrets.versions, owners.names))
  FROM (
    SELECT string_agg(concat_ws(' ', c.oid, w.xmin, c.xmin, n.xmin), ',' ORDER BY c.oid) AS versions
    FROM headgate.webhook_table w
    JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    JOIN pg_namespace n ON n.oid = c.relnamespace
  ) AS tables, (
    SELECT string_agg(concat_ws(' ', a.xmin, d.xmin, t.xmin, n.xmin), ',' ORDER BY a.attrelid, a.attnum) AS versions
    FROM headgate.webhook_table w
    JOIN pg_attribute a ON a.attrelid = w.relation AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_namespace n ON n.oid = t.typnamespace
  ) AS columns, (
    SELECT string_agg(concat_ws(' ', i.indexrelid, i.xmin), ',' ORDER BY i.indrelid) AS versions
    FROM headgate.webhook_table w JOIN pg_index i ON i.indrelid = w.relation AND i.indisprimary
  ) AS keys, (
    SELECT string_agg(concat_ws(' ', b.version, s.xmin), ',' ORDER BY b.relation::oid, b.position) AS versions
    FROM (
      SELECT v.relation, v.position, v.xmin::text AS version, v.secret_id FROM headgate.webhook_table_secret v
      UNION ALL
      -- A superuser's secret is believed more, see catalog_rows.
      SELECT i.relation, 0, concat_ws(' ', i.xmin, r.rolsuper), i.secret_id FROM headgate.webhook_into i
      JOIN headgate.secret t ON t.id = i.secret_id LEFT JOIN pg_roles r ON r.oid = t.owner_oid
    ) AS b JOIN headgate.secret s ON s.id = b.secret_id
  ) AS secrets, (
    SELECT string_agg(concat_ws(' ', r.oid, r.rolname), ',' ORDER BY r.oid) AS names
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s UNION SELECT t.owner_oid FROM headgate.token t)
  ) AS owners
$body$;

-- What decides whose code a table runs as well: what an owner is a member of, and the checks, triggers and index expressions
-- of the table.
CREATE OR REPLACE FUNCTION headgate.checked_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', headgate.table_fingerprint(), owners.rights, code.versions))
  FROM (
    SELECT string_agg(concat_ws(' ', o.relowner, headgate.trusts(o.relowner), pg_has_role(o.relowner, 'MEMBER'),
      has_database_privilege(current_database(), 'CREATE')),
      ',' ORDER BY o.relowner) AS rights
    FROM (
      SELECT c.relowner FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation
      UNION
      SELECT c.relowner FROM headgate.webhook_table w CROSS JOIN LATERAL pg_partition_tree(w.relation) AS p
      JOIN pg_class c ON c.oid = p.relid
    ) AS o
  ) AS owners, (
    SELECT string_agg(concat(found.oid, '/', found.version), ',' ORDER BY found.oid) AS versions
    FROM headgate.webhook_table w CROSS JOIN LATERAL (
      SELECT k.oid, k.xmin::text AS version FROM pg_constraint k WHERE k.conrelid = w.relation AND k.contype = 'c'
      UNION ALL
      SELECT t.oid, t.xmin::text FROM pg_trigger t WHERE t.tgrelid = w.relation
      UNION ALL
      SELECT i.indexrelid, i.xmin::text FROM pg_index i
      WHERE i.indrelid = w.relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    ) AS found
  ) AS code
$body$;

-- Changes whenever what is read of a webhook table does, at a fraction of the cost: xmin is the transaction that wrote a
-- row's present version. Only what a default calls by name may be renamed unseen; the next row that needs it tells.
CREATE OR REPLACE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', headgate.checked_fingerprint(), answers.versions, secrets.versions))
  FROM (
    SELECT string_agg(concat_ws(' ', a.xmin, a.seal_id), ',' ORDER BY a.relation::oid, a.position) AS versions
    FROM headgate.webhook_answer a
  ) AS answers, (
    SELECT string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.relation::oid, b.answer, b.position) AS versions
    FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
  ) AS secrets
$body$;

-- Citus takes a local table into its metadata by making it the one shard of a new table of its name, and shows no shards in pg_class
-- unless told to.
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

-- What nobody has told of is put right: what a restored dump has brought from elsewhere, roles that were renamed or
-- dropped, and rows of tables that are gone, where no event trigger has seen them go.
CREATE OR REPLACE PROCEDURE headgate.settle()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
    RETURN;
  END IF;
  CALL headgate.place_restored();
  PERFORM headgate.keep_owners();
  CALL headgate.leave_shards();
  IF EXISTS (SELECT FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)) THEN
    DELETE FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation);
  END IF;
  DELETE FROM headgate.token_table k WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation);
END
$body$;
