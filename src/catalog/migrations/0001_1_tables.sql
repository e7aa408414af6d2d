-- The catalog of one database: which tables are webhook tables, how their requests are checked, and the sealed secrets.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog. Works on PostgreSQL 14 to 18.
--
-- Headgate's statements arrive here as CALLs from the SQL door and run as the client's own role: what a role may do to
-- a table or a secret is decided by row-level security on the tables below, not by code that borrows other rights.
-- Every procedure pins its search_path; what depends on the client's (current_schemas, to_regclass) is computed in the
-- CALL's arguments, and put back only around the one statement that is the client's own.

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

