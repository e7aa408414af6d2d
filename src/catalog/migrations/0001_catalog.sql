-- The catalog of one database: which tables are webhook tables, how their requests are checked, and the sealed secrets.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog. Works on PostgreSQL 14 to 18.
--
-- Headgate's statements arrive here as CALLs from the SQL door and run as the client's own role: what a role may do to
-- a table or a secret is decided by row-level security on the tables below, not by code that borrows other rights.
-- Every procedure pins its search_path; what depends on the client's (current_schemas, to_regclass) is computed in the
-- CALL's arguments, and put back only around the one statement that is the client's own.

CREATE SCHEMA IF NOT EXISTS headgate;
GRANT USAGE ON SCHEMA headgate TO PUBLIC;

-- What this database allows Headgate: one row.
CREATE TABLE headgate.capability (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  event_triggers boolean NOT NULL
);

-- `owner` is a role's name and not a regrole: a dump can then be restored where the role does not exist.
CREATE TABLE headgate.secret (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  schema_name text NOT NULL,
  name text NOT NULL,
  owner name NOT NULL DEFAULT current_user,
  backend text NOT NULL,
  seal_id uuid NOT NULL,
  sealed text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  altered_at timestamptz,
  UNIQUE (schema_name, name)
);

-- The owner of a table writes its row of the catalog: one that could not be read would cost every other table its own.
CREATE FUNCTION headgate.is_place(place jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $body$
  SELECT jsonb_typeof(place) = 'object' AND (place ->> 'relation')::oid IS NOT NULL AND (place ->> 'attnum')::int IS NOT NULL
    AND jsonb_typeof(place -> 'column') = 'string'
$body$;

CREATE FUNCTION headgate.are_includes(includes jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $body$
  SELECT jsonb_typeof(includes) = 'array' AND coalesce(bool_and(
    headgate.is_place(i.value) AND i.value ->> 'what' IN ('header', 'headers', 'timestamp')
    AND (i.value ->> 'what' <> 'header' OR jsonb_typeof(i.value -> 'header') = 'string') IS TRUE), true)
  FROM jsonb_array_elements(includes) i
$body$;

-- regclass survives dump and restore (it is dumped as a name) and pg_upgrade (which keeps oids).
CREATE TABLE headgate.webhook_table (
  relation regclass PRIMARY KEY,
  -- The name of the request's body inside the expression.
  payload text NOT NULL,
  options jsonb NOT NULL CHECK (jsonb_typeof(options) = 'object'),
  -- The column that takes the whole document, as headgate.place() writes it; null: the document's keys fill the columns.
  document jsonb CHECK (document IS NULL OR headgate.is_place(document) IS TRUE),
  -- Columns that are filled from the request, in order: places with `what` (header, headers, timestamp) and `header`.
  includes jsonb NOT NULL CHECK (headgate.are_includes(includes) IS TRUE),
  -- With secret literals masked; null: the table has no VALIDATE.
  expression text,
  -- The whole expression, sealed; null where nothing had to be masked.
  sealed_expression text,
  seal_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((sealed_expression IS NULL) = (seal_id IS NULL)),
  CHECK (sealed_expression IS NULL OR expression IS NOT NULL)
);

CREATE TABLE headgate.webhook_table_secret (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, position),
  UNIQUE (relation, alias)
);
CREATE INDEX webhook_table_secret_secret_id ON headgate.webhook_table_secret (secret_id);

---------------------------------------------------------------- who may do what

-- NULL: there is no such relation (any more).
CREATE FUNCTION headgate.owns_table(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation
$body$;

CREATE FUNCTION headgate.owns_secret(owner name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT coalesce(
    (SELECT pg_has_role(r.oid, 'USAGE') FROM pg_roles r WHERE r.rolname = owner),
    (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user))
$body$;

ALTER TABLE headgate.secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE headgate.webhook_table ENABLE ROW LEVEL SECURITY;
ALTER TABLE headgate.webhook_table_secret ENABLE ROW LEVEL SECURITY;

CREATE POLICY seen ON headgate.secret FOR SELECT USING (true);
CREATE POLICY made ON headgate.secret FOR INSERT WITH CHECK (headgate.owns_secret(owner));
CREATE POLICY changed ON headgate.secret FOR UPDATE USING (headgate.owns_secret(owner));
CREATE POLICY dropped ON headgate.secret FOR DELETE USING (headgate.owns_secret(owner));

CREATE POLICY seen ON headgate.webhook_table FOR SELECT USING (true);
CREATE POLICY made ON headgate.webhook_table FOR INSERT WITH CHECK (headgate.owns_table(relation));
CREATE POLICY changed ON headgate.webhook_table FOR UPDATE USING (headgate.owns_table(relation));
-- Without event triggers the row of a dropped table stays behind; anyone may clear it away.
CREATE POLICY dropped ON headgate.webhook_table FOR DELETE USING (headgate.owns_table(relation) IS NOT FALSE);

CREATE POLICY seen ON headgate.webhook_table_secret FOR SELECT USING (true);
CREATE POLICY made ON headgate.webhook_table_secret FOR INSERT WITH CHECK (
  headgate.owns_table(relation)
  AND EXISTS (SELECT FROM headgate.secret s WHERE s.id = secret_id AND headgate.owns_secret(s.owner)));
CREATE POLICY dropped ON headgate.webhook_table_secret FOR DELETE USING (headgate.owns_table(relation) IS NOT FALSE);

-- Never `sealed` nor `sealed_expression`: a sealed value is for Headgate's role alone.
GRANT SELECT (id, schema_name, name, owner, backend, created_at, altered_at) ON headgate.secret TO PUBLIC;
GRANT INSERT (schema_name, name, backend, seal_id, sealed) ON headgate.secret TO PUBLIC;
GRANT UPDATE (backend, seal_id, sealed, altered_at), DELETE ON headgate.secret TO PUBLIC;
GRANT SELECT (relation, payload, options, document, includes, expression, created_at) ON headgate.webhook_table TO PUBLIC;
GRANT INSERT (relation, payload, options, document, includes) ON headgate.webhook_table TO PUBLIC;
GRANT UPDATE (payload, expression, sealed_expression, seal_id), DELETE ON headgate.webhook_table TO PUBLIC;
GRANT SELECT, INSERT, DELETE ON headgate.webhook_table_secret TO PUBLIC;

---------------------------------------------------------------- telling Headgate

CREATE FUNCTION headgate.tell() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
  PERFORM pg_notify('headgate_catalog', '');
  RETURN NULL;
END
$body$;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.secret
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_table
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_table_secret
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();

-- The event triggers run inside every ALTER and DROP of every role, so that they leave at once where no webhook table
-- is concerned, and never fail: at worst Headgate notices late. What a type, a domain or a schema is called stands in
-- the columns of any number of tables. No CREATE INDEX or DROP INDEX makes or ends a primary key: ALTER TABLE does.
CREATE FUNCTION headgate.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
  IF tg_tag <> 'ALTER TABLE' OR EXISTS (
    SELECT FROM pg_event_trigger_ddl_commands() c JOIN headgate.webhook_table w ON w.relation = c.objid
  ) THEN
    PERFORM pg_notify('headgate_catalog', '');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'headgate.on_ddl: %', SQLERRM;
END
$body$;

-- DROP … CASCADE of a type or a function may take a column, a default or a constraint of a table with it.
CREATE FUNCTION headgate.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
  DELETE FROM headgate.webhook_table w USING pg_event_trigger_dropped_objects() d
  WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND w.relation = d.objid;
  IF EXISTS (
    SELECT FROM pg_event_trigger_dropped_objects() d JOIN headgate.webhook_table w
      ON w.relation = to_regclass(quote_ident(d.address_names[1]) || '.' || quote_ident(d.address_names[2]))
    WHERE d.object_type IN ('table column', 'default value', 'table constraint')
  ) THEN
    PERFORM pg_notify('headgate_catalog', '');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'headgate.on_drop: %', SQLERRM;
END
$body$;

DO $body$
BEGIN
  CREATE EVENT TRIGGER headgate_ddl ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN') EXECUTE FUNCTION headgate.on_ddl();
  CREATE EVENT TRIGGER headgate_drop ON sql_drop EXECUTE FUNCTION headgate.on_drop();
  INSERT INTO headgate.capability (event_triggers) VALUES (true);
EXCEPTION WHEN insufficient_privilege THEN
  INSERT INTO headgate.capability (event_triggers) VALUES (false);
END
$body$;

---------------------------------------------------------------- webhook tables

-- How a column is remembered: by what it was called and where it stood.
CREATE FUNCTION headgate.place(a pg_attribute) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT jsonb_build_object('relation', a.attrelid::bigint, 'attnum', a.attnum, 'column', a.attname)
$body$;

-- The column that a place means today; NULL: it is gone. A renamed column keeps its number; a restored table keeps the
-- names and not always the numbers; a column that is dropped and added again is meant again.
CREATE FUNCTION headgate.placed(relation oid, place jsonb) RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT a.attname FROM pg_attribute a
  WHERE a.attrelid = placed.relation AND a.attnum > 0 AND NOT a.attisdropped
    AND (a.attnum = (place ->> 'attnum')::int AND a.attrelid = (place ->> 'relation')::oid
      OR a.attname = (place ->> 'column')::name)
  ORDER BY a.attnum = (place ->> 'attnum')::int AND a.attrelid = (place ->> 'relation')::oid DESC
  LIMIT 1
$body$;

CREATE FUNCTION headgate.placed_anew(relation oid, place jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT coalesce((
    SELECT place || headgate.place(a) FROM pg_attribute a
    WHERE a.attrelid = placed_anew.relation AND a.attname = (place ->> 'column')::name AND a.attnum > 0 AND NOT a.attisdropped
  ), place)
$body$;

-- Columns of restored tables get their numbers of now, so that what is renamed from here on is followed. Writes nothing
-- elsewhere, and may then run on a standby.
CREATE PROCEDURE headgate.place_restored()
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  restored record;
BEGIN
  FOR restored IN
    SELECT w.relation FROM headgate.webhook_table w
    WHERE (w.document ->> 'relation')::oid <> w.relation::oid
      OR EXISTS (SELECT FROM jsonb_array_elements(w.includes) i WHERE (i.value ->> 'relation')::oid <> w.relation::oid)
  LOOP
    UPDATE headgate.webhook_table w SET
      document = headgate.placed_anew(w.relation, w.document),
      includes = (
        SELECT coalesce(jsonb_agg(headgate.placed_anew(w.relation, i.value) ORDER BY i.position), '[]')
        FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position))
    WHERE w.relation = restored.relation;
  END LOOP;
END
$body$;

CREATE FUNCTION headgate.base_type(type oid) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  WITH RECURSIVE base AS (
    SELECT t.oid, t.typtype, t.typbasetype FROM pg_type t WHERE t.oid = base_type.type
    UNION ALL
    SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd'
  )
  SELECT b.oid FROM base b WHERE b.typtype <> 'd'
$body$;

-- May a column take a whole body that arrives in this format?
CREATE FUNCTION headgate.takes_body(a pg_attribute, format text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT headgate.base_type(a.atttypid) = ANY (CASE format
    WHEN 'text' THEN ARRAY['text', 'varchar']::regtype[]
    WHEN 'bytes' THEN ARRAY['bytea']::regtype[]
    ELSE ARRAY['jsonb', 'json']::regtype[] END)
$body$;

-- Columns that a row may fill and that nothing but its body does.
CREATE FUNCTION headgate.body_columns(relation oid, includes jsonb) RETURNS SETOF pg_attribute
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT a FROM pg_attribute a
  WHERE a.attrelid = body_columns.relation AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = '' AND a.attidentity <> 'a'
    AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(includes) i WHERE headgate.placed(body_columns.relation, i.value) = a.attname)
$body$;

-- Which column takes the whole document is decided once, when the table is made: a column that is added later never
-- turns the documents of a table into rows of it. `wanted`: a column's name, '' for none, NULL: the only one if it fits.
CREATE FUNCTION headgate.choose_document(relation oid, includes jsonb, format text, wanted text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
DECLARE
  body pg_attribute[] := ARRAY(SELECT b FROM headgate.body_columns(relation, includes) b ORDER BY b.attnum);
  chosen pg_attribute;
  unfilled name;
BEGIN
  IF cardinality(body) = 0 THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a webhook table has a column that takes the body of the request';
  ELSIF wanted IS NULL AND cardinality(body) = 1 AND headgate.takes_body(body[1], format) THEN
    RETURN headgate.place(body[1]);
  ELSIF wanted <> '' THEN
    SELECT b.* INTO chosen FROM unnest(body) b WHERE b.attname = wanted::name;
    IF chosen.attname IS NULL OR NOT headgate.takes_body(chosen, format) THEN
      RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('column "%s" cannot take the body of the request', wanted);
    END IF;
    SELECT b.attname INTO unfilled FROM unnest(body) b JOIN pg_type t ON t.oid = b.atttypid
    WHERE b.attname <> chosen.attname AND b.attnotnull AND NOT b.atthasdef AND b.attidentity = '' AND t.typdefaultbin IS NULL
    ORDER BY b.attnum LIMIT 1;
    IF unfilled IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '0A000',
        MESSAGE = format('column "%s" is NOT NULL and never filled: the body goes into "%s", the others keep their defaults',
          unfilled, chosen.attname);
    END IF;
    RETURN headgate.place(chosen);
  ELSIF format IN ('text', 'bytes') THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('format = ''%s'' needs exactly one column for the body, of type %s',
        format, CASE format WHEN 'text' THEN 'TEXT' ELSE 'BYTEA' END);
  ELSIF wanted IS NULL AND cardinality(body) > 1 AND (
    -- Somebody may have thought of the one JSONB column as the place of the whole document.
    SELECT count(*) FILTER (WHERE headgate.takes_body(b, format)) = 1
      AND bool_and(headgate.takes_body(b, format) OR b.atthasdef OR b.attidentity <> '') FROM unnest(body) b
  ) THEN
    SELECT b.* INTO chosen FROM unnest(body) b WHERE headgate.takes_body(b, format);
    RAISE NOTICE USING
      MESSAGE = format('the keys of a document fill the columns %s', (
        SELECT string_agg(format('"%s"', b.attname), ', ' ORDER BY b.attnum) FROM unnest(body) b)),
      HINT = format('For the whole document in "%s" add the option document = ''%s''.', chosen.attname, chosen.attname);
  END IF;
  RETURN NULL;
END
$body$;

-- A key that is computed from what no row fills could only be found out by the engine, when it is too late.
CREATE PROCEDURE headgate.refuse_unfilled_key(relation oid, includes jsonb, document jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  unfilled record;
BEGIN
  SELECT a.attname AS key_column, r.attname AS read_column INTO unfilled
  FROM pg_index i
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AND a.attgenerated <> ''
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  JOIN pg_depend p ON p.refclassid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid NOT IN (0, a.attnum)
    AND (p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
      OR p.classid = 'pg_class'::regclass AND p.objid = a.attrelid AND p.objsubid = a.attnum)
  JOIN pg_attribute r ON r.attrelid = a.attrelid AND r.attnum = p.refobjsubid
  WHERE i.indrelid = refuse_unfilled_key.relation AND i.indisprimary
    AND NOT EXISTS (SELECT FROM jsonb_array_elements(includes) c WHERE c.value ->> 'column' = r.attname)
    AND CASE WHEN document IS NULL
      THEN NOT EXISTS (SELECT FROM headgate.body_columns(i.indrelid, includes) b WHERE b.attname = r.attname)
      ELSE document ->> 'column' <> r.attname END
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format(
      'the primary key''s column "%s" is computed from "%s", which no row fills', unfilled.key_column, unfilled.read_column);
  END IF;
END
$body$;

-- Each INCLUDE with the place of its column; refuses a column that can never take the value.
CREATE FUNCTION headgate.place_includes(relation oid, includes jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
DECLARE
  placed jsonb := '[]';
  include jsonb;
  a pg_attribute;
BEGIN
  FOR include IN SELECT i.value FROM jsonb_array_elements(includes) WITH ORDINALITY AS i (value, position) ORDER BY i.position LOOP
    SELECT t.* INTO a FROM pg_attribute t
    WHERE t.attrelid = relation AND t.attname = (include ->> 'column')::name AND t.attnum > 0 AND NOT t.attisdropped;
    IF a.attgenerated <> '' OR a.attidentity <> '' THEN
      RAISE EXCEPTION USING ERRCODE = '428C9', MESSAGE = format('column "%s" is generated: INCLUDE cannot fill it', a.attname);
    ELSIF include ->> 'what' = 'headers' AND NOT (headgate.takes_body(a, 'json') OR headgate.takes_body(a, 'text')) THEN
      RAISE EXCEPTION USING ERRCODE = '42804',
        MESSAGE = format('column "%s" is of type %s: INCLUDE HEADERS needs JSONB', a.attname, format_type(a.atttypid, a.atttypmod));
    END IF;
    placed := placed || (include || headgate.place(a));
  END LOOP;
  RETURN placed;
END
$body$;

-- Lets Headgate's role, the owner of schema headgate, write into a table of the caller.
CREATE PROCEDURE headgate.admit_writer(relation oid)
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  writer name;
  place record;
BEGIN
  SELECT r.rolname INTO writer FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'headgate';
  SELECT n.oid, n.nspname, n.nspowner INTO place
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = admit_writer.relation;
  IF NOT has_schema_privilege(writer, place.oid, 'USAGE') THEN
    IF pg_has_role(place.nspowner, 'USAGE') THEN
      EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place.nspname, writer);
    ELSE
      RAISE EXCEPTION USING ERRCODE = '42501',
        MESSAGE = format('role "%s", as which Headgate writes, may not use schema "%s"', writer, place.nspname),
        HINT = format('Let the owner of the schema run: GRANT USAGE ON SCHEMA %I TO %I', place.nspname, writer);
    END IF;
  END IF;
  -- UPDATE and DELETE for tables with a key, also with one that is added later.
  IF NOT (has_table_privilege(writer, admit_writer.relation, 'INSERT')
          AND has_table_privilege(writer, admit_writer.relation, 'SELECT')
          AND has_table_privilege(writer, admit_writer.relation, 'UPDATE')
          AND has_table_privilege(writer, admit_writer.relation, 'DELETE')) THEN
    EXECUTE format('GRANT INSERT, SELECT, UPDATE, DELETE ON TABLE %s TO %I', admit_writer.relation::regclass, writer);
  END IF;
  -- The sequences of SERIAL and identity columns.
  FOR place IN
    SELECT d.objid::regclass AS sequence FROM pg_depend d JOIN pg_class s ON s.oid = d.objid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = admit_writer.relation
      AND d.deptype IN ('a', 'i')
      AND CASE WHEN s.relkind = 'S' THEN NOT has_sequence_privilege(writer, d.objid, 'USAGE') END
  LOOP
    EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %I', place.sequence, writer);
  END LOOP;
END
$body$;

-- By schema where one is named, otherwise the first one on the caller's search path, which must be the caller's to use.
CREATE FUNCTION headgate.find_secret(secret_schema text, secret_name text, caller_schemas name[]) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
DECLARE
  found_secret record;
BEGIN
  SELECT s.id, s.owner INTO found_secret FROM headgate.secret s
  WHERE s.name = secret_name
    AND CASE WHEN secret_schema IS NULL THEN s.schema_name = ANY (caller_schemas::text[])
             ELSE s.schema_name = secret_schema END
  ORDER BY array_position(caller_schemas::text[], s.schema_name)
  LIMIT 1;
  IF found_secret.id IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist', concat_ws('.', secret_schema, secret_name));
  ELSIF NOT headgate.owns_secret(found_secret.owner) THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = format('permission denied for secret "%s"', concat_ws('.', secret_schema, secret_name)),
      HINT = format('It belongs to role "%s"; use it as that role or as a member of it.', found_secret.owner);
  END IF;
  RETURN found_secret.id;
END
$body$;

-- `validation`: {payload, expression, sealed, sealId, secrets: [{schema, name}], warnings: [text]}; null: no check.
CREATE PROCEDURE headgate.set_validation(relation regclass, validation jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  body_name name := 'payload';
  used_name text := validation ->> 'payload';
  warning text;
BEGIN
  DELETE FROM headgate.webhook_table_secret b WHERE b.relation = set_validation.relation;
  IF validation IS NULL THEN
    UPDATE headgate.webhook_table w SET expression = NULL, sealed_expression = NULL, seal_id = NULL
    WHERE w.relation = set_validation.relation;
    RETURN;
  END IF;
  SELECT coalesce(headgate.placed(w.relation, w.document), 'payload') INTO body_name
  FROM headgate.webhook_table w WHERE w.relation = set_validation.relation;
  IF used_name NOT IN ('payload', body_name) THEN
    RAISE EXCEPTION USING ERRCODE = '42703',
      MESSAGE = format('column "%s" does not exist', used_name),
      HINT = format('In VALIDATE the body of the request is called %s.',
        (SELECT string_agg(DISTINCT format('"%s"', n), ' or ') FROM unnest(ARRAY[body_name, 'payload']) n));
  END IF;
  IF EXISTS (SELECT FROM jsonb_array_elements(validation -> 'secrets') s WHERE s ->> 'name' = body_name) THEN
    RAISE EXCEPTION USING ERRCODE = '42702',
      MESSAGE = format('the name "%s" is ambiguous: it is a secret and the column of the table', body_name);
  END IF;
  UPDATE headgate.webhook_table w SET
    payload = coalesce(used_name, body_name),
    expression = validation ->> 'expression',
    sealed_expression = validation ->> 'sealed',
    seal_id = (validation ->> 'sealId')::uuid
  WHERE w.relation = set_validation.relation;
  INSERT INTO headgate.webhook_table_secret (relation, position, alias, secret_id)
  SELECT set_validation.relation, s.position::int, s.it ->> 'name',
    headgate.find_secret(s.it ->> 'schema', s.it ->> 'name', caller_schemas)
  FROM jsonb_array_elements(validation -> 'secrets') WITH ORDINALITY AS s (it, position);
  FOR warning IN SELECT t.text FROM jsonb_array_elements_text(validation -> 'warnings') AS t (text) LOOP
    RAISE WARNING USING MESSAGE = warning;
  END LOOP;
END
$body$;

-- `statement` is the client's CREATE TABLE without what PostgreSQL does not know; it runs under the client's own
-- search_path. It never holds IF NOT EXISTS: that is settled here, so that a table that was there before is never
-- made a webhook table.
CREATE PROCEDURE headgate.create_webhook_table(
  statement text, table_schema text, table_name text, if_not_exists boolean, options jsonb, includes jsonb,
  document text, validation jsonb, caller_path text, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  place name := coalesce(table_schema, caller_schemas[1]);
  identity text;
  made regclass;
  placed jsonb;
  chosen jsonb;
BEGIN
  IF place IS NOT NULL THEN
    identity := format('%I.%I', place, table_name::name);
  END IF;
  IF if_not_exists AND identity IS NOT NULL THEN
    -- Two clients that create the same table at the same moment: the second one waits and is told so, not refused.
    PERFORM pg_advisory_xact_lock(hashtextextended('headgate.create ' || identity, 0));
    IF to_regclass(identity) IS NOT NULL THEN
      RAISE NOTICE USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists, skipping', table_name);
      RETURN;
    END IF;
  END IF;

  PERFORM set_config('search_path', caller_path, true);
  EXECUTE statement;
  PERFORM set_config('search_path', 'pg_catalog', true);

  SELECT c.oid INTO made FROM pg_class c
  WHERE c.oid = to_regclass(identity) AND c.relkind = 'r' AND c.relpersistence <> 't';
  IF made IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a webhook table cannot be temporary',
      DETAIL = 'Headgate writes into it from sessions of its own.';
  END IF;
  IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = made AND i.indisprimary AND (NOT i.indimmediate OR i.indisexclusion)) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = 'the primary key of a webhook table cannot be DEFERRABLE or WITHOUT OVERLAPS',
      DETAIL = 'Rows replace those of the same key by INSERT ... ON CONFLICT, which needs a plain one.';
  END IF;
  CALL headgate.admit_writer(made);
  -- A row of an older table that had the same oid.
  DELETE FROM headgate.webhook_table w WHERE w.relation = made;
  placed := headgate.place_includes(made, includes);
  chosen := headgate.choose_document(made, placed, coalesce(options ->> 'format', 'json'), document);
  CALL headgate.refuse_unfilled_key(made, placed, chosen);
  INSERT INTO headgate.webhook_table (relation, payload, options, document, includes)
  VALUES (made, coalesce(chosen ->> 'column', 'payload'), options, chosen, placed);
  CALL headgate.set_validation(made, validation, caller_schemas);
  IF validation IS NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" has no VALIDATE clause: whoever reaches the listener can write into it', table_name),
      HINT = format('Add one with ALTER TABLE %s VALIDATE AS ...', identity);
  END IF;
END
$body$;

-- Refuses unless `relation` is there and the caller's; locks it against a concurrent DROP or ALTER.
-- False: it is missing and IF EXISTS was said.
CREATE FUNCTION headgate.open_table(relation regclass, table_name text, if_exists boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
  IF relation IS NULL THEN
    IF if_exists THEN
      RAISE NOTICE USING ERRCODE = '42P01', MESSAGE = format('relation "%s" does not exist, skipping', table_name);
      RETURN false;
    END IF;
    RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('relation "%s" does not exist', table_name);
  END IF;
  IF headgate.owns_table(relation) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', table_name);
  END IF;
  RETURN true;
END
$body$;

CREATE PROCEDURE headgate.alter_webhook_table(
  relation regclass, table_name text, if_exists boolean, validation jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = alter_webhook_table.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  END IF;
  -- Not against writers: their requests were checked by the expression of the moment they arrived.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  CALL headgate.set_validation(relation, validation, caller_schemas);
END
$body$;

-- ALTER TABLE t DROP validate is also PostgreSQL's way to drop a column of that name: so it stays for any other table.
CREATE PROCEDURE headgate.drop_validate(
  relation regclass, table_name text, if_exists boolean, statement text, caller_path text)
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
  IF relation IS NULL
     OR NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = drop_validate.relation) THEN
    PERFORM set_config('search_path', caller_path, true);
    EXECUTE statement;
    RETURN;
  END IF;
  CALL headgate.alter_webhook_table(relation, table_name, if_exists, NULL, NULL);
END
$body$;

---------------------------------------------------------------- secrets

CREATE PROCEDURE headgate.create_secret(
  secret_schema text, secret_name text, if_not_exists boolean, backend text, seal_id uuid, sealed text,
  caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  place text := coalesce(secret_schema, caller_schemas[1]);
BEGIN
  IF place IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = 'no schema has been selected to create in';
  ELSIF to_regnamespace(quote_ident(place)) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = format('schema "%s" does not exist', place);
  ELSIF NOT has_schema_privilege(place, 'CREATE') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for schema %s', place);
  END IF;
  INSERT INTO headgate.secret (schema_name, name, backend, seal_id, sealed)
  VALUES (place, secret_name, create_secret.backend, create_secret.seal_id, create_secret.sealed)
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    IF if_not_exists THEN
      RAISE NOTICE USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists, skipping', secret_name);
    ELSE
      RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists', secret_name);
    END IF;
  END IF;
END
$body$;

CREATE PROCEDURE headgate.alter_secret(
  secret_schema text, secret_name text, backend text, seal_id uuid, sealed text, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  found_id uuid := headgate.find_secret(secret_schema, secret_name, caller_schemas);
BEGIN
  UPDATE headgate.secret s SET
    backend = coalesce(alter_secret.backend, s.backend),
    seal_id = alter_secret.seal_id,
    sealed = alter_secret.sealed,
    altered_at = now()
  WHERE s.id = found_id;
END
$body$;

CREATE PROCEDURE headgate.drop_secret(
  secret_schema text, secret_name text, if_exists boolean, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
  found_id uuid;
  users text;
BEGIN
  BEGIN
    found_id := headgate.find_secret(secret_schema, secret_name, caller_schemas);
  EXCEPTION WHEN undefined_object THEN
    IF NOT if_exists THEN
      RAISE;
    END IF;
    RAISE NOTICE USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist, skipping', concat_ws('.', secret_schema, secret_name));
    RETURN;
  END;
  CALL headgate.forget_dropped();
  -- A table that is being made with this secret holds a lock on its row; the DELETE waits for it and then fails.
  DELETE FROM headgate.secret s WHERE s.id = found_id;
EXCEPTION WHEN foreign_key_violation THEN
  SELECT string_agg(format('table %s depends on secret %s', b.relation, secret_name), E'\n' ORDER BY b.relation::text)
  INTO users FROM headgate.webhook_table_secret b WHERE b.secret_id = found_id;
  RAISE EXCEPTION USING ERRCODE = '2BP01',
    MESSAGE = format('cannot drop secret %s because other objects depend on it', secret_name),
    DETAIL = users,
    HINT = 'Drop the tables, or give them another VALIDATE with ALTER TABLE ... VALIDATE, first.';
END
$body$;

-- Rows of tables that are gone, where no event trigger has seen them go.
CREATE PROCEDURE headgate.forget_dropped()
LANGUAGE sql SET search_path = pg_catalog AS $body$
  DELETE FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)
$body$;

---------------------------------------------------------------- SHOW, DESCRIBE, FLUSH

CREATE FUNCTION headgate.show_tables(caller_schemas name[]) RETURNS TABLE ("Name" text, "Schema" text)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT c.relname::text, n.nspname::text
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND n.nspname = ANY (caller_schemas)
  ORDER BY 1, array_position(caller_schemas, n.nspname)
$body$;

CREATE FUNCTION headgate.show_secrets() RETURNS TABLE ("Name" text, "Schema" text, "Backend" text)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT s.name, s.schema_name, s.backend FROM headgate.secret s ORDER BY s.name, s.schema_name
$body$;

CREATE FUNCTION headgate.describe(relation regclass)
RETURNS TABLE ("Name" text, "Type" text, "Is Nullable" text, "Default" text)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END, pg_get_expr(d.adbin, d.adrelid)
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = describe.relation AND a.attnum > 0 AND NOT a.attisdropped
  ORDER BY a.attnum
$body$;

-- The sequence behind a SERIAL (deptype a) or identity (deptype i) column.
CREATE FUNCTION headgate.own_sequence(a pg_attribute, kind "char") RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT d.objid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = kind
$body$;

-- As SERIAL where it is one: its sequence goes with the table. NULL: it is none.
CREATE FUNCTION headgate.serial_name(a pg_attribute) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT CASE a.atttypid WHEN 'int2'::regtype THEN 'smallserial' WHEN 'int4'::regtype THEN 'serial'
    WHEN 'int8'::regtype THEN 'bigserial' END
  FROM pg_attrdef d
  WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attnotnull AND a.attgenerated = '' AND pg_get_expr(d.adbin, d.adrelid)
    = format('nextval(%L::regclass)', headgate.own_sequence(a, 'a')::regclass)
$body$;

-- What makes an identity column count otherwise than by default; '' where it does not.
CREATE FUNCTION headgate.identity_options(a pg_attribute) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT coalesce(' (' || string_agg(o.text, ' ' ORDER BY o.text) || ')', '')
  FROM pg_sequence s JOIN pg_type t ON t.oid = s.seqtypid
  CROSS JOIN LATERAL (VALUES
    (CASE WHEN s.seqincrement <> 1 THEN format('INCREMENT BY %s', s.seqincrement) END),
    (CASE WHEN s.seqmin <> 1 THEN format('MINVALUE %s', s.seqmin) END),
    (CASE WHEN s.seqmax <> (2 ^ (8 * t.typlen::numeric - 1) - 1)::numeric THEN format('MAXVALUE %s', s.seqmax) END),
    (CASE WHEN s.seqstart <> 1 THEN format('START WITH %s', s.seqstart) END),
    (CASE WHEN s.seqcache <> 1 THEN format('CACHE %s', s.seqcache) END),
    (CASE WHEN s.seqcycle THEN 'CYCLE' END)) AS o (text)
  WHERE s.seqrelid = headgate.own_sequence(a, 'i') AND o.text IS NOT NULL
$body$;

CREATE FUNCTION headgate.column_definition(a pg_attribute) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT format('%I %s', a.attname, coalesce(headgate.serial_name(a), format_type(a.atttypid, a.atttypmod)))
    || coalesce((
      SELECT format(' COLLATE %I.%I', n.nspname, l.collname)
      FROM pg_type t, pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
      WHERE t.oid = a.atttypid AND l.oid = a.attcollation AND a.attcollation <> t.typcollation), '')
    || coalesce((
      SELECT CASE a.attgenerated
        WHEN 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
        WHEN 'v' THEN format(' GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid))
        ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END
      FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND headgate.serial_name(a) IS NULL), '')
    || CASE a.attidentity
      WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' || headgate.identity_options(a)
      WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' || headgate.identity_options(a) ELSE '' END
    || CASE WHEN a.attnotnull AND a.attidentity = '' AND headgate.serial_name(a) IS NULL THEN ' NOT NULL' ELSE '' END
$body$;

-- The option that says again what was decided when the table was made, where its columns alone would say something else.
CREATE FUNCTION headgate.document_option(relation oid, options jsonb, document jsonb, includes jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT CASE
    WHEN document IS NULL AND body.count = 1 AND body.fits THEN '{"document": ""}'
    WHEN headgate.placed(relation, document) IS NOT NULL AND body.count > 1
      THEN jsonb_build_object('document', headgate.placed(relation, document))
    ELSE '{}' END
  FROM (
    SELECT count(*) AS count, bool_and(headgate.takes_body(b, coalesce(options ->> 'format', 'json'))) AS fits
    FROM headgate.body_columns(relation, includes) b
  ) AS body
$body$;

-- The part of a webhook table's statement that PostgreSQL does not know. The literals of a sealed expression stay masked.
CREATE FUNCTION headgate.webhook_clauses(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT coalesce((
      SELECT string_agg(format(E'\nINCLUDE %s AS %I', CASE i.value ->> 'what'
          WHEN 'header' THEN format('HEADER %L', i.value ->> 'header') ELSE upper(i.value ->> 'what') END, p.name),
        '' ORDER BY i.position) || E'\n'
      FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position)
      CROSS JOIN LATERAL headgate.placed(w.relation, i.value) AS p (name) WHERE p.name IS NOT NULL), ' ')
    || E'WITH (\n  ' || (
      SELECT string_agg(format('%s = %L', o.key, o.value), E',\n  ' ORDER BY o.key <> 'connector', o.key)
      FROM jsonb_each_text(w.options || headgate.document_option(w.relation, w.options, w.document, w.includes)) o)
    || E'\n)' || coalesce(E'\nVALIDATE ' || (
      SELECT 'SECRET ' || string_agg(format('%I.%I', s.schema_name, s.name), ', ' ORDER BY b.position) || ' '
      FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
      WHERE b.relation = w.relation) || 'AS ' || w.expression, E'\nVALIDATE AS ' || w.expression, '')
  FROM headgate.webhook_table w WHERE w.relation = webhook_clauses.relation
$body$;

CREATE FUNCTION headgate.show_create_table(relation regclass) RETURNS TABLE ("Name" text, "Create Sql" text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
DECLARE
  t record;
  parts text;
BEGIN
  SELECT c.oid, c.relname, n.nspname, c.relkind, c.relpersistence INTO t
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = show_create_table.relation;
  IF t.relkind IS NULL OR t.relkind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a table', t.relname);
  END IF;
  SELECT string_agg('  ' || d.text, E',\n' ORDER BY d.kind, d.place, d.text) INTO parts FROM (
    SELECT 1 AS kind, a.attnum::int AS place, headgate.column_definition(a) AS text
    FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 2, position(k.contype::text IN 'pucxf'), format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint k WHERE k.conrelid = t.oid AND k.contype IN ('p', 'u', 'c', 'x', 'f')
  ) AS d;
  RETURN QUERY SELECT format('%s.%s', t.nspname, t.relname),
    CASE t.relpersistence WHEN 'u' THEN 'CREATE UNLOGGED TABLE ' WHEN 't' THEN 'CREATE TEMPORARY TABLE '
      ELSE 'CREATE TABLE ' END
    || CASE t.relpersistence WHEN 't' THEN quote_ident(t.relname) ELSE format('%I.%I', t.nspname, t.relname) END
    || coalesce(E' (\n' || parts || E'\n)', ' ()')
    || CASE t.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(t.oid) ELSE '' END
    || coalesce(headgate.webhook_clauses(t.oid), '');
END
$body$;

-- A row is committed before its sender reads 200: there is never anything to wait for.
CREATE PROCEDURE headgate.flush() LANGUAGE sql SET search_path = pg_catalog AS $body$
  SELECT NULL::void
$body$;

---------------------------------------------------------------- EXPLAIN VALIDATE

-- What Headgate has found out about the tables of one name, shown to their owner alone.
--
-- Headgate evaluates, the client's own session decides which table is meant and whether the client may ask: `explained`
-- holds, by oid, the lines of every table that this client might mean.

CREATE FUNCTION headgate.explain_validate(relation regclass, table_name text, explained jsonb)
RETURNS TABLE (step int, expression text, value text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $body$
#variable_conflict use_column
DECLARE
  lines jsonb := explained -> (relation::oid::text);
BEGIN
  PERFORM headgate.open_table(relation, table_name, false);
  IF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = explain_validate.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  ELSIF lines IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '55000',
      MESSAGE = format('table "%s" cannot be explained before the transaction that made or renamed it is committed', table_name),
      HINT = 'COMMIT first: until then no request finds the table either.';
  END IF;
  RETURN QUERY SELECT (line.place - 1)::int, line.item ->> 0, line.item ->> 1
  FROM jsonb_array_elements(lines) WITH ORDINALITY AS line (item, place) ORDER BY line.place;
END
$body$;

---------------------------------------------------------------- what Headgate itself reads

-- The last statement of every transaction that stores requests: were they checked and written for what stands there
-- now? The COPY before it holds a lock on the table, so that the answer stays true until COMMIT. No SET clause: every
-- name is qualified instead, because this runs once a group.
CREATE FUNCTION headgate.confirm(relation_name text, relation oid, mark text) RETURNS void
LANGUAGE plpgsql STABLE AS $body$
BEGIN
  IF pg_catalog.to_regclass(relation_name) OPERATOR(pg_catalog.=) relation
    AND EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation OPERATOR(pg_catalog.=) confirm.relation)
    AND (
      SELECT pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
      WHERE a.attrelid OPERATOR(pg_catalog.=) confirm.relation AND a.attnum OPERATOR(pg_catalog.>) 0
    ) OPERATOR(pg_catalog.=) mark
  THEN
    RETURN;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'the table has changed since the request was checked';
END
$body$;

-- What Headgate knows of a table beside its shape, which is read from PostgreSQL's own catalog (catalog/shape.ts).
CREATE VIEW headgate.catalog_rows AS
SELECT
  c.oid AS relation,
  n.nspname::text AS schema_name,
  c.relname::text AS table_name,
  w.payload,
  w.options,
  w.document IS NOT NULL AS takes_document,
  -- NULL where it is gone.
  headgate.placed(c.oid, w.document)::text AS document,
  included.columns AS includes,
  w.expression,
  w.sealed_expression,
  w.seal_id,
  coalesce(bound.secrets, '[]') AS secrets
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation AND c.relkind = 'r' AND c.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT coalesce(jsonb_agg(
    jsonb_build_object('what', i.value -> 'what', 'header', i.value -> 'header', 'column', p.name) ORDER BY i.position
  ) FILTER (WHERE p.name IS NOT NULL), '[]') AS columns
  FROM jsonb_array_elements(w.includes) WITH ORDINALITY AS i (value, position)
  CROSS JOIN LATERAL headgate.placed(c.oid, i.value) AS p (name)
) AS included
CROSS JOIN LATERAL (
  SELECT jsonb_agg(
    jsonb_build_object('alias', b.alias, 'name', s.name, 'seal_id', s.seal_id, 'sealed', s.sealed) ORDER BY b.position
  ) AS secrets
  FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id WHERE b.relation = w.relation
) AS bound;

-- Changes whenever what is read of a webhook table does, at a fraction of the cost: xmin is the transaction that wrote a
-- row's present version. Only what a default calls by name may be renamed unseen; the next row that needs it tells.
CREATE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $body$
  SELECT md5(concat_ws(';', tables.versions, columns.versions, keys.versions, secrets.versions))
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
  ) AS secrets
$body$;

REVOKE EXECUTE ON FUNCTION headgate.on_ddl(), headgate.on_drop() FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE headgate.place_restored() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION headgate.catalog_fingerprint(), headgate.confirm(text, oid, text) FROM PUBLIC;
