-- Who may change the catalog: Headgate's functions, for whoever asks for it as himself.
--
-- A SECURITY DEFINER function cannot know who called it: current_user is its owner, session_user is not who SET ROLE has
-- made the caller, and an argument can be a lie. The DEFAULT of a column is evaluated for the statement's own user, though,
-- and a column that nobody may fill cannot hold anything else. So whoever wants something of the catalog inserts a row
-- into headgate.request; a trigger with Headgate's rights reads from it who asks, does it or refuses, and stores nothing.
-- A privilege on columns, unlike one on the whole table, does not allow LOCK TABLE.

DROP POLICY made ON headgate.secret;
DROP POLICY changed ON headgate.secret;
DROP POLICY dropped ON headgate.secret;
DROP POLICY made ON headgate.webhook_table;
DROP POLICY changed ON headgate.webhook_table;
DROP POLICY dropped ON headgate.webhook_table;
DROP POLICY made ON headgate.webhook_table_secret;
DROP POLICY dropped ON headgate.webhook_table_secret;
DROP POLICY changed ON headgate.rejected_requests;
DROP POLICY dropped ON headgate.rejected_requests;
DROP FUNCTION headgate.owns_secret(name);
DROP FUNCTION headgate.find_secret(text, text, name[]);

REVOKE ALL ON ALL TABLES IN SCHEMA headgate FROM PUBLIC;
DO $body$
DECLARE
  granted record;
BEGIN
  FOR granted IN
    SELECT c.oid::regclass AS relation, string_agg(quote_ident(a.attname), ', ') AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'headgate'::regnamespace
      AND c.relname IN ('secret', 'webhook_table', 'webhook_table_secret', 'rejected_requests', 'rejected_summary')
    GROUP BY c.oid
  LOOP
    EXECUTE format('REVOKE ALL (%s) ON %s FROM PUBLIC', granted.columns, granted.relation);
    IF granted.relation IN ('headgate.rejected_requests'::regclass, 'headgate.rejected_summary'::regclass) THEN
      EXECUTE format('GRANT SELECT (%s) ON %s TO PUBLIC', granted.columns, granted.relation);
    END IF;
  END LOOP;
END
$body$;
GRANT SELECT (id, schema_name, name, owner, backend, created_at, altered_at) ON headgate.secret TO PUBLIC;
GRANT SELECT (relation, payload, options, document, includes, expression, created_at) ON headgate.webhook_table TO PUBLIC;
GRANT SELECT (relation, position, alias, secret_id) ON headgate.webhook_table_secret TO PUBLIC;

CREATE TABLE headgate.request (
  caller name NOT NULL DEFAULT current_user,
  action text NOT NULL,
  given jsonb NOT NULL
);
GRANT INSERT (action, given) ON headgate.request TO PUBLIC;

---------------------------------------------------------------- what is asked for

-- The functions below are called by headgate.act() alone. `me` is who asks.

