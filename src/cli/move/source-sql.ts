/**
 * Queries that read from the catalogs of a database the statements that recreate its objects, and what is left out. Every query runs
 * with `search_path = pg_catalog`, so that each name in its result is qualified. Texts only; they use `column_definition()` of the
 * schema `headgate`, as SHOW CREATE TABLE does.
 */
import { writerName } from '../../engine/login-names.ts';

/** Headgate's roles on an embedded engine: it creates them, or another one plays their part, and grants their rights. */
const ours = `(SELECT r.oid FROM pg_roles r WHERE r.rolname IN ('headgate_gateway', '${writerName}'))`;

/** The user's schemas: none of PostgreSQL's, of Headgate's, or of an extension's. */
const schemas = `
  mine AS (
    SELECT n.oid, n.nspname AS name FROM pg_namespace n
    WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'headgate', 'headgate_gateway', 'headgate_functions', 'headgate_move')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid AND d.deptype = 'e')),
  members AS (SELECT d.classid, d.objid FROM pg_depend d WHERE d.deptype = 'e'),
  relations AS (
    SELECT c.*, m.name AS schema, format('%I.%I', m.name, c.relname) AS full_name FROM pg_class c JOIN mine m ON m.oid = c.relnamespace
    WHERE NOT EXISTS (SELECT FROM members e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid)),
  types AS (
    SELECT t.*, format('%I.%I', m.name, t.typname) AS full_name FROM pg_type t JOIN mine m ON m.oid = t.typnamespace
    WHERE NOT EXISTS (SELECT FROM members e WHERE e.classid = 'pg_type'::regclass AND e.objid = t.oid)),
  functions AS (
    SELECT p.*, p.oid::regprocedure::text AS full_name FROM pg_proc p JOIN mine m ON m.oid = p.pronamespace
    -- Those of a range come with it.
    WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype IN ('e', 'i'))),
  -- Sequences that come with a column (SERIAL, identity) are made by it.
  sequences AS (
    SELECT r.full_name, s.* FROM relations r JOIN pg_sequence s ON s.seqrelid = r.oid WHERE NOT EXISTS (
      SELECT FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
        AND (d.deptype = 'i' OR (d.deptype = 'a' AND headgate.serial_name(a) IS NOT NULL))))`;

/**
 * Everything that must exist before rows can be stored. Returns rows (place, name, statement); statements of one place may depend on
 * each other.
 */
export const beforeRows = `
WITH ${schemas}
SELECT 1 AS place, format('schema %I', name) AS name, format('CREATE SCHEMA IF NOT EXISTS %I', name) AS statement FROM mine
UNION ALL
SELECT 2, format('extension %I', e.extname), format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I', e.extname, n.nspname)
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname <> 'plpgsql'
UNION ALL
SELECT 3, 'type ' || t.full_name, format('CREATE TYPE %s AS ENUM (%s)', t.full_name,
  (SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder) FROM pg_enum l WHERE l.enumtypid = t.oid))
FROM types t WHERE t.typtype = 'e'
UNION ALL
SELECT 3, 'domain ' || t.full_name, format('CREATE DOMAIN %s AS %s', t.full_name, format_type(t.typbasetype, t.typtypmod))
  || coalesce((SELECT format(' COLLATE %I.%I', n.nspname, l.collname) FROM pg_type b, pg_collation l
      JOIN pg_namespace n ON n.oid = l.collnamespace
      WHERE b.oid = t.typbasetype AND l.oid = t.typcollation AND t.typcollation <> b.typcollation), '')
  || coalesce(' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), '') || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
  || coalesce((SELECT string_agg(format(' CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)), '' ORDER BY k.conname)
      FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'), '')
FROM types t WHERE t.typtype = 'd'
UNION ALL
SELECT 3, 'type ' || r.full_name, format('CREATE TYPE %s AS (%s)', r.full_name, (
  SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || coalesce((
      SELECT format(' COLLATE %I.%I', n.nspname, l.collname) FROM pg_type b, pg_collation l
      JOIN pg_namespace n ON n.oid = l.collnamespace
      WHERE b.oid = a.atttypid AND l.oid = a.attcollation AND a.attcollation <> b.typcollation), ''), ', ' ORDER BY a.attnum)
  FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped))
FROM relations r WHERE r.relkind = 'c'
UNION ALL
SELECT 3, 'function ' || f.full_name, pg_get_functiondef(f.oid) FROM functions f WHERE f.prokind IN ('f', 'p')
UNION ALL
SELECT 3, 'sequence ' || s.full_name, format('CREATE SEQUENCE %s AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s',
  s.full_name, s.seqtypid::regtype, s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache,
  CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END)
FROM sequences s
UNION ALL
SELECT 3, 'table ' || r.full_name, format('CREATE %sTABLE %s (%s)%s',
  CASE r.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, r.full_name,
  (SELECT string_agg(p.text, ', ' ORDER BY p.kind, p.place, p.text) FROM (
    SELECT 1 AS kind, a.attnum::int AS place, headgate.column_definition(a) AS text FROM pg_attribute a
    WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 2, 0, format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)) FROM pg_constraint k
    WHERE k.conrelid = r.oid AND (k.contype = 'p' OR (k.contype = 'c' AND k.convalidated))) p),
  coalesce(' WITH (' || (SELECT string_agg(o, ', ') FROM unnest(r.reloptions) o) || ')', ''))
FROM relations r WHERE r.relkind = 'r'
ORDER BY 1, 2`;

