-- Webhook tables, as Headgate's statements create and change them. The SQL port calls these functions as the client's own
-- role; changes of the catalog they ask() for (actions.sql).

-- Refuses unless `relation` is a webhook table and the caller's. False: it does not exist and IF EXISTS was given.
CREATE OR REPLACE FUNCTION headgate.open_table(relation regclass, table_name text, if_exists boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
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
  ELSIF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = open_table.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  END IF;
  RETURN true;
END
$body$;

-- `statement` is the client's CREATE TABLE without the parts that PostgreSQL does not know; it runs under the client's
-- own search_path. It never contains IF NOT EXISTS, which is handled here, so that a table that already exists is never
-- made a webhook table. `validation`, `answers`: as for headgate.do_validate() and headgate.do_answers(); null: none.
CREATE OR REPLACE PROCEDURE headgate.create_webhook_table(
  statement text, table_schema text, table_name text, if_not_exists boolean, options jsonb, includes jsonb,
  document text, validation jsonb, answers jsonb, caller_path text, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place name := coalesce(table_schema, caller_schemas[1]);
  identity text;
  made regclass;
  placed jsonb;
  chosen jsonb;
  private jsonb;
  numbered text;
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
    IF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = to_regclass(identity)) THEN
      RAISE NOTICE USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists, skipping', table_name),
        DETAIL = 'It is not a webhook table, so it has no endpoint.',
        HINT = (SELECT CASE WHEN c.relkind IN ('r', 'p') THEN 'Rename it, run the statement again, and copy its rows with INSERT INTO ... SELECT.'
          ELSE 'Give the table another name.' END FROM pg_class c WHERE c.oid = to_regclass(identity));
      RETURN;
    END IF;
    RAISE NOTICE USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists, skipping', table_name);
    IF validation ->> 'changed' IS NOT NULL THEN
      RAISE NOTICE USING MESSAGE = format('table "%s" keeps the check that it has; %s', table_name, validation ->> 'changed'),
        HINT = 'SHOW CREATE TABLE shows it.';
    END IF;
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
  -- Rights for Headgate's own role, if no other stores rows; do_register grants that one its own.
  CALL headgate.admit(made, NULL);
  placed := headgate.place_includes(made, includes);
  private := headgate.place_private(made, placed, NULL, (options ->> 'private')::jsonb);
  chosen := headgate.choose_document(made, placed || private, coalesce(options ->> 'format', 'json'), document);
  CALL headgate.refuse_unfilled_key(made, placed || private, chosen);
  CALL headgate.try_options(made, options);
  IF options ? 'into' THEN
    PERFORM headgate.refuse_beside_into(made, options);
    CALL headgate.keep_empty(made, options ->> 'into');
  ELSE
    CALL headgate.refuse_repeated_key(made, placed, private, chosen);
  END IF;
  made := headgate.distribute(made, placed, chosen, headgate.natural_distribution(made) || options);
  PERFORM headgate.refuse_unversioned(made, options -> 'version_places', placed, chosen, options);
  PERFORM headgate.refuse_unreconciled(options, options ->> 'reconcile_dedupe', options ? 'reconcile_secret');
  CALL headgate.ask('register', jsonb_build_object(
    'relation', made::oid::bigint, 'into', options -> 'into', 'reconcile_secret', options -> 'reconcile_secret',
    'options', options - '{collect_into,distribute,shards,into,private,version_places,reconcile_secret,reconcile_dedupe}'::text[],
    'includes', placed, 'document', chosen, 'private', private,
    'collect', headgate.choose_collect(made, placed || private, chosen, options), 'validation', validation, 'answers', answers), caller_schemas);
  IF headgate.lacks_login(made) THEN
    RAISE NOTICE USING
      MESSAGE = format('rows of table "%s" run code of its owner, for whom Headgate cannot log in: they are refused until it can', table_name),
      HINT = (SELECT format('Let a superuser run: CREATE ROLE headgate_as_%1$s LOGIN; GRANT %2$I TO headgate_as_%1$s; '
          'ALTER ROLE headgate_as_%1$s PASSWORD ''...'', which the log of Headgate says.', c.relowner, pg_get_userbyid(c.relowner))
        FROM pg_class c WHERE c.oid = made);
  END IF;
  IF validation IS NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" has no VALIDATE clause: whoever reaches the listener can write into it, as can every web page that they open', table_name),
      HINT = format('Add one with ALTER TABLE %s VALIDATE AS ...', identity);
  END IF;
  IF EXISTS (SELECT FROM pg_class c WHERE c.oid = made AND c.relkind = 'r' AND c.relpersistence = 'u') THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" is UNLOGGED: a crash of the engine removes all its rows, also those answered 200, and no standby has them', table_name),
      HINT = format('To keep them, ALTER TABLE %s SET LOGGED.', identity);
  END IF;
  SELECT string_agg(format('%I', b.attname), ', ') INTO numbered
  FROM headgate.body_columns(made, placed || private) b
  JOIN pg_index i ON i.indrelid = made AND i.indisprimary AND b.attnum = ANY (i.indkey)
  WHERE chosen IS NULL AND NOT options ? 'into' AND headgate.is_numbered(b);
  IF numbered IS NOT NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('a sequence fills the key of table "%s" (%s), and no request does: every row is new', table_name, numbered),
      HINT = 'To have requests name their rows, declare the key without a sequence.';
  END IF;
  IF ARRAY[current_database()::text, place::text, table_name::name::text] && ARRAY['.', '..'] THEN
    RAISE NOTICE USING
      MESSAGE = format('no URL reaches table "%s": clients take "." and ".." out of a path', table_name),
      HINT = 'Give the table, its schema or the database another name.';
  END IF;
END
$body$;

-- Refuses a condition `keep_if` that PostgreSQL does not take for this table's rows, with what it says to whoever asks, and, as GRANT does, unknown `readers`.
CREATE OR REPLACE PROCEDURE headgate.try_options(relation regclass, options jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  missing text := (SELECT r.name FROM headgate.readers_in(options ->> 'readers') r (name)
    WHERE r.name <> 'public' AND to_regrole(quote_ident(r.name)) IS NULL LIMIT 1);
BEGIN
  IF options ->> 'keep_if' <> '' THEN
    EXECUTE format('EXPLAIN SELECT FROM ONLY %s WHERE (%s)', relation, options ->> 'keep_if');
  END IF;
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', missing);
  END IF;
END
$body$;

-- `checks`: {validation} and {answers, how}, as for headgate.do_validate() and headgate.do_answers(); what is absent stays.
CREATE OR REPLACE PROCEDURE headgate.alter_checks(relation regclass, table_name text, if_exists boolean, checks jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  given jsonb := checks || jsonb_build_object('relation', relation::oid::bigint);
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  -- Not against writers: their requests were checked by the expression of the moment they arrived.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  IF checks ? 'validation' THEN
    IF checks #>> '{validation,changed}' IS NOT NULL AND EXISTS (SELECT FROM headgate.webhook_table w
        WHERE w.relation = alter_checks.relation AND w.expression <> checks #>> '{validation,expression}') THEN
      RAISE NOTICE USING MESSAGE = checks #>> '{validation,changed}', HINT = 'SHOW CREATE TABLE shows the check that the table has now.';
    END IF;
    CALL headgate.ask('validate', given, caller_schemas);
  END IF;
  IF checks ? 'answers' THEN
    CALL headgate.ask('answers', given, caller_schemas);
  END IF;
END
$body$;

-- ALTER TABLE t DROP validate, or answer (`part`), is also how PostgreSQL drops a column of that name, and remains so for any other table, and for a table
-- that has such a column and no ANSWER.
CREATE OR REPLACE PROCEDURE headgate.drop_check(
  relation regclass, table_name text, if_exists boolean, part text, statement text, caller_path text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF relation IS NULL OR NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = drop_check.relation)
    OR part = 'answer' AND NOT EXISTS (SELECT FROM headgate.webhook_answer a WHERE a.relation = drop_check.relation)
      AND EXISTS (SELECT FROM pg_attribute c WHERE c.attrelid = drop_check.relation AND c.attname = 'answer' AND NOT c.attisdropped)
  THEN
    PERFORM set_config('search_path', caller_path, true);
    EXECUTE statement;
    RETURN;
  END IF;
  CALL headgate.alter_checks(relation, table_name, if_exists,
    CASE part WHEN 'answer' THEN '{"answers": [], "how": "replace"}' ELSE '{"validation": null}' END::jsonb, NULL);
  IF part = 'validate' THEN
    RAISE NOTICE USING
      MESSAGE = format('table "%s" has no VALIDATE clause: whoever reaches the listener can write into it, as can every web page that they open', table_name),
      HINT = format('Add one with ALTER TABLE %s VALIDATE AS ...', relation);
  END IF;
END
$body$;

-- Changes options of a webhook table; `changes`: as in the catalog, with `collect_into`.
CREATE OR REPLACE PROCEDURE headgate.alter_options(
  relation regclass, table_name text, if_exists boolean, changes jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  made record;
  merged jsonb;
  private jsonb;
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  -- As for VALIDATE: requests on their way were read as the options of their moment say.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  SELECT w.options, w.includes, w.document, headgate.private_places(w.relation) AS private, headgate.placed(w.relation, w.collect) AS collected INTO made
  FROM headgate.webhook_table w WHERE w.relation = alter_options.relation;
  IF EXISTS (SELECT FROM headgate.webhook_into i WHERE i.relation = alter_options.relation) THEN
    PERFORM headgate.refuse_beside_into(relation, changes);
  END IF;
  relation := headgate.distribute(relation, made.includes, made.document, changes);
  -- null: as if it had never been set.
  merged := jsonb_strip_nulls(made.options || changes - '{distribute,shards,version_places,reconcile_secret,reconcile_dedupe}'::text[]);
  IF coalesce(merged ->> 'reconcile', 'off') = 'off' AND NOT changes ? 'every' THEN
    merged := merged - 'every';
  END IF;
  PERFORM headgate.refuse_unversioned(relation, coalesce(changes -> 'version_places',
    CASE WHEN coalesce(merged ->> 'version', 'off') <> 'off' THEN '[]'::jsonb END), made.includes, made.document, merged);
  merged := merged - ARRAY(SELECT o.key FROM jsonb_each_text(changes) o WHERE o.key IN ('keep_if', 'readers') AND o.value = '');
  CALL headgate.try_options(relation, changes);
  PERFORM headgate.refuse_unreconciled(merged, changes ->> 'reconcile_dedupe', changes ->> 'reconcile_secret' IS NOT NULL OR EXISTS (
    SELECT FROM headgate.webhook_reconcile r WHERE r.relation = alter_options.relation));
  IF concat(merged ->> 'dedupe', merged ->> 'dedupe_compare') LIKE '%$%'
    AND (merged ->> 'is_batched' = 'true' OR coalesce(merged ->> 'format', 'json') IN ('text', 'bytes'))
  THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'dedupe by a value of the body needs a body that is one document',
      HINT = 'A header can be the id of any request: dedupe = ''header:name''.';
  END IF;
  -- The column of before stays, as long as there is something to put into it.
  IF merged ->> 'on_unknown' = 'collect' AND made.collected IS NOT NULL AND NOT changes ? 'collect_into' THEN
    merged := merged || jsonb_build_object('collect_into', made.collected);
  END IF;
  private := CASE WHEN changes ? 'private'
    THEN headgate.place_private(relation, made.includes, made.document, (changes ->> 'private')::jsonb) ELSE made.private END;
  CALL headgate.ask('options', jsonb_build_object(
    'relation', relation::oid::bigint, 'options', merged - '{collect_into,private}'::text[], 'private', private,
    'reconcile_secret', changes -> 'reconcile_secret',
    'collect', headgate.choose_collect(relation, made.includes || private, made.document, merged)), caller_schemas);
END
$body$;

-- Fills further columns from the requests that arrive from now on. `columns`: the type of each column that has to be added.
CREATE OR REPLACE PROCEDURE headgate.add_includes(
  relation regclass, table_name text, if_exists boolean, columns jsonb, added jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  made record;
  include jsonb;
  filled name[];
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  -- Like ADD COLUMN itself: no row is stored between the column and its include.
  EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
  SELECT w.includes, headgate.placed(w.relation, w.document) AS document, headgate.placed(w.relation, w.collect) AS collected INTO made
  FROM headgate.webhook_table w WHERE w.relation = add_includes.relation;
  IF EXISTS (SELECT FROM headgate.webhook_into i WHERE i.relation = add_includes.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of a table with the option into cannot be changed',
      HINT = 'Create the table anew, with INCLUDE.';
  END IF;
  filled := ARRAY(SELECT headgate.placed(relation, i.value) FROM jsonb_array_elements(made.includes) i);
  FOR include IN SELECT i.value FROM jsonb_array_elements(added) WITH ORDINALITY AS i (value, position) ORDER BY i.position LOOP
    IF include ->> 'column' = ANY (filled || made.document || made.collected) THEN
      RAISE EXCEPTION USING ERRCODE = '42701', MESSAGE = format('column "%s" is filled from the request already', include ->> 'column');
    ELSIF include ->> 'column' = ANY (headgate.private_columns(relation)) THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('column "%s" is private: no request fills it', include ->> 'column');
    ELSIF include ->> 'what' = 'body' AND made.includes @> '[{"what": "body"}]' THEN
      RAISE EXCEPTION USING ERRCODE = '42701', MESSAGE = 'INCLUDE BODY is given more than once';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = (include ->> 'column')::name
      AND a.attnum > 0 AND NOT a.attisdropped) THEN
      EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', relation, include ->> 'column', columns ->> (include ->> 'what'));
    END IF;
  END LOOP;
  CALL headgate.ask('includes', jsonb_build_object(
    'relation', relation::oid::bigint, 'includes', made.includes || headgate.place_includes(relation, added)));
END
$body$;
