-- What Headgate asks of a table in the transactions that store its requests. A function without a SET clause qualifies every
-- name instead, because it runs once per group.

-- The last statement of a transaction that stores requests, if no other has asked this: is the table still the one that they were checked
-- and written for? The COPY before it holds a lock on the table, so the answer stays true until COMMIT. `mark` covers columns, triggers,
-- checks and index expressions, and whether there are rules or row-level security (relations/owner-code.ts). The function is volatile, so
-- that it sees what is committed when it is called: the calling statement may have waited for the lock, and its own snapshot is older.
CREATE OR REPLACE FUNCTION headgate.confirm(relation_name text, relation oid, mark text, owner oid) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  base text;
  has_checks boolean;
  has_triggers boolean;
  has_index boolean;
  checks text;
  triggers text;
  indexes text;
BEGIN
  SELECT pg_catalog.concat_ws(' ', (
      SELECT pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
      WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0),
      c.relkind, c.relhasrules, c.relrowsecurity, c.relispartition),
    c.relchecks OPERATOR(pg_catalog.>) 0, c.relhastriggers, c.relhasindex
  INTO base, has_checks, has_triggers, has_index
  FROM pg_catalog.pg_class c JOIN headgate.webhook_table w ON w.relation OPERATOR(pg_catalog.=) c.oid
  WHERE c.oid OPERATOR(pg_catalog.=) confirm.relation AND c.relowner OPERATOR(pg_catalog.=) confirm.owner;
  -- Each is a query of its own: most tables have few of these, and the engine prepares for all that one query might read.
  IF has_checks THEN
    SELECT pg_catalog.string_agg(pg_catalog.concat(k.oid, '/', k.xmin), '.' ORDER BY k.oid) INTO checks FROM pg_catalog.pg_constraint k
    WHERE k.conrelid OPERATOR(pg_catalog.=) confirm.relation AND k.contype OPERATOR(pg_catalog.=) 'c';
  END IF;
  IF has_triggers THEN
    SELECT pg_catalog.string_agg(pg_catalog.concat(t.oid, '/', t.xmin), '.' ORDER BY t.oid) INTO triggers FROM pg_catalog.pg_trigger t
    WHERE t.tgrelid OPERATOR(pg_catalog.=) confirm.relation;
  END IF;
  IF has_index THEN
    SELECT pg_catalog.string_agg(pg_catalog.concat(i.indexrelid, '/', i.xmin), '.' ORDER BY i.indexrelid) INTO indexes FROM pg_catalog.pg_index i
    WHERE i.indrelid OPERATOR(pg_catalog.=) confirm.relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL);
  END IF;
  IF pg_catalog.to_regclass(relation_name) OPERATOR(pg_catalog.=) relation
    AND base IS NOT NULL AND pg_catalog.concat_ws(' ', base, checks, triggers, indexes) OPERATOR(pg_catalog.=) mark
  THEN
    RETURN;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'the table has changed since the request was checked';
END
$body$;

-- As confirm, evaluated when a statement is planned and not when it runs. It is not immutable, but declared so, so that the plan
-- keeps its result. That is correct in a statement that also writes into the relation: PostgreSQL discards
-- the plan when anything about that relation has changed, and a session that holds a lock on it has been told of all changes.
CREATE OR REPLACE FUNCTION headgate.stays(relation_name text, relation oid, mark text, owner oid) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
  PERFORM headgate.confirm(relation_name, relation, mark, owner);
  RETURN true;
END
$body$;

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
