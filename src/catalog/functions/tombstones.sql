-- Tables whose rows replace only older ones (the option version).

-- Whether the current role may see and leave tombstones of a table: whoever may replace any of its rows, and so could keep newer ones out anyway.
CREATE OR REPLACE FUNCTION headgate.may_bury(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT pg_has_role(c.relowner, 'USAGE')
    OR has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND NOT row_security_active(c.oid)
  FROM pg_class c WHERE c.oid = may_bury.relation
$body$;

-- Refuses what relations/newest.ts could not use. `places`: [{column} | {header} | {path, type}]; NULL: rows have no version.
CREATE OR REPLACE FUNCTION headgate.refuse_unversioned(relation regclass, places jsonb, includes jsonb, document jsonb, options jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  keys int2[] := (SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary);
  place jsonb;
  it pg_attribute;
  wrong name;
BEGIN
  IF places IS NULL THEN
    RETURN;
  ELSIF EXISTS (SELECT FROM headgate.webhook_into i WHERE i.relation = refuse_unversioned.relation) OR options ? 'into' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'version is not supported for a table whose rows go elsewhere';
  ELSIF coalesce(options ->> 'distribute', 'off') <> 'off' OR EXISTS (
    SELECT FROM jsonb_each(headgate.distribution(relation)) d WHERE d.key = 'distribute')
  THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'version is not supported for a table that Citus distributes';
  ELSIF keys IS NULL OR EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = ANY (keys) AND a.attgenerated = ''
      AND (headgate.is_numbered(a) OR document IS NOT NULL AND a.attname <> document ->> 'column'
        AND NOT EXISTS (SELECT FROM jsonb_array_elements(includes) i WHERE i.value ->> 'column' = a.attname)))
  THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'version needs a primary key that a request fills',
      HINT = 'Rows are found by their key, and only an older row is replaced.';
  END IF;
  -- Of a deleted row a digest of its key's text is remembered: equal keys have equal texts.
  SELECT a.attname INTO wrong FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
  WHERE a.attrelid = relation AND a.attnum = ANY (keys) AND (NOT coalesce(l.collisdeterministic, true) OR headgate.base_type(a.atttypid) <> ALL (
    '{bool,int8,int2,int4,text,bpchar,varchar,date,timestamp,timestamptz,numeric,uuid}'::regtype[]))
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('version does not work with the type, or the collation, of the key''s column "%s"', wrong);
  END IF;
  FOR place IN SELECT p.value FROM jsonb_array_elements(places) p LOOP
    SELECT a.* INTO it FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = (CASE
      WHEN place ? 'header' THEN (SELECT i.value ->> 'column' FROM jsonb_array_elements(includes) i
        WHERE i.value ->> 'what' = 'header' AND lower(i.value ->> 'header') = place ->> 'header' LIMIT 1)
      WHEN place ? 'column' THEN place ->> 'column'
      WHEN document IS NOT NULL THEN document ->> 'column'
      ELSE place #>> '{path,0}' END)::name;
    IF it.attname IS NULL AND place ? 'header' THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('no column is filled from the header "%s"', place ->> 'header'),
        HINT = format('Add INCLUDE HEADER ''%s'' AS column, with a column of the type that it is compared as.', place ->> 'header');
    ELSIF it.attname IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('version: column "%s" does not exist', coalesce(place ->> 'column', place #>> '{path,0}')),
        HINT = 'A value of the document is written $.member::numeric, with the type that it is compared as.';
    ELSIF it.attgenerated <> '' OR it.attidentity = 'a' THEN
      RAISE EXCEPTION USING ERRCODE = '428C9', MESSAGE = format('version: column "%s" is generated', it.attname),
        HINT = 'A value of the document is written $.member::numeric, with the type that it is compared as.';
    ELSIF document IS NOT NULL AND it.attname <> document ->> 'column'
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(includes) i WHERE i.value ->> 'column' = it.attname)
    THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('version: no request fills column "%s"', it.attname),
        HINT = 'A value of the document is written $.member::numeric, with the type that it is compared as.';
    ELSIF it.attnum = ANY (keys) THEN
      RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('version: column "%s" is part of the primary key', it.attname);
    ELSIF place ? 'path' AND (headgate.base_type(it.atttypid) <> 'jsonb'::regtype OR document IS NULL AND jsonb_array_length(place -> 'path') = 1) THEN
      RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('version: there is no such place in column "%s"', it.attname),
        HINT = 'A path leads into a JSONB column; other columns are written by their names alone.';
    ELSIF NOT place ? 'path' AND headgate.base_type(it.atttypid) <> ALL (
      '{int8,int2,int4,text,varchar,date,timestamp,timestamptz,numeric,uuid,pg_lsn}'::regtype[])
    THEN
      RAISE EXCEPTION USING ERRCODE = '42804',
        MESSAGE = format('version: column "%s" is of type %s', it.attname, format_type(it.atttypid, it.atttypmod)),
        HINT = 'Integers, NUMERIC, dates and times, TEXT, UUID and PG_LSN can be compared.';
    END IF;
  END LOOP;
END
$body$;
