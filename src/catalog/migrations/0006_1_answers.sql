-- ANSWER: what a sender's question is answered with, and what a committed request is.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

-- The clauses of a table, in the order of `position`. What is believed stands sealed, as it does for VALIDATE.
CREATE TABLE headgate.webhook_answer (
  relation regclass NOT NULL REFERENCES headgate.webhook_table ON DELETE CASCADE,
  position int NOT NULL,
  -- Tried before VALIDATE.
  unchecked boolean NOT NULL,
  -- It has no WHEN.
  committed boolean NOT NULL,
  -- What follows ANSWER and its secrets, with secret literals masked.
  expression text NOT NULL,
  sealed text NOT NULL,
  seal_id uuid NOT NULL UNIQUE,
  PRIMARY KEY (relation, position)
);

-- Each clause has secrets of its own, also where they are those of VALIDATE: that may get others.
CREATE TABLE headgate.webhook_answer_secret (
  relation regclass NOT NULL,
  answer int NOT NULL,
  position int NOT NULL,
  alias text NOT NULL,
  secret_id uuid NOT NULL REFERENCES headgate.secret,
  PRIMARY KEY (relation, answer, position),
  UNIQUE (relation, answer, alias),
  FOREIGN KEY (relation, answer) REFERENCES headgate.webhook_answer ON DELETE CASCADE
);
CREATE INDEX webhook_answer_secret_secret_id ON headgate.webhook_answer_secret (secret_id);

GRANT SELECT (relation, position, unchecked, committed, expression) ON headgate.webhook_answer TO PUBLIC;
GRANT SELECT (relation, answer, position, alias, secret_id) ON headgate.webhook_answer_secret TO PUBLIC;

CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON headgate.webhook_answer
  FOR EACH ROW EXECUTE FUNCTION headgate.tell();

---------------------------------------------------------------- what is asked for

