-- Headgate's statements, as the SQL port calls them: they run as the client's own role, and what they want of the catalog
-- they ask for in headgate.request.

-- Asks Headgate to run a refused request through its stages again, once the caller's transaction has committed. What
-- becomes of it stands in the row then: a function cannot wait for what begins after it has ended.
CREATE FUNCTION headgate.do_retry(me oid, id bigint, force boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  request record;
BEGIN
  SELECT r.door, r.authenticated, r.retry_outcome, r.body_bytes, octet_length(r.body) AS kept_bytes INTO request
  FROM headgate.rejected_requests r JOIN pg_class c ON c.oid = r.relation
  WHERE r.id = do_retry.id AND pg_has_role(me, c.relowner, 'USAGE') FOR UPDATE OF r;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('there is no rejected request %s', do_retry.id),
      HINT = 'Only the owner of its table sees it, and old ones are forgotten.';
  ELSIF request.door <> 'http' THEN
    RETURN 'not retried: the batches of a WebSocket come in an order that only its client can repeat';
  ELSIF request.kept_bytes IS NULL THEN
    RETURN 'not retried: its body was not read';
  ELSIF request.kept_bytes < request.body_bytes THEN
    RETURN format('not retried: only %s of %s bytes of its body were kept', request.kept_bytes, request.body_bytes);
  ELSIF request.retry_outcome = 'waiting' THEN
    RETURN 'waiting already';
  ELSIF NOT force AND NOT request.authenticated THEN
    RETURN 'not retried: VALIDATE did not accept it, and its signature was not kept; force => true stores it unchecked';
  ELSIF NOT force AND request.retry_outcome = 'committed' THEN
    RETURN 'not retried: it was retried before and is stored; force => true stores it once more';
  ELSIF NOT force AND request.retry_outcome IN ('running', 'unknown') THEN
    RETURN 'not retried: it was retried before and may be stored; force => true tries once more';
  END IF;
  UPDATE headgate.rejected_requests r SET
    retry_asked_at = now(), retry_forced = force, retried_at = NULL, retry_outcome = 'waiting', retry_reason = NULL
  WHERE r.id = do_retry.id;
  PERFORM pg_notify(c.name, '') FROM headgate.channel c WHERE c.purpose = 'rejected';
  RETURN 'waiting: retry_outcome will tell';
END
$body$;

CREATE FUNCTION headgate.do_forget(me oid, id bigint) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  DELETE FROM headgate.rejected_requests r USING pg_class c
  WHERE r.id = do_forget.id AND c.oid = r.relation AND pg_has_role(me, c.relowner, 'USAGE');
  RETURN FOUND::text;
END
$body$;

CREATE FUNCTION headgate.act() RETURNS trigger
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
    WHEN 'validate' THEN PERFORM headgate.do_validate(me, relation, nullif(given -> 'validation', 'null'), schemas);
    WHEN 'create secret' THEN PERFORM headgate.do_create_secret(me, given, schemas);
    WHEN 'alter secret' THEN PERFORM headgate.do_alter_secret(me, given, schemas);
    WHEN 'drop secret' THEN PERFORM headgate.do_drop_secret(me, given, schemas);
    WHEN 'retry' THEN answer := headgate.do_retry(me, (given ->> 'id')::bigint, (given ->> 'force')::boolean);
    WHEN 'forget' THEN answer := headgate.do_forget(me, (given ->> 'id')::bigint);
    ELSE RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'headgate.request knows no such action';
  END CASE;
  PERFORM set_config('headgate.answer', coalesce(answer, ''), true);
  RETURN NULL;
END
$body$;
CREATE TRIGGER act BEFORE INSERT ON headgate.request FOR EACH ROW EXECUTE FUNCTION headgate.act();
-- Also where session_replication_role is replica: nothing may ever be stored there.
ALTER TABLE headgate.request ENABLE ALWAYS TRIGGER act;

---------------------------------------------------------------- what the SQL port calls

CREATE OR REPLACE FUNCTION headgate.retry_rejected(id bigint, force boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  INSERT INTO headgate.request (action, given) VALUES ('retry', jsonb_build_object('id', id, 'force', coalesce(force, false)));
  RETURN current_setting('headgate.answer');
END
$body$;

-- True: it was there, and is deleted.
CREATE FUNCTION headgate.forget_rejected(id bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  INSERT INTO headgate.request (action, given) VALUES ('forget', jsonb_build_object('id', id));
  RETURN current_setting('headgate.answer')::boolean;
END
$body$;

CREATE OR REPLACE PROCEDURE headgate.set_validation(relation regclass, validation jsonb, caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('validate', jsonb_build_object(
    'relation', relation::oid::bigint, 'validation', validation, 'schemas', caller_schemas))
$body$;

CREATE OR REPLACE PROCEDURE headgate.create_secret(
  secret_schema text, secret_name text, if_not_exists boolean, backend text, seal_id uuid, sealed text,
  caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('create secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'ifNotExists', if_not_exists, 'backend', backend,
    'sealId', seal_id, 'sealed', sealed, 'schemas', caller_schemas))
$body$;

CREATE OR REPLACE PROCEDURE headgate.alter_secret(
  secret_schema text, secret_name text, backend text, seal_id uuid, sealed text, caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('alter secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'backend', backend, 'sealId', seal_id, 'sealed', sealed,
    'schemas', caller_schemas))
$body$;

CREATE OR REPLACE PROCEDURE headgate.drop_secret(
  secret_schema text, secret_name text, if_exists boolean, caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('drop secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'ifExists', if_exists, 'schemas', caller_schemas))
$body$;

DROP PROCEDURE headgate.forget_dropped();

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
  placed := headgate.place_includes(made, includes);
  chosen := headgate.choose_document(made, placed, coalesce(options ->> 'format', 'json'), document);
  CALL headgate.refuse_unfilled_key(made, placed, chosen);
  INSERT INTO headgate.request (action, given) VALUES ('register', jsonb_build_object(
    'relation', made::oid::bigint, 'options', options, 'includes', placed, 'document', chosen, 'validation', validation,
    'schemas', caller_schemas));
  IF validation IS NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" has no VALIDATE clause: whoever reaches the listener can write into it', table_name),
      HINT = format('Add one with ALTER TABLE %s VALIDATE AS ...', identity);
  END IF;
END
$body$;

-- Lets Headgate's role, the owner of the catalog, write into a table of the caller. The schema may have been made for it
-- by somebody else.
CREATE OR REPLACE PROCEDURE headgate.admit_writer(relation oid)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  writer name;
  place record;
BEGIN
  SELECT r.rolname INTO writer FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
  WHERE c.oid = 'headgate.webhook_table'::regclass;
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
