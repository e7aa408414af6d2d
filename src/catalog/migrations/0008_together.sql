-- Rows of several tables in one transaction.
--
-- Run once, in one transaction, as Headgate's role, with search_path = pg_catalog. Works on PostgreSQL 14 to 18.

-- Stores documents in tables that run no code, of one JSONB column that is written: all of them, or none. Table i takes as many of the
-- documents, in order, as counts[i] says. Fails with 55P03 where somebody holds a table, and with HG001 where one of them is not
-- what its requests were checked for: asked as in headgate.hold_inert and headgate.confirm, of all tables at once.
CREATE FUNCTION headgate.store_together(
  names text[], columns text[], relations oid[], marks text[], owners oid[], counts int4[], documents jsonb[]
) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  becomes text := CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 160000
    THEN 'SET' ELSE 'MEMBER' END;
  spaces oid[];
  versions text;
  fit int8;
  next_document int4 := 1;
BEGIN
  EXECUTE pg_catalog.concat('LOCK TABLE ONLY ', pg_catalog.array_to_string(names, ', ONLY '), ' IN ROW EXCLUSIVE MODE NOWAIT');
  -- The lock holds a table's name, and its place in a schema; what the schema is called it does not hold.
  SELECT pg_catalog.array_agg(DISTINCT c.relnamespace) INTO spaces FROM pg_catalog.pg_class c
  WHERE c.oid OPERATOR(pg_catalog.=) ANY (relations);
  SELECT pg_catalog.string_agg(pg_catalog.concat(n.oid, '/', n.xmin), '.' ORDER BY n.oid) INTO versions
  FROM pg_catalog.pg_namespace n WHERE n.oid OPERATOR(pg_catalog.=) ANY (spaces);
  SELECT pg_catalog.count(*) INTO fit
  FROM ROWS FROM (pg_catalog.unnest(names), pg_catalog.unnest(relations), pg_catalog.unnest(marks), pg_catalog.unnest(owners))
    AS u (name, relation, mark, owner)
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) u.relation
  WHERE c.relowner OPERATOR(pg_catalog.=) u.owner
    AND pg_catalog.to_regclass(u.name)::pg_catalog.oid OPERATOR(pg_catalog.=) u.relation
    AND pg_catalog.concat_ws(' ', (
        SELECT pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0),
      c.relkind, c.relhasrules, c.relrowsecurity, c.relispartition,
      CASE WHEN c.relchecks OPERATOR(pg_catalog.>) 0 THEN (
        SELECT pg_catalog.string_agg(pg_catalog.concat(k.oid, '/', k.xmin), '.' ORDER BY k.oid) FROM pg_catalog.pg_constraint k
        WHERE k.conrelid OPERATOR(pg_catalog.=) c.oid AND k.contype OPERATOR(pg_catalog.=) 'c') END,
      CASE WHEN c.relhastriggers THEN (
        SELECT pg_catalog.string_agg(pg_catalog.concat(t.oid, '/', t.xmin), '.' ORDER BY t.oid) FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid OPERATOR(pg_catalog.=) c.oid) END,
      CASE WHEN c.relhasindex THEN (
        SELECT pg_catalog.string_agg(pg_catalog.concat(i.indexrelid, '/', i.xmin), '.' ORDER BY i.indexrelid)
        FROM pg_catalog.pg_index i WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid
          AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)) END) OPERATOR(pg_catalog.=) u.mark;
  IF fit OPERATOR(pg_catalog.<>) pg_catalog.cardinality(names) OR EXISTS (
    SELECT FROM (SELECT DISTINCT o.owner FROM pg_catalog.unnest(owners) AS o (owner)) AS o
    WHERE NOT (pg_catalog.pg_has_role(o.owner, current_user, becomes)
      AND (current_user OPERATOR(pg_catalog.=) session_user OR pg_catalog.pg_has_role(o.owner, session_user, becomes))))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'a table has changed since its requests were checked';
  END IF;
  FOR i IN 1 .. pg_catalog.cardinality(names) LOOP
    IF counts[i] OPERATOR(pg_catalog.=) 1 THEN
      EXECUTE pg_catalog.concat('INSERT INTO ', names[i], ' (', columns[i], ') VALUES ($1)') USING documents[next_document];
    ELSE
      EXECUTE pg_catalog.concat('INSERT INTO ', names[i], ' (', columns[i], ') SELECT $1[n] FROM pg_catalog.generate_series($2, $3) AS n')
      USING documents, next_document, next_document OPERATOR(pg_catalog.+) counts[i] OPERATOR(pg_catalog.-) 1;
    END IF;
    next_document := next_document OPERATOR(pg_catalog.+) counts[i];
  END LOOP;
  -- A schema that was renamed, and perhaps back again, may have led an INSERT elsewhere.
  IF versions OPERATOR(pg_catalog.=) (
    SELECT pg_catalog.string_agg(pg_catalog.concat(n.oid, '/', n.xmin), '.' ORDER BY n.oid)
    FROM pg_catalog.pg_namespace n WHERE n.oid OPERATOR(pg_catalog.=) ANY (spaces))
  THEN
    RETURN;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'HG001', MESSAGE = 'a schema has changed while rows were stored';
END
$body$;
REVOKE EXECUTE ON FUNCTION
  headgate.store_together(text[], text[], oid[], text[], oid[], int4[], jsonb[]) FROM PUBLIC;