-- `answers`: [{unchecked, committed, payload, expression, sealed, sealId, secrets: [{schema, name}]}]. `how`: replace, or add. One
-- that is added and has no WHEN takes the place of the one that there is. Every secret must be the caller's to use.
CREATE FUNCTION headgate.do_answers(me oid, relation oid, answers jsonb, how text, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  body_name name;
  guarded boolean;
  given record;
  place int;
BEGIN
  PERFORM headgate.refuse_strangers(me, relation);
  SELECT coalesce(headgate.placed(w.relation, w.document), 'payload'), w.expression IS NOT NULL INTO body_name, guarded
  FROM headgate.webhook_table w WHERE w.relation = do_answers.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', relation::regclass);
  END IF;
  DELETE FROM headgate.webhook_answer a WHERE a.relation = do_answers.relation AND (how = 'replace'
    OR a.committed AND EXISTS (SELECT FROM jsonb_array_elements(answers) n WHERE (n.value ->> 'committed')::boolean));
  SELECT coalesce(max(a.position), 0) INTO place FROM headgate.webhook_answer a WHERE a.relation = do_answers.relation;
  FOR given IN SELECT n.value AS it, n.number::int FROM jsonb_array_elements(answers) WITH ORDINALITY AS n (value, number) LOOP
    IF given.it ->> 'expression' IS NULL OR given.it ->> 'sealed' IS NULL OR given.it ->> 'sealId' IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'an ANSWER clause comes with the seal of Headgate',
        HINT = 'Send the statement to the SQL port of a Headgate of this version.';
    ELSIF given.it ->> 'payload' NOT IN ('payload', body_name) THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column "%s" does not exist', given.it ->> 'payload'),
        HINT = format('In ANSWER the body of the request is called %s.',
          (SELECT string_agg(DISTINCT format('"%s"', n), ' or ') FROM unnest(ARRAY[body_name, 'payload']) n));
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(given.it -> 'secrets') s WHERE s ->> 'name' = body_name) THEN
      RAISE EXCEPTION USING ERRCODE = '42702',
        MESSAGE = format('the name "%s" is ambiguous: it is a secret and the column of the table', body_name);
    ELSIF NOT guarded AND NOT (given.it ->> 'committed')::boolean AND NOT (given.it ->> 'unchecked')::boolean THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'an ANSWER without UNCHECKED needs a table with VALIDATE',
        HINT = 'Without UNCHECKED only requests that VALIDATE has accepted are answered.';
    ELSIF jsonb_array_length(given.it -> 'secrets') > 64 THEN
      RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'an ANSWER clause names at most 64 secrets';
    ELSIF octet_length(given.it ->> 'sealed') + octet_length(given.it ->> 'expression') > 262144 THEN
      RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'an ANSWER clause is too large';
    END IF;
    INSERT INTO headgate.webhook_answer (relation, position, unchecked, committed, expression, sealed, seal_id)
    VALUES (relation, place + given.number, (given.it ->> 'unchecked')::boolean, (given.it ->> 'committed')::boolean,
      given.it ->> 'expression', given.it ->> 'sealed', (given.it ->> 'sealId')::uuid);
    INSERT INTO headgate.webhook_answer_secret (relation, answer, position, alias, secret_id)
    SELECT do_answers.relation, place + given.number, s.position::int, s.it ->> 'name',
      headgate.find_secret(me, s.it ->> 'schema', s.it ->> 'name', caller_schemas)
    FROM jsonb_array_elements(given.it -> 'secrets') WITH ORDINALITY AS s (it, position);
  END LOOP;
  IF (SELECT count(*) > 16 FROM headgate.webhook_answer a WHERE a.relation = do_answers.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a table has at most 16 ANSWER clauses';
  END IF;
END
$body$;

CREATE OR REPLACE FUNCTION headgate.do_drop_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
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
  SELECT string_agg(DISTINCT format('table %s depends on secret %s', b.relation, secret_name), E'\n')
  INTO users FROM (
    SELECT v.relation::text FROM headgate.webhook_table_secret v WHERE v.secret_id = found_id
    UNION ALL
    SELECT a.relation::text FROM headgate.webhook_answer_secret a WHERE a.secret_id = found_id
  ) AS b;
  RAISE EXCEPTION USING ERRCODE = '2BP01',
    MESSAGE = format('cannot drop secret %s because other objects depend on it', secret_name),
    DETAIL = users,
    HINT = 'Drop the tables, or give them another VALIDATE with ALTER TABLE ... VALIDATE, and ALTER TABLE ... DROP ANSWER, first.';
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
    WHEN 'answers' THEN PERFORM headgate.do_answers(me, relation, given -> 'answers', given ->> 'how', schemas);
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

REVOKE ALL ON FUNCTION headgate.do_answers(oid, oid, jsonb, text, text[]) FROM PUBLIC;

---------------------------------------------------------------- what the SQL port calls

CREATE PROCEDURE headgate.set_answers(relation regclass, answers jsonb, how text, caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('answers', jsonb_build_object(
    'relation', relation::oid::bigint, 'answers', answers, 'how', how, 'schemas', caller_schemas))
$body$;

-- As create_webhook_table, with ANSWER clauses. A table that was there before keeps its own.
CREATE PROCEDURE headgate.create_answering_table(
  statement text, table_schema text, table_name text, if_not_exists boolean, options jsonb, includes jsonb,
  document text, validation jsonb, answers jsonb, caller_path text, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place name := coalesce(table_schema, caller_schemas[1]);
  before oid := CASE WHEN place IS NOT NULL THEN to_regclass(format('%I.%I', place, table_name::name)) END;
  made oid;
BEGIN
  CALL headgate.create_webhook_table(statement, table_schema, table_name, if_not_exists, options, includes, document,
    validation, caller_path, caller_schemas);
  IF before IS NOT NULL THEN
    RETURN;
  END IF;
  -- Made by somebody else meanwhile, it was registered in another transaction.
  SELECT w.relation INTO made FROM headgate.webhook_table w
  WHERE w.relation = to_regclass(format('%I.%I', place, table_name::name)) AND w.created_at = now();
  IF FOUND THEN
    CALL headgate.set_answers(made, answers, 'replace', caller_schemas);
  END IF;
END
$body$;

CREATE PROCEDURE headgate.alter_answering_table(
  relation regclass, table_name text, if_exists boolean, validation jsonb, answers jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  CALL headgate.alter_webhook_table(relation, table_name, if_exists, validation, caller_schemas);
  IF relation IS NOT NULL THEN
    CALL headgate.set_answers(relation, answers, 'replace', caller_schemas);
  END IF;
END
$body$;

CREATE PROCEDURE headgate.add_answers(
  relation regclass, table_name text, if_exists boolean, answers jsonb, caller_schemas name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  ELSIF NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = add_answers.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  END IF;
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  CALL headgate.set_answers(relation, answers, 'add', caller_schemas);
END
$body$;

-- ALTER TABLE t DROP answer is also PostgreSQL's way to drop a column of that name: so it stays for any table that answers
-- nothing.
CREATE PROCEDURE headgate.drop_answer(
  relation regclass, table_name text, if_exists boolean, statement text, caller_path text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF relation IS NULL OR NOT EXISTS (SELECT FROM headgate.webhook_table w WHERE w.relation = drop_answer.relation)
    OR NOT EXISTS (SELECT FROM headgate.webhook_answer a WHERE a.relation = drop_answer.relation)
      AND EXISTS (SELECT FROM pg_attribute c WHERE c.attrelid = drop_answer.relation AND c.attname = 'answer' AND NOT c.attisdropped)
  THEN
    PERFORM set_config('search_path', caller_path, true);
    EXECUTE statement;
    RETURN;
  END IF;
  PERFORM headgate.open_table(relation, table_name, if_exists);
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  CALL headgate.set_answers(relation, '[]', 'replace', NULL);
END
$body$;
