-- What a row holds, and what its owner is told: partitioned tables, the natural place of a document, keys that are no
-- columns, and forms of secrets.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

---------------------------------------------------------------- documents

-- The column that takes whole documents where nobody says which: the only one of its type, where every other column that
-- the body could fill has a value of its own. NULL: there is none, and keys fill the columns.
CREATE FUNCTION headgate.natural_document(relation oid, includes jsonb, format text) RETURNS smallint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT min(b.attnum) FILTER (WHERE takes.body)
  FROM headgate.body_columns(relation, includes) b
  JOIN pg_type t ON t.oid = b.atttypid
  CROSS JOIN LATERAL headgate.takes_body(b, format) AS takes (body)
  HAVING count(*) FILTER (WHERE takes.body) = 1
    AND (count(*) = 1 OR format NOT IN ('text', 'bytes'))
    AND bool_and(takes.body OR b.atthasdef OR b.attidentity <> '' OR t.typdefaultbin IS NOT NULL)
$body$;

-- Which column takes the whole document is decided once, when the table is made: a column that is added later never
-- turns the documents of a table into rows of it. `wanted`: a column's name, '' for none, NULL: the natural one.
CREATE OR REPLACE FUNCTION headgate.choose_document(relation oid, includes jsonb, format text, wanted text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  body pg_attribute[] := ARRAY(SELECT b FROM headgate.body_columns(relation, includes) b ORDER BY b.attnum);
  chosen pg_attribute;
  unfilled name;
BEGIN
  IF cardinality(body) = 0 THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a webhook table has a column that takes the body of the request';
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
  ELSIF wanted IS NULL THEN
    SELECT b.* INTO chosen FROM unnest(body) b WHERE b.attnum = headgate.natural_document(relation, includes, format);
    IF chosen.attname IS NOT NULL THEN
      IF cardinality(body) > 1 THEN
        RAISE NOTICE USING
          MESSAGE = format('the whole document goes into column "%s", and the other columns keep their defaults', chosen.attname),
          HINT = 'To fill the columns by the keys of the document instead, add the option document = ''''.';
      END IF;
      RETURN headgate.place(chosen);
    END IF;
  END IF;
  IF format IN ('text', 'bytes') THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('format = ''%s'' needs exactly one column for the body, of type %s',
        format, CASE format WHEN 'text' THEN 'TEXT' ELSE 'BYTEA' END);
  END IF;
  RETURN NULL;
END
$body$;

-- The option that says again what was decided when the table was made, where its columns alone might say something else.
CREATE OR REPLACE FUNCTION headgate.document_option(relation oid, options jsonb, document jsonb, includes jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT CASE
    WHEN document IS NULL AND headgate.natural_document(relation, includes, coalesce(options ->> 'format', 'json')) IS NOT NULL
      THEN '{"document": ""}'
    WHEN headgate.placed(relation, document) IS NOT NULL AND body.count > 1
      THEN jsonb_build_object('document', headgate.placed(relation, document))
    ELSE '{}' END
  FROM (SELECT count(*) AS count FROM headgate.body_columns(relation, includes)) AS body
$body$;

---------------------------------------------------------------- keys that are no columns

-- The column that takes the members whose keys are no columns, as headgate.place() writes it; null: none does.
ALTER TABLE headgate.webhook_table ADD COLUMN collect jsonb CHECK (collect IS NULL OR headgate.is_place(collect) IS TRUE);
GRANT SELECT (collect) ON headgate.webhook_table TO PUBLIC;

-- The place of the column that `collect_into` names; refuses what cannot work.
CREATE FUNCTION headgate.choose_collect(relation oid, includes jsonb, document jsonb, options jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  way text := coalesce(options ->> 'on_unknown', 'ignore');
  wanted text := options ->> 'collect_into';
  body pg_attribute[] := ARRAY(SELECT b FROM headgate.body_columns(relation, includes) b ORDER BY b.attnum);
  chosen pg_attribute;
BEGIN
  IF way <> 'ignore' AND document IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('on_unknown = ''%s'' says nothing where the whole document goes into column "%s"', way,
        headgate.placed(relation, document)),
      HINT = 'To fill the columns by the keys of the document instead, add the option document = ''''.';
  ELSIF (way = 'collect') <> (wanted IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'on_unknown = ''collect'' and collect_into = ''column'' need each other';
  ELSIF wanted IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT b.* INTO chosen FROM unnest(body) b WHERE b.attname = wanted::name;
  IF chosen.attname IS NULL OR NOT headgate.takes_body(chosen, 'json') THEN
    RAISE EXCEPTION USING ERRCODE = '42804',
      MESSAGE = format('column "%s" cannot take keys that are no columns', wanted),
      HINT = 'It has to be of type JSONB, and neither generated nor filled by INCLUDE.';
  ELSIF cardinality(body) = 1 THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('besides "%s" the table has no column that a key could fill', wanted);
  END IF;
  RETURN headgate.place(chosen);
END
$body$;

-- Changes options of a webhook table; `changes` as they stand in the catalog, with `collect_into`.
CREATE PROCEDURE headgate.alter_options(relation regclass, table_name text, if_exists boolean, changes jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  made record;
  merged jsonb;
BEGIN
  IF NOT headgate.open_table(relation, table_name, if_exists) THEN
    RETURN;
  END IF;
  -- As for VALIDATE: requests on their way were read as the options of their moment say.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
  SELECT w.options, w.includes, w.document, headgate.placed(w.relation, w.collect) AS collected INTO made
  FROM headgate.webhook_table w WHERE w.relation = alter_options.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a webhook table', table_name),
      HINT = 'A webhook table is made with CREATE TABLE ... WITH (connector = ''webhook'').';
  END IF;
  merged := made.options || changes;
  -- The column of before stays, as long as there is something to put into it.
  IF merged ->> 'on_unknown' = 'collect' AND made.collected IS NOT NULL AND NOT changes ? 'collect_into' THEN
    merged := merged || jsonb_build_object('collect_into', made.collected);
  END IF;
  INSERT INTO headgate.request (action, given) VALUES ('options', jsonb_build_object(
    'relation', relation::oid::bigint, 'options', merged - 'collect_into',
    'collect', headgate.choose_collect(relation, made.includes, made.document, merged)));
END
$body$;

-- Documents that were stored without some of their members, because these are no columns: a row for each table, and the
-- first names. Headgate alone writes it; the owner of a table sees its row.
CREATE TABLE headgate.ignored_keys (
  relation regclass PRIMARY KEY REFERENCES headgate.webhook_table ON DELETE CASCADE,
  documents bigint NOT NULL,
  keys text[] NOT NULL,
  first_at timestamptz NOT NULL DEFAULT now(),
  last_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE headgate.ignored_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON headgate.ignored_keys FOR SELECT USING (headgate.owns_table(relation));
GRANT SELECT (relation, documents, keys, first_at, last_at) ON headgate.ignored_keys TO PUBLIC;

---------------------------------------------------------------- forms of secrets

-- Of which forms a secret's value is, as senders ask for one (whsec_ and base64, hexadecimal digits …). It is a hint at
-- the value, and Headgate's alone. A secret without a row was made before this was kept.
CREATE TABLE headgate.secret_form (
  secret_id uuid PRIMARY KEY REFERENCES headgate.secret ON DELETE CASCADE,
  forms text[] NOT NULL CHECK (pg_column_size(forms) <= 8192)
);

-- `given`: {schema, name, backend, sealId, sealed, schemas, ifNotExists, forms}
CREATE FUNCTION headgate.do_create_formed_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.do_create_secret(me, given, caller_schemas);
  -- One that was there before keeps its value, and its forms.
  INSERT INTO headgate.secret_form (secret_id, forms)
  SELECT s.id, ARRAY(SELECT jsonb_array_elements_text(given -> 'forms')) FROM headgate.secret s
  WHERE s.seal_id = (given ->> 'sealId')::uuid
  ON CONFLICT DO NOTHING;
END
$body$;

CREATE FUNCTION headgate.do_alter_formed_secret(me oid, given jsonb, caller_schemas text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM headgate.do_alter_secret(me, given, caller_schemas);
  INSERT INTO headgate.secret_form AS f (secret_id, forms)
  SELECT s.id, ARRAY(SELECT jsonb_array_elements_text(given -> 'forms')) FROM headgate.secret s
  WHERE s.seal_id = (given ->> 'sealId')::uuid
  ON CONFLICT (secret_id) DO UPDATE SET forms = excluded.forms;
END
$body$;

CREATE PROCEDURE headgate.create_formed_secret(
  secret_schema text, secret_name text, if_not_exists boolean, backend text, seal_id uuid, sealed text, forms text[],
  caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('create formed secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'ifNotExists', if_not_exists, 'backend', backend,
    'sealId', seal_id, 'sealed', sealed, 'forms', forms, 'schemas', caller_schemas))
$body$;

CREATE PROCEDURE headgate.alter_formed_secret(
  secret_schema text, secret_name text, backend text, seal_id uuid, sealed text, forms text[], caller_schemas name[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  INSERT INTO headgate.request (action, given) VALUES ('alter formed secret', jsonb_build_object(
    'schema', secret_schema, 'name', secret_name, 'backend', backend, 'sealId', seal_id, 'sealed', sealed,
    'forms', forms, 'schemas', caller_schemas))
$body$;

-- `validation` may hold `form`: {form, message, hint}, what its secrets have to be like, and `cautions`: [{message, hint}].
-- Called where every secret is known to be the caller's to use.
CREATE FUNCTION headgate.warn(relation oid, validation jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  caution record;
BEGIN
  FOR caution IN
    SELECT c.value ->> 'message' AS message, c.value ->> 'hint' AS hint
    FROM jsonb_array_elements(coalesce(validation -> 'cautions', '[]')) c
    UNION ALL
    SELECT replace(validation #>> '{form,message}', '{secret}', s.name), replace(validation #>> '{form,hint}', '{secret}', s.name)
    FROM headgate.webhook_table_secret b
    JOIN headgate.secret s ON s.id = b.secret_id
    JOIN headgate.secret_form f ON f.secret_id = s.id
    WHERE b.relation = warn.relation AND validation #>> '{form,form}' <> ALL (f.forms)
      AND validation #>> '{form,form}' IS NOT NULL
  LOOP
    RAISE WARNING USING MESSAGE = caution.message, HINT = caution.hint;
  END LOOP;
END
$body$;