/** Created after most rows are copied, because that is faster. */
export const keysAndIndexes = `
WITH ${schemas}
SELECT 1 AS place, format('constraint %I of %s', k.conname, r.full_name) AS name,
  format('ALTER TABLE %s ADD CONSTRAINT %I %s', r.full_name, k.conname, pg_get_constraintdef(k.oid)) AS statement
FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid WHERE r.relkind = 'r' AND k.contype IN ('u', 'x')
UNION ALL
SELECT 2, 'index ' || i.indexrelid::regclass, pg_get_indexdef(i.indexrelid) FROM relations r JOIN pg_index i ON i.indrelid = r.oid
WHERE r.relkind = 'r' AND i.indisvalid AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
ORDER BY 1, 2`;

/**
 * Created after all rows are copied, (place, name, statement, role): `role` must exist in the target. The role that Headgate uses in
 * the source is CURRENT_USER in the target.
 */
export const afterRows = `
WITH ${schemas},
objects AS (
  SELECT 'pg_class'::regclass AS classid, r.oid, r.full_name, r.relowner AS owner, r.relacl AS acl, NULL::"char" AS defaults,
    CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS word, CASE r.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS own_word,
    r.relkind = 'S' AND NOT EXISTS (SELECT FROM sequences s WHERE s.seqrelid = r.oid) AS of_column
  FROM relations r WHERE r.relkind IN ('r', 'v', 'S')
  UNION ALL
  SELECT 'pg_namespace'::regclass, n.oid, quote_ident(n.nspname), n.nspowner, n.nspacl, NULL, 'SCHEMA', 'SCHEMA', false
  FROM pg_namespace n JOIN mine m ON m.oid = n.oid WHERE n.nspname <> 'public'
  UNION ALL
  SELECT 'pg_proc'::regclass, f.oid, f.full_name, f.proowner, f.proacl, 'f', CASE f.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
    CASE f.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, false
  FROM functions f WHERE f.prokind IN ('f', 'p')
  UNION ALL
  SELECT 'pg_type'::regclass, t.oid, t.full_name, t.typowner, t.typacl, 'T', 'TYPE', CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, false
  FROM types t WHERE t.typtype IN ('e', 'd') OR EXISTS (SELECT FROM relations r WHERE r.oid = t.typrelid AND r.relkind = 'c')),
grantees AS (
  SELECT o.*, g.privilege_type, g.is_grantable, NULL::name AS attname, g.grantee FROM objects o, aclexplode(o.acl) g WHERE g.grantee <> o.owner AND g.grantee NOT IN ${ours}
  UNION ALL
  SELECT o.*, g.privilege_type, g.is_grantable, a.attname, g.grantee FROM objects o
  JOIN pg_attribute a ON o.classid = 'pg_class'::regclass AND a.attrelid = o.oid AND a.attacl IS NOT NULL, aclexplode(a.attacl) g WHERE g.grantee <> o.owner AND g.grantee NOT IN ${ours})
SELECT 1 AS place, 'view ' || r.full_name AS name, format('CREATE VIEW %s%s AS %s', r.full_name,
  coalesce(' WITH (' || (SELECT string_agg(o, ', ') FROM unnest(r.reloptions) o) || ')', ''), pg_get_viewdef(r.oid)) AS statement, NULL::name AS role
FROM relations r WHERE r.relkind = 'v'
UNION ALL
SELECT 2, format('constraint %I of %s', k.conname, r.full_name),
  format('ALTER TABLE %s ADD CONSTRAINT %I %s', r.full_name, k.conname, pg_get_constraintdef(k.oid)), NULL
FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid
WHERE r.relkind = 'r' AND (k.contype = 'f' OR (k.contype = 'c' AND NOT k.convalidated))
UNION ALL
SELECT 2, format('trigger %I of %s', t.tgname, r.full_name), pg_get_triggerdef(t.oid) || CASE t.tgenabled
  WHEN 'D' THEN format('; ALTER TABLE %s DISABLE TRIGGER %I', r.full_name, t.tgname)
  WHEN 'R' THEN format('; ALTER TABLE %s ENABLE REPLICA TRIGGER %I', r.full_name, t.tgname)
  WHEN 'A' THEN format('; ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', r.full_name, t.tgname) ELSE '' END, NULL
FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
UNION ALL
SELECT 3, format('comment on %s %s', i.type, i.identity), format('COMMENT ON %s %s IS %L',
  CASE WHEN i.type LIKE '% column' THEN 'COLUMN' WHEN i.type = 'table constraint' THEN 'CONSTRAINT' WHEN i.type = 'domain constraint' THEN 'CONSTRAINT'
    WHEN i.type = 'composite type' THEN 'TYPE' ELSE upper(i.type) END, i.identity, d.description), NULL
FROM pg_description d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
WHERE (d.classoid = 'pg_class'::regclass AND d.objoid IN (SELECT oid FROM relations))
  OR (d.classoid = 'pg_type'::regclass AND d.objoid IN (SELECT oid FROM types))
  OR (d.classoid = 'pg_proc'::regclass AND d.objoid IN (SELECT oid FROM functions WHERE prokind IN ('f', 'p')))
  OR (d.classoid = 'pg_namespace'::regclass AND d.objoid IN (SELECT oid FROM mine WHERE name <> 'public'))
  OR (d.classoid = 'pg_constraint'::regclass AND d.objoid IN (SELECT k.oid FROM pg_constraint k JOIN relations r ON r.oid = k.conrelid AND r.relkind = 'r' AND k.contype <> 'n'))
  OR (d.classoid = 'pg_trigger'::regclass AND d.objoid IN (SELECT t.oid FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal))
UNION ALL
-- Functions and types are everybody's unless somebody took that away.
SELECT 4, format('rights on %s', o.full_name), format('REVOKE ALL ON %s %s FROM PUBLIC', o.word, o.full_name), NULL
FROM objects o WHERE o.defaults IS NOT NULL AND o.acl IS NOT NULL
UNION ALL
SELECT 5, format('rights on %s', g.full_name), format('GRANT %s%s ON %s %s TO %s%s', g.privilege_type, coalesce(' (' || quote_ident(g.attname) || ')', ''),
  g.word, g.full_name, CASE WHEN g.grantee = 0 THEN 'PUBLIC' WHEN a.rolname = current_user THEN 'CURRENT_USER' ELSE quote_ident(a.rolname) END,
  CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), nullif(a.rolname, current_user)
FROM grantees g LEFT JOIN pg_roles a ON a.oid = g.grantee WHERE NOT g.of_column AND g.privilege_type <> 'MAINTAIN'
UNION ALL
SELECT 6, format('owner of %s', o.full_name), format('ALTER %s %s OWNER TO %I', o.own_word, o.full_name, a.rolname), a.rolname
FROM objects o JOIN pg_roles a ON a.oid = o.owner WHERE a.rolname <> current_user AND NOT o.of_column
ORDER BY 1, 2, 3`;

