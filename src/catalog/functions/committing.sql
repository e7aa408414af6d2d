-- What Headgate asks of a table in the transactions that store its requests. A function without a SET clause qualifies every
-- name instead, because it runs once per group.

-- Until the end of the transaction. Tables of other owners share it, and one of them may make a transaction wait for a row of its own: whoever waits for
-- longer goes without, and a circle then ends as PostgreSQL ends it.
CREATE OR REPLACE FUNCTION headgate.lock_keys(relation bigint, alone boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $body$
BEGIN
  EXECUTE pg_catalog.format('LOCK TABLE headgate.commit_lock_%s IN %s MODE', relation OPERATOR(pg_catalog.%) 32,
    CASE WHEN alone THEN 'EXCLUSIVE' ELSE 'ROW SHARE' END);
EXCEPTION WHEN lock_not_available THEN
  NULL;
END
$body$;

-- How rows that may conflict with others are stored in a table that Citus distributes: `decoded` turns the documents into a list of values, and that
-- list is what is sent to Citus.
CREATE OR REPLACE FUNCTION headgate.store_values(place text, decoded text, conflict text, documents json, code_path text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  list text;
BEGIN
  -- The list is read as what it was.
  PERFORM pg_catalog.set_config(s.name, s.value, true) FROM (VALUES ('DateStyle', 'ISO'), ('bytea_output', 'hex'),
    ('extra_float_digits', '1'), ('array_nulls', 'on')) AS s (name, value);
  EXECUTE decoded INTO list USING documents, code_path;
  EXECUTE pg_catalog.concat(place, ' values ', list, conflict);
END
$body$;
