-- ANSWER clauses: what headgate.request is asked for, and what is shown.

-- `answers`: [{unchecked, committed, payload, expression, sealed, sealId, secrets: [{schema, name}], shown: [alias]}]. `how`:
-- replace or add. An added clause without WHEN replaces the existing one. The caller must be allowed to use every secret. Warns
-- of a short secret if strangers see what is computed from it: they can then try secrets on their own machine.
CREATE OR REPLACE FUNCTION headgate.do_answers(me oid, relation oid, answers jsonb, how text, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  body_name name;
  guarded boolean;
  given record;
  place int;
  short text;
BEGIN
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
  FOR short IN
    SELECT DISTINCT s.name
    FROM headgate.webhook_answer a
    JOIN headgate.webhook_answer_secret b ON b.relation = a.relation AND b.answer = a.position
    JOIN headgate.secret s ON s.id = b.secret_id
    JOIN headgate.secret_form f ON f.secret_id = s.id
    JOIN jsonb_array_elements(answers) n ON (n.value ->> 'sealId')::uuid = a.seal_id AND n.value -> 'shown' ? b.alias
    WHERE a.relation = do_answers.relation AND 'short' = ANY (f.forms)
  LOOP
    RAISE WARNING USING MESSAGE = format('secret "%s" is shorter than 16 bytes, and strangers are answered with what is computed from it', short),
      HINT = 'Who has such an answer can guess the secret without asking again: give it 16 random bytes or more.';
  END LOOP;
END
$body$;

-- ANSWER clauses, each on its own line; '' if there are none.
CREATE OR REPLACE FUNCTION headgate.answer_clauses(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(string_agg(E'\nANSWER ' || coalesce((
      SELECT 'SECRET ' || string_agg(format('%I.%I', s.schema_name, s.name), ', ' ORDER BY b.position) || ' '
      FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
      WHERE b.relation = a.relation AND b.answer = a.position), '') || a.expression, '' ORDER BY a.position), '')
  FROM headgate.webhook_answer a WHERE a.relation = answer_clauses.relation
$body$;