/** What is not moved, one line each. */
export const leftOut = `
WITH ${schemas}
SELECT format('%s %s', CASE r.relkind WHEN 'm' THEN 'materialized view' WHEN 'p' THEN 'partitioned table' WHEN 'f' THEN 'foreign table' END, r.full_name) AS what
FROM relations r WHERE r.relkind IN ('m', 'p', 'f')
UNION ALL
SELECT format('inheritance of table %s', r.full_name) FROM relations r WHERE r.relkind = 'r'
  AND EXISTS (SELECT FROM pg_inherits h WHERE r.oid IN (h.inhrelid, h.inhparent))
UNION ALL
SELECT format('row security of table %s', r.full_name) FROM relations r WHERE r.relkind = 'r' AND r.relrowsecurity
UNION ALL
SELECT format('rule %I of %s', w.rulename, r.full_name) FROM relations r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT format('range type %s', t.full_name) FROM types t WHERE t.typtype = 'r'
UNION ALL
SELECT format('%s %s', CASE f.prokind WHEN 'a' THEN 'aggregate' ELSE 'window function' END, f.full_name) FROM functions f WHERE f.prokind IN ('a', 'w')
UNION ALL
SELECT format('operator %s', o.oid::regoperator) FROM pg_operator o JOIN mine m ON m.oid = o.oprnamespace
  WHERE NOT EXISTS (SELECT FROM members e WHERE e.classid = 'pg_operator'::regclass AND e.objid = o.oid)
UNION ALL
SELECT format('collation %I.%I', m.name, l.collname) FROM pg_collation l JOIN mine m ON m.oid = l.collnamespace
UNION ALL
SELECT format('text search configuration %I.%I', m.name, x.cfgname) FROM pg_ts_config x JOIN mine m ON m.oid = x.cfgnamespace
UNION ALL
SELECT format('extended statistics %I.%I', m.name, x.stxname) FROM pg_statistic_ext x JOIN mine m ON m.oid = x.stxnamespace
UNION ALL
SELECT format('event trigger %I', t.evtname) FROM pg_event_trigger t WHERE t.evtname NOT IN ('headgate_ddl', 'headgate_drop', 'headgate_gateway')
  AND NOT EXISTS (SELECT FROM members e WHERE e.classid = 'pg_event_trigger'::regclass AND e.objid = t.oid)
UNION ALL
SELECT format('publication %I', p.pubname) FROM pg_publication p
UNION ALL
SELECT 'large objects' WHERE EXISTS (SELECT FROM pg_largeobject_metadata)
UNION ALL
SELECT 'default privileges' WHERE EXISTS (
  SELECT FROM pg_default_acl d, aclexplode(d.defaclacl) g WHERE g.grantee <> d.defaclrole AND g.grantee NOT IN ${ours})
ORDER BY 1`;

