-- Which columns of a webhook table take which part of a request, and how that is remembered.

-- How a column is remembered: by its name and its number at the time.
CREATE OR REPLACE FUNCTION headgate.place(a pg_attribute) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT jsonb_build_object('relation', a.attrelid::bigint, 'attnum', a.attnum, 'column', a.attname)
$body$;

-- The column that a place refers to now; NULL: it no longer exists. A renamed column keeps its number; a restored table
-- keeps the names and not always the numbers; a column that is dropped and added again is the same column.
CREATE OR REPLACE FUNCTION headgate.placed(relation oid, place jsonb) RETURNS name
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $body$
  SELECT a.attname FROM pg_attribute a
  WHERE a.attrelid = placed.relation AND a.attnum > 0 AND NOT a.attisdropped
    AND (a.attnum = (place ->> 'attnum')::int AND a.attrelid = (place ->> 'relation')::oid
      OR a.attname = (place ->> 'column')::name)
  ORDER BY a.attnum = (place ->> 'attnum')::int AND a.attrelid = (place ->> 'relation')::oid DESC
  LIMIT 1
$body$;

CREATE OR REPLACE FUNCTION headgate.placed_anew(relation oid, place jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce((
    SELECT place || headgate.place(a) FROM pg_attribute a
    WHERE a.attrelid = placed_anew.relation AND a.attname = (place ->> 'column')::name AND a.attnum > 0 AND NOT a.attisdropped
  ), place)
$body$;

CREATE OR REPLACE FUNCTION headgate.places_anew(relation oid, places jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce(jsonb_agg(headgate.placed_anew(places_anew.relation, p.value) ORDER BY p.position), '[]')
  FROM jsonb_array_elements(places) WITH ORDINALITY AS p (value, position)
$body$;

-- Gives the columns of restored tables their current numbers, so that later renames are followed.
CREATE OR REPLACE PROCEDURE headgate.place_restored()
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
  UPDATE headgate.webhook_table w SET document = headgate.placed_anew(w.relation, w.document),
    collect = headgate.placed_anew(w.relation, w.collect), includes = headgate.places_anew(w.relation, w.includes)
  WHERE (w.document ->> 'relation')::oid <> w.relation::oid OR (w.collect ->> 'relation')::oid <> w.relation::oid
    OR EXISTS (SELECT FROM jsonb_array_elements(w.includes) i WHERE (i.value ->> 'relation')::oid <> w.relation::oid);
  UPDATE headgate.webhook_private w SET places = headgate.places_anew(w.relation, w.places)
  WHERE EXISTS (SELECT FROM jsonb_array_elements(w.places) p WHERE (p.value ->> 'relation')::oid <> w.relation::oid)
$body$;

CREATE OR REPLACE FUNCTION headgate.base_type(type oid) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  WITH RECURSIVE base AS (
    SELECT t.oid, t.typtype, t.typbasetype FROM pg_type t WHERE t.oid = base_type.type
    UNION ALL
    SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd'
  )
  SELECT b.oid FROM base b WHERE b.typtype <> 'd'
$body$;

-- May a column take a whole body that arrives in this format?
CREATE OR REPLACE FUNCTION headgate.takes_body(a pg_attribute, format text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT headgate.base_type(a.atttypid) = ANY (CASE format
    WHEN 'text' THEN ARRAY['text', 'varchar']::regtype[]
    WHEN 'bytes' THEN ARRAY['bytea']::regtype[]
    ELSE ARRAY['jsonb', 'json']::regtype[] END)
$body$;

-- Columns that a row may fill and that are filled by nothing but its body. `includes`: and private columns, which only the owner's side fills.
CREATE OR REPLACE FUNCTION headgate.body_columns(relation oid, includes jsonb) RETURNS SETOF pg_attribute
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT a FROM pg_attribute a
  WHERE a.attrelid = body_columns.relation AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = '' AND a.attidentity <> 'a'
    AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(includes) i WHERE headgate.placed(body_columns.relation, i.value) = a.attname)
$body$;

-- Whether a sequence fills the column. Of a key no request fills such a column: the next number may be one that a request has named.
CREATE OR REPLACE FUNCTION headgate.is_numbered(a pg_attribute) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT a.attidentity <> '' OR EXISTS (
    SELECT FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%')
$body$;

-- The column that takes whole documents by default: the only one of its type, if every other column that the body could
-- fill has a value of its own. NULL: there is none, and keys fill the columns.
CREATE OR REPLACE FUNCTION headgate.natural_document(relation oid, includes jsonb, format text) RETURNS smallint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT min(b.attnum) FILTER (WHERE takes.body)
  FROM headgate.body_columns(relation, includes) b
  JOIN pg_type t ON t.oid = b.atttypid
  CROSS JOIN LATERAL headgate.takes_body(b, format) AS takes (body)
  HAVING count(*) FILTER (WHERE takes.body) = 1
    AND (count(*) = 1 OR format NOT IN ('text', 'bytes'))
    AND bool_and(takes.body OR b.atthasdef OR b.attidentity <> '' OR t.typdefaultbin IS NOT NULL)
$body$;

-- The places of the columns that no request fills.
CREATE OR REPLACE FUNCTION headgate.private_places(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT coalesce((SELECT w.places FROM headgate.webhook_private w WHERE w.relation = private_places.relation), '[]')
$body$;

-- Their names now; a column that no longer exists has none.
CREATE OR REPLACE FUNCTION headgate.private_columns(relation oid) RETURNS name[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT ARRAY(SELECT c.name FROM jsonb_array_elements(headgate.private_places(relation)) WITH ORDINALITY AS p (value, position)
    CROSS JOIN LATERAL headgate.placed(relation, p.value) AS c (name) WHERE c.name IS NOT NULL ORDER BY p.position)
$body$;

-- The places of the columns that the option private names; refuses columns that a request fills, or that nothing would.
CREATE OR REPLACE FUNCTION headgate.place_private(relation oid, includes jsonb, document jsonb, wanted jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  placed jsonb := '[]';
  wanted_name text;
  a pg_attribute;
BEGIN
  FOR wanted_name IN SELECT w.value FROM jsonb_array_elements_text(coalesce(wanted, '[]')) WITH ORDINALITY AS w (value, position) ORDER BY w.position LOOP
    SELECT t.* INTO a FROM pg_attribute t
    WHERE t.attrelid = place_private.relation AND t.attname = wanted_name::name AND t.attnum > 0 AND NOT t.attisdropped;
    IF a.attname IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column "%s" does not exist', wanted_name);
    ELSIF a.attname = headgate.placed(place_private.relation, document)
      OR EXISTS (SELECT FROM jsonb_array_elements(includes) i WHERE headgate.placed(place_private.relation, i.value) = a.attname)
    THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('column "%s" is filled from the request: it cannot be private', a.attname);
    ELSIF a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
      AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typdefaultbin IS NOT NULL)
    THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('the private column "%s" is NOT NULL and has no default: no request fills it', a.attname);
    END IF;
    placed := placed || headgate.place(a);
  END LOOP;
  IF NOT EXISTS (SELECT FROM headgate.body_columns(place_private.relation, includes || placed)) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a webhook table has a column that takes the body of the request';
  END IF;
  RETURN placed;
END
$body$;

-- Which column takes the whole document is decided once, when the table is created: a column that is added later never
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
    -- A column that somebody else was to fill makes the table one of columns, in which no document of before fits.
    SELECT min(b.attname) INTO unfilled FROM unnest(body) b JOIN pg_type t ON t.oid = b.atttypid
    WHERE NOT headgate.takes_body(b, format) AND NOT b.attnotnull AND NOT b.atthasdef AND b.attidentity = '' AND t.typdefaultbin IS NULL
    HAVING (SELECT count(*) FROM unnest(body) o WHERE headgate.takes_body(o, format)) = 1;
    IF unfilled IS NOT NULL AND format NOT IN ('text', 'bytes') THEN
      RAISE NOTICE USING
        MESSAGE = format('the keys of a document fill the columns of the same name, because "%s" has no default', unfilled),
        HINT = (SELECT format('To put whole documents into column "%1$s", add the option document = %2$L. Columns that no sender may set: private = %3$L.',
          b.attname, b.attname, quote_ident(unfilled)) FROM unnest(body) b WHERE headgate.takes_body(b, format));
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

-- The option that repeats what was decided when the table was created, if its columns alone might now lead to something else.
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

-- The place of the column that `collect_into` names; refuses a combination that cannot work.
CREATE OR REPLACE FUNCTION headgate.choose_collect(relation oid, includes jsonb, document jsonb, options jsonb) RETURNS jsonb
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

-- A key that is computed from a column that no row fills would otherwise be noticed only by the engine, when it is too late.
CREATE OR REPLACE PROCEDURE headgate.refuse_unfilled_key(relation oid, includes jsonb, document jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
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

-- Rows that come together are stored in one transaction, in which now() stands still: refuses a key that would be the same in all of them, and says if a part of it is.
CREATE OR REPLACE PROCEDURE headgate.refuse_repeated_key(relation regclass, placed jsonb, private jsonb, document jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  key record;
BEGIN
  SELECT bool_and(NOT k.varies AND NOT k.is_named) AS repeats, string_agg(format('"%s"', k.attname), ', ') FILTER (WHERE NOT k.varies AND k.is_stable) AS stable
  INTO key FROM (
    SELECT a.attname, called.is_stable,
      a.attgenerated <> '' OR a.attidentity <> '' OR called.is_volatile OR coalesce(document ->> 'column' = a.attname, false)
        OR EXISTS (SELECT FROM jsonb_array_elements(placed) p WHERE p.value ->> 'column' = a.attname) AS varies,
      document IS NULL AND EXISTS (
        SELECT FROM headgate.body_columns(refuse_repeated_key.relation, placed || private) b WHERE b.attnum = a.attnum) AS is_named
    FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    CROSS JOIN LATERAL (
      SELECT coalesce(bool_or(f.provolatile = 'v'), false) AS is_volatile,
        coalesce(bool_or(f.provolatile = 's'), false) OR coalesce(d.adbin::text LIKE '%{SQLVALUEFUNCTION %', false) AS is_stable
      FROM regexp_matches(d.adbin::text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') AS m
      JOIN pg_proc f ON f.oid = m[1]::oid) AS called
    WHERE i.indrelid = refuse_repeated_key.relation AND i.indisprimary) AS k;
  IF key.repeats THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'no request fills the primary key, and its default is the same for all rows of a transaction',
      HINT = 'Let the default differ by row, e.g. clock_timestamp(), gen_random_uuid() or a sequence.';
  ELSIF key.stable IS NOT NULL THEN
    RAISE NOTICE USING
      MESSAGE = format('the default of %s in the key of table "%s" is the same for all rows of a transaction: requests that come together may get one key', key.stable,
        (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
      HINT = 'Let the default differ by row, e.g. clock_timestamp() or gen_random_uuid().';
  END IF;
END
$body$;

-- Each INCLUDE with the place of its column; refuses a column that can never take the value.
CREATE OR REPLACE FUNCTION headgate.place_includes(relation oid, includes jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
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
    ELSIF include ->> 'what' = 'body' AND NOT headgate.takes_body(a, 'bytes') THEN
      RAISE EXCEPTION USING ERRCODE = '42804',
        MESSAGE = format('column "%s" is of type %s: INCLUDE BODY needs BYTEA', a.attname, format_type(a.atttypid, a.atttypmod));
    END IF;
    placed := placed || (include || headgate.place(a));
  END LOOP;
  RETURN placed;
END
$body$;
