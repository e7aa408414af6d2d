-- Columns that take the request itself: the bytes of its body, method, path, query, and whose it was.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog, pg_temp. Works on PostgreSQL 14 to 18.

CREATE OR REPLACE FUNCTION headgate.are_includes(includes jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT jsonb_typeof(includes) = 'array' AND coalesce(bool_and(
    headgate.is_place(i.value)
    AND i.value ->> 'what' IN ('header', 'headers', 'timestamp', 'body', 'method', 'path', 'query', 'remote address')
    AND (i.value ->> 'what' <> 'header' OR jsonb_typeof(i.value -> 'header') = 'string') IS TRUE), true)
  FROM jsonb_array_elements(includes) i
$body$;

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
