-- What headgate.request is asked for about webhook tables. Called by headgate.act() only; `me` is the role that asks.

CREATE OR REPLACE FUNCTION headgate.refuse_strangers(me oid, relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF (SELECT pg_has_role(me, c.relowner, 'USAGE') FROM pg_class c
      WHERE c.oid = refuse_strangers.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', relation::regclass);
  END IF;
END
$body$;

-- For a role of that name, "$user" on the search_path leads to this schema.
CREATE OR REPLACE FUNCTION headgate.refuse_own_schema(place text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF place = 'headgate' THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the schema "headgate" is Headgate''s own',
      HINT = 'A role of that name finds it first on its search_path: write public.name, or SET search_path = public.';
  END IF;
END
$body$;

-- NULL: they stay as they are.
CREATE OR REPLACE FUNCTION headgate.keep_private(relation oid, places jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  DELETE FROM headgate.webhook_private w WHERE w.relation = keep_private.relation AND keep_private.places = '[]';
  INSERT INTO headgate.webhook_private (relation, places) SELECT keep_private.relation, keep_private.places WHERE keep_private.places <> '[]'
  ON CONFLICT ON CONSTRAINT webhook_private_pkey DO UPDATE SET places = excluded.places
$body$;

-- `given`: {relation, options, into, reconcile_secret, includes, private, document, collect, validation, answers}; `into`, `reconcile_secret`: secrets, as
-- written in SQL
CREATE OR REPLACE FUNCTION headgate.do_register(me oid, relation oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  chosen jsonb := nullif(given -> 'document', 'null');
  target text[] := CASE WHEN given ->> 'into' IS NOT NULL THEN parse_ident(given ->> 'into') END;
  writer name;
BEGIN
  PERFORM headgate.refuse_own_schema((SELECT c.relnamespace::regnamespace::text FROM pg_class c WHERE c.oid = do_register.relation));
  -- Rows of an older table that had the same oid.
  DELETE FROM headgate.webhook_table w WHERE w.relation = do_register.relation;
  DELETE FROM headgate.tombstone t WHERE t.relation = do_register.relation;
  -- At COMMIT its trigger (headgate.tell) notifies every Headgate.
  INSERT INTO headgate.webhook_table (relation, payload, options, document, includes, collect)
  VALUES (relation, coalesce(chosen ->> 'column', 'payload'), given -> 'options', chosen, given -> 'includes',
    nullif(given -> 'collect', 'null'));
  PERFORM headgate.keep_private(relation, given -> 'private');
  FOR writer IN SELECT w.name FROM headgate.writer_role w LOOP
    CALL headgate.admit(do_register.relation, writer);
  END LOOP;
  IF cardinality(target) > 2 THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('secret "%s" does not exist', given ->> 'into');
  ELSIF target IS NOT NULL THEN
    INSERT INTO headgate.webhook_into (relation, secret_id) VALUES (relation,
      headgate.find_secret(me, (target)[cardinality(target) - 1], (target)[cardinality(target)], caller_schemas));
  END IF;
  PERFORM headgate.keep_log_secret(me, relation, given -> 'options', given ->> 'reconcile_secret', caller_schemas);
  IF jsonb_typeof(given -> 'validation') = 'object' THEN
    PERFORM headgate.do_validate(me, relation, given -> 'validation', caller_schemas);
  END IF;
  IF jsonb_typeof(given -> 'answers') = 'array' THEN
    PERFORM headgate.do_answers(me, relation, given -> 'answers', 'replace', caller_schemas);
  END IF;
END
$body$;

-- `validation`: {payload, expression, sealed, sealId, secrets: [{schema, name}], warnings: [text], notices: [text], cautions: [{message, hint}], form: {form, message, hint}};
-- null: no check. `form`: which form its secrets must have. The caller must be allowed to use every secret, whoever created the table and bound its current secrets.
CREATE OR REPLACE FUNCTION headgate.do_validate(me oid, relation oid, validation jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  body_name name;
  used_name text := validation ->> 'payload';
  warning text;
  caution record;
BEGIN
  SELECT coalesce(headgate.placed(w.relation, w.document), 'payload') INTO body_name
  FROM headgate.webhook_table w WHERE w.relation = do_validate.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', relation::regclass);
  END IF;
  DELETE FROM headgate.webhook_table_secret b WHERE b.relation = do_validate.relation;
  IF validation IS NULL THEN
    UPDATE headgate.webhook_table w SET expression = NULL, sealed_expression = NULL, seal_id = NULL
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
    seal_id = (validation ->> 'sealId')::uuid
  WHERE w.relation = do_validate.relation;
  INSERT INTO headgate.webhook_table_secret (relation, position, alias, secret_id)
  SELECT do_validate.relation, s.position::int, s.it ->> 'name',
    headgate.find_secret(me, s.it ->> 'schema', s.it ->> 'name', caller_schemas)
  FROM jsonb_array_elements(validation -> 'secrets') WITH ORDINALITY AS s (it, position);
  FOR warning IN SELECT t.text FROM jsonb_array_elements_text(validation -> 'warnings') AS t (text) LOOP
    RAISE WARNING USING MESSAGE = warning;
  END LOOP;
  FOR warning IN SELECT t.text FROM jsonb_array_elements_text(coalesce(validation -> 'notices', '[]')) AS t (text) LOOP
    RAISE NOTICE USING MESSAGE = warning;
  END LOOP;
  FOR caution IN
    SELECT c.value ->> 'message' AS message, c.value ->> 'hint' AS hint FROM jsonb_array_elements(coalesce(validation -> 'cautions', '[]')) c
    UNION ALL
    SELECT replace(validation #>> '{form,message}', '{secret}', s.name), replace(validation #>> '{form,hint}', '{secret}', s.name)
    FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id JOIN headgate.secret_form f ON f.secret_id = s.id
    WHERE b.relation = do_validate.relation AND validation #>> '{form,form}' <> ALL (f.forms) AND validation #>> '{form,form}' IS NOT NULL
  LOOP
    RAISE WARNING USING MESSAGE = caution.message, HINT = caution.hint;
  END LOOP;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_options(me oid, relation oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  -- Ids of a table that keeps none, before or after this, are of no use. Those that a request on its way holds are not waited for.
  IF EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = do_options.relation
    AND (headgate.option_window(w.options, 'dedupe') IS NULL OR headgate.option_window(given -> 'options', 'dedupe') IS NULL))
  THEN
    DELETE FROM headgate.delivery d WHERE d.ctid = ANY (ARRAY(
      SELECT o.ctid FROM headgate.delivery o WHERE o.relation = do_options.relation FOR UPDATE SKIP LOCKED));
  END IF;
  -- What another version says of deleted rows is not comparable.
  IF EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = do_options.relation
    AND w.options ->> 'version' IS DISTINCT FROM given #>> '{options,version}')
  THEN
    DELETE FROM headgate.tombstone t WHERE t.relation = do_options.relation;
  END IF;
  UPDATE headgate.webhook_table w SET options = given -> 'options', collect = nullif(given -> 'collect', 'null')
  WHERE w.relation = do_options.relation;
  PERFORM headgate.keep_private(relation, given -> 'private');
  PERFORM headgate.keep_log_secret(me, relation, given -> 'options', given ->> 'reconcile_secret', caller_schemas);
END
$body$;
