-- Webhook tables, as Headgate's statements make and change them, and as Headgate reads them.

---------------------------------------------------------------- what is asked for

CREATE OR REPLACE FUNCTION headgate.refuse_strangers(me oid, relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF (SELECT pg_has_role(me, c.relowner, 'USAGE') FROM pg_class c
      WHERE c.oid = refuse_strangers.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', relation::regclass);
  END IF;
END
$body$;

-- `given`: {relation, options, includes, document, collect, validation, schemas}
CREATE OR REPLACE FUNCTION headgate.do_register(me oid, relation oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  chosen jsonb := nullif(given -> 'document', 'null');
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  -- A row of an older table that had the same oid.
  DELETE FROM headgate.webhook_table w WHERE w.relation = do_register.relation;
  INSERT INTO headgate.webhook_table (relation, payload, options, document, includes, collect, seal_form)
  VALUES (relation, coalesce(chosen ->> 'column', 'payload'), given -> 'options', chosen, given -> 'includes',
    nullif(given -> 'collect', 'null'), 2);
  IF jsonb_typeof(given -> 'validation') = 'object' THEN
    PERFORM headgate.do_validate(me, relation, given -> 'validation', caller_schemas);
    PERFORM headgate.warn(relation, given -> 'validation');
  END IF;
END
$body$;

CREATE FUNCTION headgate.do_options(me oid, relation oid, given jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  UPDATE headgate.webhook_table w SET options = given -> 'options', collect = nullif(given -> 'collect', 'null')
  WHERE w.relation = do_options.relation;
END
$body$;

CREATE FUNCTION headgate.do_forget_ignored(me oid, relation oid) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  DELETE FROM headgate.ignored_keys k WHERE k.relation = do_forget_ignored.relation;
  RETURN FOUND::text;
END
$body$;

-- Begins anew for a table. True: something was there.
CREATE FUNCTION headgate.forget_ignored_keys(relation regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  INSERT INTO headgate.request (action, given)
  VALUES ('forget ignored keys', jsonb_build_object('relation', relation::oid::bigint));
  RETURN current_setting('headgate.answer')::boolean;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.act() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  me oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.caller);
  given jsonb := NEW.given;
  schemas text[] := ARRAY(SELECT jsonb_array_elements_text(nullif(NEW.given -> 'schemas', 'null')));
  relation oid := (NEW.given ->> 'relation')::oid;
  answer text;
BEGIN
  -- On a table of somebody else's making the caller would be whoever its maker says.
  IF TG_RELID <> 'headgate.request'::regclass OR me IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied for function headgate.act';
  ELSIF pg_column_size(given) > 4194304 THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'the statement is too large for the catalog of Headgate';
  END IF;
  PERFORM headgate.keep_owners();
  CASE NEW.action
    WHEN 'register' THEN PERFORM headgate.do_register(me, relation, given, schemas);
    WHEN 'options' THEN PERFORM headgate.do_options(me, relation, given);
    WHEN 'validate' THEN
      PERFORM headgate.do_validate(me, relation, nullif(given -> 'validation', 'null'), schemas);
      PERFORM headgate.warn(relation, nullif(given -> 'validation', 'null'));
    WHEN 'create secret' THEN PERFORM headgate.do_create_secret(me, given, schemas);
    WHEN 'alter secret' THEN PERFORM headgate.do_alter_secret(me, given, schemas);
    WHEN 'create formed secret' THEN PERFORM headgate.do_create_formed_secret(me, given, schemas);
    WHEN 'alter formed secret' THEN PERFORM headgate.do_alter_formed_secret(me, given, schemas);
    WHEN 'drop secret' THEN PERFORM headgate.do_drop_secret(me, given, schemas);
    WHEN 'retry' THEN answer := headgate.do_retry(me, (given ->> 'id')::bigint, (given ->> 'force')::boolean);
    WHEN 'forget' THEN answer := headgate.do_forget(me, (given ->> 'id')::bigint);
    WHEN 'forget ignored keys' THEN answer := headgate.do_forget_ignored(me, relation);
    ELSE RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'headgate.request knows no such action';
  END CASE;
  PERFORM set_config('headgate.answer', coalesce(answer, ''), true);
  RETURN NULL;
END
$body$;

REVOKE ALL ON FUNCTION headgate.do_create_formed_secret(oid, jsonb, text[]), headgate.do_alter_formed_secret(oid, jsonb, text[]),
  headgate.do_options(oid, oid, jsonb), headgate.do_forget_ignored(oid, oid), headgate.warn(oid, jsonb) FROM PUBLIC;

---------------------------------------------------------------- refused requests

-- By lower-case name, of headers that are not kept: how long they were and how they began, where that tells nothing.
ALTER TABLE headgate.rejected_requests ADD COLUMN headers_masked jsonb NOT NULL DEFAULT '{}';
GRANT SELECT (headers_masked) ON headgate.rejected_requests TO PUBLIC;

---------------------------------------------------------------- webhook tables

-- `statement` is the client's CREATE TABLE without what PostgreSQL does not know; it runs under the client's own
-- search_path. It never holds IF NOT EXISTS: that is settled here, so that a table that was there before is never
-- made a webhook table.
CREATE OR REPLACE PROCEDURE headgate.create_webhook_table(
  statement text, table_schema text, table_name text, if_not_exists boolean, options jsonb, includes jsonb,
  document text, validation jsonb, caller_path text, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
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
  BEGIN
    IF if_not_exists AND to_regclass(identity) IS NOT NULL THEN
      RAISE duplicate_table;
    END IF;
    PERFORM set_config('search_path', caller_path, true);
    EXECUTE statement;
    PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
  EXCEPTION WHEN duplicate_table OR unique_violation THEN
    -- Two clients that create the same table at the same moment: PostgreSQL has let the second one wait for the first.
    IF NOT if_not_exists OR to_regclass(identity) IS NULL THEN
      RAISE;
    END IF;
    RAISE NOTICE USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists, skipping', table_name);
    RETURN;
  END;

  SELECT c.oid INTO made FROM pg_class c
  WHERE c.oid = to_regclass(identity) AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't';
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
  placed := headgate.place_includes(made, includes);
  chosen := headgate.choose_document(made, placed, coalesce(options ->> 'format', 'json'), document);
  CALL headgate.refuse_unfilled_key(made, placed, chosen);
  INSERT INTO headgate.request (action, given) VALUES ('register', jsonb_build_object(
    'relation', made::oid::bigint, 'options', options - 'collect_into', 'includes', placed, 'document', chosen,
    'collect', headgate.choose_collect(made, placed, chosen, options), 'validation', validation,
    'schemas', caller_schemas));
  IF validation IS NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" has no VALIDATE clause: whoever reaches the listener can write into it', table_name),
      HINT = format('Add one with ALTER TABLE %s VALIDATE AS ...', identity);
  END IF;
END
$body$;
