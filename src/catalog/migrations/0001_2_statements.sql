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