CREATE FUNCTION headgate.may_use(me oid, owner oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(
    (SELECT pg_has_role(me, r.oid, 'USAGE') FROM pg_roles r WHERE r.oid = owner),
    (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = me), false)
$body$;

-- By schema where one is named, otherwise the first one on the caller's search path, which must be the caller's to use.
CREATE FUNCTION headgate.find_secret(me oid, secret_schema text, secret_name text, caller_schemas text[]) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  found_secret record;
BEGIN
  SELECT s.id, s.owner, s.owner_oid INTO found_secret FROM headgate.secret s
  WHERE s.name = secret_name
    AND CASE WHEN secret_schema IS NULL THEN s.schema_name = ANY (caller_schemas) ELSE s.schema_name = secret_schema END
  ORDER BY array_position(caller_schemas, s.schema_name)
  LIMIT 1;
  IF found_secret.id IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist', concat_ws('.', secret_schema, secret_name));
  ELSIF NOT headgate.may_use(me, found_secret.owner_oid) THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = format('permission denied for secret "%s"', concat_ws('.', secret_schema, secret_name)),
      HINT = coalesce(format('It belongs to role "%s"; use it as that role or as a member of it.', found_secret.owner),
        'The role that it belonged to is gone: a superuser may drop it.');
  END IF;
  RETURN found_secret.id;
END
$body$;

CREATE FUNCTION headgate.refuse_strangers(me oid, relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF (SELECT pg_has_role(me, c.relowner, 'USAGE') FROM pg_class c
      WHERE c.oid = refuse_strangers.relation AND c.relkind = 'r' AND c.relpersistence <> 't') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', relation::regclass);
  END IF;
END
$body$;

-- `validation`: {payload, expression, sealed, sealId, secrets: [{schema, name}], warnings: [text]}; null: no check. Every
-- secret must be the caller's to use, whoever made the table and bound what stands there now.
CREATE FUNCTION headgate.do_validate(me oid, relation oid, validation jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  body_name name;
  used_name text := validation ->> 'payload';
  warning text;
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  SELECT coalesce(headgate.placed(w.relation, w.document), 'payload') INTO body_name
  FROM headgate.webhook_table w WHERE w.relation = do_validate.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', relation::regclass);
  END IF;
  DELETE FROM headgate.webhook_table_secret b WHERE b.relation = do_validate.relation;
  IF validation IS NULL THEN
    UPDATE headgate.webhook_table w SET expression = NULL, sealed_expression = NULL, seal_id = NULL, seal_form = 2
    WHERE w.relation = do_validate.relation;
    RETURN;
  ELSIF validation ->> 'expression' IS NULL OR validation ->> 'sealed' IS NULL OR validation ->> 'sealId' IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a VALIDATE clause comes with the seal of Headgate',
      HINT = 'Send the statement to the SQL port of a Headgate of this version.';
  ELSIF used_name NOT IN ('payload', body_name) THEN
    RAISE EXCEPTION USING ERRCODE = '42703',
      MESSAGE = format('column "%s" does not exist', used_name),
      HINT = format('In VALIDATE the body of the request is called %s.',
        (SELECT string_agg(DISTINCT format('"%s"', n), ' or ') FROM unnest(ARRAY[body_name, 'payload']) n));
  ELSIF jsonb_array_length(validation -> 'secrets') > 64 THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a VALIDATE clause names at most 64 secrets';
  ELSIF EXISTS (SELECT FROM jsonb_array_elements(validation -> 'secrets') s WHERE s ->> 'name' = body_name) THEN
    RAISE EXCEPTION USING ERRCODE = '42702',
      MESSAGE = format('the name "%s" is ambiguous: it is a secret and the column of the table', body_name);
  END IF;
  UPDATE headgate.webhook_table w SET
    payload = coalesce(used_name, body_name),
    expression = validation ->> 'expression',
    sealed_expression = validation ->> 'sealed',
    seal_id = (validation ->> 'sealId')::uuid,
    seal_form = 2
  WHERE w.relation = do_validate.relation;
  INSERT INTO headgate.webhook_table_secret (relation, position, alias, secret_id)
  SELECT do_validate.relation, s.position::int, s.it ->> 'name',
    headgate.find_secret(me, s.it ->> 'schema', s.it ->> 'name', caller_schemas)
  FROM jsonb_array_elements(validation -> 'secrets') WITH ORDINALITY AS s (it, position);
  FOR warning IN SELECT t.text FROM jsonb_array_elements_text(validation -> 'warnings') AS t (text) LOOP
    RAISE WARNING USING MESSAGE = warning;
  END LOOP;
END
$body$;

-- `given`: {relation, options, includes, document, validation, schemas}
CREATE FUNCTION headgate.do_register(me oid, relation oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  chosen jsonb := nullif(given -> 'document', 'null');
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  -- A row of an older table that had the same oid.
  DELETE FROM headgate.webhook_table w WHERE w.relation = do_register.relation;
  INSERT INTO headgate.webhook_table (relation, payload, options, document, includes, seal_form)
  VALUES (relation, coalesce(chosen ->> 'column', 'payload'), given -> 'options', chosen, given -> 'includes', 2);
  IF jsonb_typeof(given -> 'validation') = 'object' THEN
    PERFORM headgate.do_validate(me, relation, given -> 'validation', caller_schemas);
  END IF;
END
$body$;

-- `given`: {schema, name, backend, sealId, sealed, schemas, ifNotExists}
CREATE FUNCTION headgate.do_create_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place text := coalesce(given ->> 'schema', caller_schemas[1]);
  secret_name text := given ->> 'name';
BEGIN
  IF place IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = 'no schema has been selected to create in';
  ELSIF to_regnamespace(quote_ident(place)) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = format('schema "%s" does not exist', place);
  ELSIF NOT has_schema_privilege(me, place, 'CREATE') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for schema %s', place);
  ELSIF (SELECT count(*) >= 1000 FROM headgate.secret s WHERE s.owner_oid = me)
    AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = me) THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a role that is no superuser has at most 1000 secrets';
  END IF;
  INSERT INTO headgate.secret (schema_name, name, owner, owner_oid, backend, seal_id, sealed)
  VALUES (place, secret_name, (SELECT r.rolname FROM pg_roles r WHERE r.oid = me), me, given ->> 'backend',
    (given ->> 'sealId')::uuid, given ->> 'sealed')
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    IF (given ->> 'ifNotExists')::boolean THEN
      RAISE NOTICE USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists, skipping', secret_name);
    ELSE
      RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('secret "%s" already exists', secret_name);
    END IF;
  END IF;
END
$body$;

CREATE FUNCTION headgate.do_alter_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.secret s SET
    backend = coalesce(given ->> 'backend', s.backend),
    seal_id = (given ->> 'sealId')::uuid,
    sealed = given ->> 'sealed',
    altered_at = now()
  WHERE s.id = (SELECT headgate.find_secret(me, given ->> 'schema', given ->> 'name', caller_schemas))
$body$;

CREATE FUNCTION headgate.do_drop_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  secret_name text := given ->> 'name';
  found_id uuid;
  users text;
BEGIN
  BEGIN
    found_id := headgate.find_secret(me, given ->> 'schema', secret_name, caller_schemas);
  EXCEPTION WHEN undefined_object THEN
    IF NOT (given ->> 'ifExists')::boolean THEN
      RAISE;
    END IF;
    RAISE NOTICE USING ERRCODE = '42704',
      MESSAGE = format('secret "%s" does not exist, skipping', concat_ws('.', given ->> 'schema', secret_name));
    RETURN;
  END;
  -- Rows of tables that are gone, where no event trigger has seen them go.
  DELETE FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation);
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