/** What the target has to have room for: rows (kind, name, schema). An owner has something in that schema. */
export const wantedThere = `
WITH ${schemas}
SELECT 'schema' AS kind, m.name::text, m.name::text AS schema FROM mine m
UNION ALL SELECT 'extension', e.extname::text, n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname <> 'plpgsql'
UNION ALL SELECT 'relation', r.full_name, r.schema::text FROM relations r WHERE r.relkind IN ('r', 'v', 'S')
UNION ALL SELECT 'virtual column', format('%s.%I', r.full_name, a.attname), r.schema::text FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid
  WHERE r.relkind = 'r' AND NOT a.attisdropped AND a.attgenerated = 'v'
UNION SELECT 'owner', a.rolname::text, o.schema::text FROM (
    SELECT r.relowner, r.schema FROM relations r WHERE r.relkind IN ('r', 'v', 'S')
    UNION SELECT f.proowner, m.name FROM functions f JOIN mine m ON m.oid = f.pronamespace
    UNION SELECT t.typowner, m.name FROM types t JOIN mine m ON m.oid = t.typnamespace) AS o (owner, schema)
  JOIN pg_roles a ON a.oid = o.owner WHERE a.rolname <> current_user
ORDER BY 1, 2`;

/** The tables, with the columns that COPY may write and the columns of the primary key. */
export const tables = `
WITH ${schemas}
SELECT r.full_name AS name, r.oid::int8::text AS oid,
  ARRAY(SELECT quote_ident(a.attname) FROM pg_attribute a
    WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum) AS columns,
  ARRAY(SELECT quote_ident(a.attname) FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = ANY (k.conkey)
    WHERE k.conrelid = r.oid AND k.contype = 'p') AS key
FROM relations r WHERE r.relkind = 'r' ORDER BY 1`;

/** The position of every sequence, as the statement that sets the other one to it. */
export const sequenceValues = `
WITH ${schemas},
owned AS (
  SELECT r.oid, pg_get_serial_sequence(t.full_name, a.attname) AS sequence, t.full_name AS table_name, a.attname
  FROM relations r JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
  JOIN relations t ON t.oid = d.refobjid JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
  WHERE r.relkind = 'S' AND r.oid NOT IN (SELECT seqrelid FROM sequences))
SELECT o.sequence AS name, format('pg_get_serial_sequence(%L, %L)', o.table_name, o.attname) AS there FROM owned o
UNION ALL
SELECT s.full_name, quote_literal(s.full_name) FROM sequences s
ORDER BY 1`;
