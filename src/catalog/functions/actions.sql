-- How roles change what is Headgate's own (decision 0065): ask() inserts a row into headgate.request in the caller's name, and its trigger act() calls,
-- as the catalog's owner, the function of the action. Created before the tables, as tables.sql is.

-- What the SQL port, and procedures that it calls, ask of the catalog in the client's name.
CREATE OR REPLACE PROCEDURE headgate.ask(action text, given jsonb, caller_schemas name[] DEFAULT NULL)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES (action, given || jsonb_build_object('schemas', caller_schemas))
$body$;

-- Calls the function of NEW.action for `me`, the role that asks; what that returns is then in the setting headgate.answer. The row itself is not kept.
CREATE OR REPLACE FUNCTION headgate.act() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
<<act>>
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
  IF NEW.action IN ('claim', 'advance', 'register', 'options', 'includes', 'validate', 'answers', 'forget ignored keys') THEN
    PERFORM headgate.refuse_strangers(me, relation);
  END IF;
  IF NEW.action NOT IN ('claim', 'advance') THEN
    PERFORM headgate.keep_owners();
  END IF;
  CASE NEW.action
    -- In a session of the table's owner, which stores its rows and may write nothing of Headgate's.
    WHEN 'claim' THEN
      PERFORM headgate.claim_deliveries(relation, ARRAY(SELECT i.id::uuid FROM jsonb_array_elements_text(given -> 'ids') AS i (id)),
        (given ->> 'window')::bigint, ARRAY(SELECT b.body::uuid FROM jsonb_array_elements_text(given -> 'bodies') AS b (body)),
        coalesce((SELECT k.mark FROM headgate.claimer k WHERE k.relation = act.relation AND k.owner = me), headgate.mark_of_owner(relation)));
      RETURN NULL;
    WHEN 'advance' THEN
      PERFORM headgate.advance((given ->> 'spool')::uuid, relation, (given ->> 'first')::bigint, (given ->> 'last')::bigint);
      RETURN NULL;
    WHEN 'register' THEN PERFORM headgate.do_register(me, relation, given, schemas);
    WHEN 'options' THEN PERFORM headgate.do_options(me, relation, given, schemas);
    WHEN 'includes' THEN UPDATE headgate.webhook_table w SET includes = given -> 'includes' WHERE w.relation = act.relation;
    WHEN 'validate' THEN PERFORM headgate.do_validate(me, relation, nullif(given -> 'validation', 'null'), schemas);
    WHEN 'answers' THEN PERFORM headgate.do_answers(me, relation, given -> 'answers', given ->> 'how', schemas);
    WHEN 'create secret' THEN PERFORM headgate.do_create_secret(me, given, schemas);
    WHEN 'alter secret' THEN PERFORM headgate.do_alter_secret(me, given, schemas);
    WHEN 'drop secret' THEN PERFORM headgate.do_drop_secret(me, given, schemas);
    WHEN 'create token' THEN answer := headgate.do_create_token(me, given);
    WHEN 'drop token' THEN PERFORM headgate.do_drop_token(me, given);
    WHEN 'retry' THEN answer := headgate.do_retry(me, (given ->> 'id')::bigint, (given ->> 'force')::boolean);
    WHEN 'forget' THEN
      DELETE FROM headgate.rejected_requests r USING pg_class c
      WHERE r.id = (given ->> 'id')::bigint AND c.oid = r.relation AND pg_has_role(me, c.relowner, 'USAGE');
      answer := FOUND::text;
    WHEN 'forget ignored keys' THEN
      DELETE FROM headgate.ignored_keys k WHERE k.relation = act.relation;
      answer := FOUND::text;
    ELSE RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'headgate.request knows no such action';
  END CASE;
  PERFORM set_config('headgate.answer', coalesce(answer, ''), true);
  RETURN NULL;
END
$body$;
