-- The code of a table's owner runs with no more than the owner's rights: what Headgate compares before COMMIT.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog. Works on PostgreSQL 14 to 18.

-- As confirm(text, oid, text), which a Headgate of the version before still calls, for marks that cover triggers, checks,
-- rules, policies and index expressions too (catalog/owner-code.ts), and for the owner.
CREATE FUNCTION headgate.confirm(relation_name text, relation oid, mark text, owner oid) RETURNS void
LANGUAGE plpgsql STABLE AS $body$
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
-- Whether a role could do all that Headgate's can: it is that role, a superuser, or can become it, which versions before 16
-- allow to every member. Asked of the role that has logged in too: RESET ROLE leads to it.
CREATE FUNCTION headgate.trusts(owner oid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $body$
DECLARE
  becomes text := CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 160000
    THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  RETURN pg_catalog.pg_has_role(owner, current_user, becomes)
    AND (current_user OPERATOR(pg_catalog.=) session_user OR pg_catalog.pg_has_role(owner, session_user, becomes));
END
$body$;

-- Precedes rows: a lock on the table, and under it the question whether the name still
-- means the table and its owner is still the one that the catalog knew, and one that could do all that Headgate's role can.
-- Tells the number of the transaction. `patience`: NOWAIT, or empty.
CREATE FUNCTION headgate.hold(relation_name text, relation oid, owner oid) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
  becomes text := CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 160000
    THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', relation_name, ' IN ROW EXCLUSIVE MODE');
  IF pg_catalog.to_regclass(relation_name) OPERATOR(pg_catalog.=) relation
    AND EXISTS (
      SELECT FROM pg_catalog.pg_class c
      WHERE c.oid OPERATOR(pg_catalog.=) hold.relation AND c.relowner OPERATOR(pg_catalog.=) hold.owner)
    -- As headgate.trusts(owner), without another call for each group.
    AND pg_catalog.pg_has_role(owner, current_user, becomes)
    AND (current_user OPERATOR(pg_catalog.=) session_user OR pg_catalog.pg_has_role(owner, session_user, becomes))
  THEN
    RETURN pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id());
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'the table has changed since the request was checked';
END
$body$;

-- Lock and number alone, for a table that runs no code: whether it still is that table, and its owner the same, asks
-- headgate.stays() next. `patience`: empty, or NOWAIT, with 55P03 where somebody holds the table.
CREATE FUNCTION headgate.hold_inert(relation_name text, owner oid, patience text) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
  becomes text := CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 160000
    THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', relation_name, ' IN ROW EXCLUSIVE MODE ', patience);
  IF pg_catalog.pg_has_role(owner, current_user, becomes)
    AND (current_user OPERATOR(pg_catalog.=) session_user OR pg_catalog.pg_has_role(owner, session_user, becomes))
  THEN
    RETURN pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id());
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'the table has changed since the request was checked';
END
$body$;

-- As confirm, asked when a statement is planned and not when it runs. It is not immutable: it is called that so that the plan
-- keeps its answer. That is right in a statement that names the relation too, as a constant of type regclass: PostgreSQL throws
-- the plan away when anything about that relation has changed, and whoever holds a lock on it has heard of all changes.
CREATE FUNCTION headgate.stays(relation_name text, relation oid, mark text, owner oid) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
  PERFORM headgate.confirm(relation_name, relation, mark, owner);
  RETURN true;
END
$body$;

REVOKE EXECUTE ON FUNCTION headgate.confirm(text, oid, text, oid), headgate.hold(text, oid, oid),
  headgate.hold_inert(text, oid, text), headgate.stays(text, oid, text, oid), headgate.trusts(oid) FROM PUBLIC;

-- A search_path that does not name pg_temp begins with it, also for pg_catalog's own types and tables: a client's temporary
-- domain called regclass would be Headgate's role's code inside these functions.
DO $body$
DECLARE
  definer record;
BEGIN
  FOR definer IN
    SELECT p.oid::regprocedure AS signature FROM pg_proc p
    WHERE p.pronamespace = 'headgate'::regnamespace AND p.prosecdef AND p.prokind = 'f'
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', definer.signature);
  END LOOP;
END
$body$;

-- What decides whose code a table runs is noticed as well: what an owner is a member of, and the checks, triggers and
-- index expressions of the table.
ALTER FUNCTION headgate.catalog_fingerprint() RENAME TO table_fingerprint;
CREATE FUNCTION headgate.catalog_fingerprint() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT md5(concat_ws(';', headgate.table_fingerprint(), owners.rights, code.versions))
  FROM (
    SELECT string_agg(concat_ws(' ', o.relowner, headgate.trusts(o.relowner), pg_has_role(o.relowner, 'MEMBER'),
      has_database_privilege(current_database(), 'CREATE')),
      ',' ORDER BY o.relowner) AS rights
    FROM (
      SELECT c.relowner FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation
      UNION
      SELECT c.relowner FROM headgate.webhook_table w CROSS JOIN LATERAL pg_partition_tree(w.relation) AS p
      JOIN pg_class c ON c.oid = p.relid
    ) AS o
  ) AS owners, (
    SELECT string_agg(concat(found.oid, '/', found.version), ',' ORDER BY found.oid) AS versions
    FROM headgate.webhook_table w CROSS JOIN LATERAL (
      SELECT k.oid, k.xmin::text AS version FROM pg_constraint k WHERE k.conrelid = w.relation AND k.contype = 'c'
      UNION ALL
      SELECT t.oid, t.xmin::text FROM pg_trigger t WHERE t.tgrelid = w.relation
      UNION ALL
      SELECT i.indexrelid, i.xmin::text FROM pg_index i
      WHERE i.indrelid = w.relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    ) AS found
  ) AS code
$body$;
REVOKE EXECUTE ON FUNCTION headgate.catalog_fingerprint() FROM PUBLIC;
