-- What tables call: functions for their checks, policies, defaults and triggers, but for act() of actions.sql. Created before the tables (catalog/migrate.ts).

-- The owner of a table writes its row of the catalog: a row that could not be read would keep every other table from being read.
CREATE OR REPLACE FUNCTION headgate.is_place(place jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT jsonb_typeof(place) = 'object' AND (place ->> 'relation')::oid IS NOT NULL AND (place ->> 'attnum')::int IS NOT NULL
    AND jsonb_typeof(place -> 'column') = 'string'
$body$;

CREATE OR REPLACE FUNCTION headgate.are_places(places jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT jsonb_typeof(places) = 'array' AND coalesce(bool_and(headgate.is_place(p.value)), true) FROM jsonb_array_elements(places) p
$body$;

CREATE OR REPLACE FUNCTION headgate.are_includes(includes jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT jsonb_typeof(includes) = 'array' AND coalesce(bool_and(
    headgate.is_place(i.value)
    AND i.value ->> 'what' IN ('header', 'headers', 'timestamp', 'body', 'method', 'path', 'query', 'remote address', 'traceparent')
    AND (i.value ->> 'what' <> 'header' OR jsonb_typeof(i.value -> 'header') = 'string') IS TRUE), true)
  FROM jsonb_array_elements(includes) i
$body$;

-- NULL: the relation does not exist (any more).
CREATE OR REPLACE FUNCTION headgate.owns_table(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation
$body$;

-- The roles that an option `readers` names.
CREATE OR REPLACE FUNCTION headgate.readers_in(readers text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(replace(m[1], '""', '"'), m[2]) FROM regexp_matches(readers, '"((?:[^"]|"")+)"|([^", ]+)', 'g') m
$body$;

-- Whether the caller may look at what Headgate keeps of a table's requests: as its owner, or as a role of its option readers that may SELECT
-- its rows. NULL: the relation does not exist (any more).
CREATE OR REPLACE FUNCTION headgate.sees_table(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT pg_has_role(c.relowner, 'USAGE') OR (has_table_privilege(c.oid, 'SELECT') AND EXISTS (
    SELECT FROM headgate.webhook_table w CROSS JOIN LATERAL headgate.readers_in(w.options ->> 'readers') r (name)
    WHERE w.relation = c.oid AND (r.name = 'public' OR EXISTS (
      SELECT FROM pg_roles g WHERE g.rolname = r.name AND pg_has_role(g.oid, 'USAGE')))))
  FROM pg_class c WHERE c.oid = sees_table.relation
$body$;

-- The server whose roles the oids in headgate.secret refer to. A restored dump brings the identity of another server with it.
CREATE OR REPLACE FUNCTION headgate.cluster_identity() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN (SELECT 'cluster ' || c.system_identifier FROM pg_control_system() c);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
  RETURN (SELECT 'database ' || d.oid FROM pg_database d WHERE d.datname = current_database());
END
$body$;

CREATE OR REPLACE FUNCTION headgate.new_channels() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.channel (purpose, name)
  SELECT p.purpose, 'headgate_' || replace(gen_random_uuid()::text, '-', '') FROM unnest(ARRAY['catalog', 'rejected']) AS p (purpose)
  ON CONFLICT (purpose) DO UPDATE SET name = EXCLUDED.name
$body$;

-- Trigger of secret, webhook_table, webhook_table_secret, webhook_into and webhook_answer (0027_base.sql). CatalogWatcher.listen hears it.
CREATE OR REPLACE FUNCTION headgate.tell() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'catalog';
  RETURN NULL;
END
$body$;

-- The event triggers run inside every ALTER and DROP of every role, so they return at once if no webhook table is
-- concerned, and never fail: at worst Headgate notices late. The name of a type, a domain or a schema may be part of the
-- columns of any number of tables. CREATE INDEX and DROP INDEX never create or remove a primary key: ALTER TABLE does.
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

-- Moves everything recorded for a table, with its rows, to the table that has replaced it; ON DELETE CASCADE removes what is left. Rows with
-- keys that others refer to are inserted again, so that no constraint has to change for this.
CREATE OR REPLACE FUNCTION headgate.carry(gone oid, place oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  it record;
BEGIN
  INSERT INTO headgate.webhook_table SELECT r.* FROM headgate.webhook_table w,
    jsonb_populate_record(w, jsonb_build_object('relation', place::text)) AS r WHERE w.relation = gone;
  INSERT INTO headgate.webhook_answer SELECT r.* FROM headgate.webhook_answer a,
    jsonb_populate_record(a, jsonb_build_object('relation', place::text)) AS r WHERE a.relation = gone;
  FOR it IN
    SELECT k.conrelid::regclass AS holder FROM pg_constraint k
    WHERE k.contype = 'f' AND k.confrelid IN ('headgate.webhook_table'::regclass, 'headgate.webhook_answer'::regclass)
      AND k.conrelid <> 'headgate.webhook_answer'::regclass
    UNION SELECT 'headgate.delivery'
    UNION SELECT 'headgate.tombstone'
  LOOP
    EXECUTE format('UPDATE %s SET relation = $1 WHERE relation = $2', it.holder) USING place::regclass, gone::regclass;
  END LOOP;
  DELETE FROM headgate.webhook_table w WHERE w.relation = gone;
END
$body$;

-- Citus changes how a table is distributed by creating another, named after the table with a number, filling it, and dropping the table in
-- the same transaction. A table that anybody else has created in the meantime is of another transaction.
CREATE OR REPLACE FUNCTION headgate.carry_spread(gone oid, table_schema text, table_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'citus') THEN
    PERFORM headgate.carry(gone, c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = table_schema AND c.relkind IN ('r', 'p') AND c.xmin::text = pg_current_xact_id()::xid::text
      AND (c.relname ~ '_[0-9]+$' AND regexp_replace(c.relname, '_[0-9]+$', '') = table_name
        -- Of a long name the end gives way to its hash.
        OR length(table_name) > 40 AND c.relname ~ '^.{30,}_[0-9a-f]{8}_[0-9]+$'
          AND starts_with(table_name, regexp_replace(c.relname, '_[0-9a-f]{8}_[0-9]+$', '')));
  END IF;
END
$body$;

-- DROP … CASCADE of a type or a function may take a column, a default or a constraint of a table with it.
CREATE OR REPLACE FUNCTION headgate.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.carry_spread(d.objid, d.schema_name, d.object_name)
  FROM pg_event_trigger_dropped_objects() d JOIN headgate.webhook_table w ON w.relation = d.objid
  WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0;
  DELETE FROM headgate.webhook_table w USING pg_event_trigger_dropped_objects() d
  WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND w.relation = d.objid;
  -- While the catalog itself is made it may not be there yet.
  IF to_regclass('headgate.token_table') IS NOT NULL THEN
    DELETE FROM headgate.token_table k USING pg_event_trigger_dropped_objects() d
    WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND k.relation = d.objid;
  END IF;
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
