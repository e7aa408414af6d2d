-- What Headgate is told and what it reads: nothing that one role has written costs the others their catalog.

CREATE OR REPLACE FUNCTION headgate.tell() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'catalog';
  RETURN NULL;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF tg_tag <> 'ALTER TABLE' OR EXISTS (
    SELECT FROM pg_event_trigger_ddl_commands() c JOIN headgate.webhook_table w ON w.relation = c.objid
  ) THEN
    PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'catalog';
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'headgate.on_ddl: %', SQLERRM;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  DELETE FROM headgate.webhook_table w USING pg_event_trigger_dropped_objects() d
  WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND w.relation = d.objid;
  IF EXISTS (
    SELECT FROM pg_event_trigger_dropped_objects() d JOIN headgate.webhook_table w
      ON w.relation = to_regclass(quote_ident(d.address_names[1]) || '.' || quote_ident(d.address_names[2]))
    WHERE d.object_type IN ('table column', 'default value', 'table constraint')
  ) THEN
    PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'catalog';
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'headgate.on_drop: %', SQLERRM;
END
$body$;

-- What reading a webhook table costs: its row, its secrets, and the defaults and generated columns that its owner has
-- given it. Lengths are known without reading the values. `fits`: it is small enough, and so are all of its owner's
-- together; what does not fit is not read, and its requests are answered 503.
CREATE VIEW headgate.catalog_sizes AS
SELECT sized.relation, sized.schema_name, sized.table_name, sized.bytes,
  sized.bytes <= 8388608
    AND sum(sized.bytes) FILTER (WHERE sized.bytes <= 8388608) OVER (PARTITION BY sized.relowner ORDER BY sized.relation) <= 67108864
    AS fits
FROM (
  SELECT c.oid AS relation, n.nspname::text AS schema_name, c.relname::text AS table_name, c.relowner,
    -- A jsonb may be compressed: rows from before there were bounds are taken for what they may come to.
    octet_length(w.payload) + 16 * (pg_column_size(w.options) + coalesce(pg_column_size(w.document), 0) + pg_column_size(w.includes))
      + coalesce(octet_length(w.expression), 0) + coalesce(octet_length(w.sealed_expression), 0)
      + coalesce(secrets.bytes, 0) + columns.bytes AS bytes
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation AND c.relkind = 'r' AND c.relpersistence <> 't'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (
    SELECT sum(octet_length(b.alias) + octet_length(s.name) + octet_length(s.sealed)) AS bytes
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
  ) AS secrets
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(
      coalesce(octet_length(d.adbin::text), 0) + coalesce(octet_length(t.typdefaultbin::text), 0) + 256), 0) AS bytes
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = w.relation AND a.attnum > 0
  ) AS columns
) AS sized;

-- Changes whenever what is read of a webhook table does, at a fraction of the cost: xmin is the transaction that wrote a
-- row's present version. Only what a default calls by name may be renamed unseen; the next row that needs it tells.
CREATE OR REPLACE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', tables.versions, columns.versions, keys.versions, secrets.versions, owners.names))
  FROM (
    SELECT string_agg(concat_ws(' ', c.oid, w.xmin, c.xmin, n.xmin), ',' ORDER BY c.oid) AS versions
    FROM headgate.webhook_table w
    JOIN pg_class c ON c.oid = w.relation AND c.relkind = 'r' AND c.relpersistence <> 't'
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
    SELECT string_agg(concat_ws(' ', b.xmin, s.xmin), ',' ORDER BY b.relation::oid, b.position) AS versions
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
  ) AS secrets, (
    SELECT string_agg(concat_ws(' ', r.oid, r.rolname), ',' ORDER BY r.oid) AS names
    FROM pg_roles r WHERE r.oid IN (SELECT s.owner_oid FROM headgate.secret s)
  ) AS owners
$body$;

-- What nobody has told of is put right: what a restored dump has brought from elsewhere, roles that were renamed or
-- dropped, and rows of tables that are gone, where no event trigger has seen them go.
CREATE PROCEDURE headgate.settle()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
    RETURN;
  END IF;
  CALL headgate.place_restored();
  PERFORM headgate.keep_owners();
  IF EXISTS (SELECT FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)) THEN
    DELETE FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation);
  END IF;
END
$body$;

-- PostgreSQL lets everybody execute a function unless told otherwise. Left to everybody are those that the SQL port calls
-- as the client's role, and those that they, the policies and the constraints call; none of them can do more than its caller.
DO $body$
DECLARE
  ours record;
BEGIN
  FOR ours IN
    SELECT p.oid::regprocedure AS signature FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND (p.prosecdef OR p.proname IN (
      'new_channels', 'cluster_identity', 'keep_owners', 'may_use', 'find_secret', 'refuse_strangers', 'do_validate',
      'do_register', 'do_create_secret', 'do_alter_secret', 'do_drop_secret', 'do_retry', 'do_forget', 'settle',
      'place_restored', 'catalog_fingerprint', 'confirm'))
  LOOP
    EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', ours.signature);
  END LOOP;
END
$body$;
