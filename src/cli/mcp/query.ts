/**
 * One SELECT of an agent, with the rights of the role. Takes its text, returns its rows; it runs in a transaction that only reads, on a
 * connection of its own. Refuses (PlainError) several statements, statements other than SELECT, and code (`codeOf`): volatile functions, of which
 * some act outside the transaction (pg_terminate_backend, pg_advisory_lock, dblink) and others run text as SQL (query_to_xml), and code of roles
 * that this role is no member of, which would run with its rights, whatever it says of itself. The error says which one it was.
 *
 * A role that could act outside the database with a SELECT has no such tool (`whyNoQuery`).
 */
import { limits } from '../../config/limits.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { loadParser, parseStatements } from '../../validate/parser.ts';
import type { CommandSession } from '../session.ts';
import { fetched } from './fetched.ts';
import type { ToolResult } from './server.ts';

/** Volatile, and harmless. */
const harmless = ['random', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'clock_timestamp', 'timeofday'];

/** They read tables or their definitions, or values of types, that they are given the names of. */
const readers =
  '^(?:(?:table|schema|database)_to_xml|pg_input_|(?:domain|record|array|range|multirange)_(?:in|recv)$|pg_get_partition_constraintdef$|satisfies_hash_partition$)';

/** Operators that a query uses without naming them, and where. */
const implied = ['=', '<', '<=', '>', '>='];
const implying = /^(?:CaseExpr|SubLink|usingClause|isNatural|AEXPR_(?:NOT_)?BETWEEN(?:_SYM)?)$/;

/** Why a role gets no `query`; null: it does. Superusers are members of every role. */
export async function whyNoQuery(session: CommandSession): Promise<string | null> {
  const [row] = await session.rows(`SELECT (
  SELECT r.rolname::text FROM pg_catalog.pg_roles r
  WHERE pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')
    AND (r.rolsuper OR r.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
      OR r.oid = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'headgate'))
  ORDER BY r.rolname LIMIT 1) AS role`);
  const role = row?.['role'] ?? null;
  return role === null ? null : `the role is ${role}, or may become it`;
}

/** The first oid of what users make (FirstNormalObjectId): casts between two types of PostgreSQL's own are its own. */
const firstUserOid = 16_384;

/** Types in the tree of an expression, and what it calls. */
const inTrees = ':(funcid|aggfnoid|winfnoid|opno|\\w*type(?:id)?) (\\d+)';

/**
 * Code that a query would run: names ($1 to $3) are looked up in their schema or, without one, in those of the search_path ($4), by name alone; a function may
 * also be a type, to which `type(value)` and `(value).type` cast. Relations are followed to those behind views, and to partitions and parents. Of those of
 * other roles, all counts that PostgreSQL runs when it plans or reads them: views, policies, constraints, and expressions of indexes, of CREATE STATISTICS and of
 * partition keys. Of types, with those that they consist of, what runs without being named: casts (to_json), domains' checks
 * (json_populate_record), and what estimates ranges. Of a view of a role that this one is a member of, the owner knew what it calls.
 */
const codeOf = `WITH RECURSIVE trusted AS (SELECT r.oid FROM pg_catalog.pg_roles r
  WHERE r.rolsuper OR r.oid = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'headgate') OR pg_has_role(session_user, r.oid, 'MEMBER')
    AND NOT (SELECT m.rolsuper FROM pg_catalog.pg_roles m WHERE m.rolname = session_user)),
named AS (SELECT n.kind, n.name, s.oid AS schema FROM unnest($1::text[], $2::text[], $3::text[]) n(kind, schema, name)
  JOIN pg_catalog.pg_namespace s ON s.nspname = n.schema OR (n.schema IS NULL AND s.nspname = ANY ($4::text[]))),
relations AS (SELECT c.oid FROM named n JOIN pg_catalog.pg_class c ON n.kind = 'relation' AND c.relname = n.name AND c.relnamespace = n.schema
  UNION SELECT f.oid FROM relations r CROSS JOIN LATERAL (
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = r.oid
    UNION ALL SELECT i.inhparent FROM pg_catalog.pg_inherits i WHERE i.inhrelid = r.oid
    UNION ALL SELECT m[1]::oid FROM (
      SELECT ev_action::text FROM pg_catalog.pg_rewrite WHERE ev_class = r.oid UNION ALL SELECT polqual::text FROM pg_catalog.pg_policy WHERE polrelid = r.oid
    ) AS t(tree) CROSS JOIN LATERAL regexp_matches(t.tree, ':relid (\\d+)', 'g') m) AS f(oid)),
others AS (SELECT c.* FROM relations r JOIN pg_catalog.pg_class c ON c.oid = r.oid WHERE c.relowner NOT IN (SELECT oid FROM trusted)),
found AS (SELECT m[1] AS what, m[2]::oid AS oid FROM others o CROSS JOIN LATERAL (
    SELECT ev_action::text FROM pg_catalog.pg_rewrite WHERE ev_class = o.oid
    UNION ALL SELECT polqual::text FROM pg_catalog.pg_policy WHERE polrelid = o.oid
    UNION ALL SELECT conbin::text FROM pg_catalog.pg_constraint WHERE conrelid = o.oid AND contype = 'c'
    UNION ALL SELECT concat(indexprs, indpred) FROM pg_catalog.pg_index WHERE indrelid = o.oid
    UNION ALL SELECT stxexprs::text FROM pg_catalog.pg_statistic_ext WHERE stxrelid = o.oid
    UNION ALL SELECT partexprs::text FROM pg_catalog.pg_partitioned_table WHERE partrelid = o.oid) AS t(tree)
  CROSS JOIN LATERAL regexp_matches(t.tree, '${inTrees}', 'g') m),
given AS (SELECT DISTINCT t.oid, t.typname, t.typnamespace, t.typowner FROM named n JOIN pg_catalog.pg_type t ON t.typname = n.name AND t.typnamespace = n.schema
    AND (n.kind = 'type' OR n.kind IN ('function', 'column') AND t.typrelid = 0)
  UNION SELECT t.oid, t.typname, t.typnamespace, t.typowner FROM found f JOIN pg_catalog.pg_type t ON t.oid = f.oid WHERE f.what IN ('resulttype', 'typid')),
types AS (SELECT a.atttypid AS oid FROM relations r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
  UNION SELECT c.reltype FROM relations r JOIN pg_catalog.pg_class c ON c.oid = r.oid
  UNION SELECT f.oid FROM found f WHERE f.what LIKE '%type%' OR f.what = 'typid' UNION SELECT g.oid FROM given g
  UNION SELECT p.oid FROM types t JOIN pg_catalog.pg_type y ON y.oid = t.oid CROSS JOIN LATERAL (
    SELECT y.typelem UNION ALL SELECT y.typbasetype
    UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0
    UNION ALL SELECT unnest(ARRAY[g.rngsubtype, g.rngtypid]) FROM pg_catalog.pg_range g WHERE y.oid IN (g.rngtypid, g.rngmultitypid)) AS p(oid)),
checked AS (SELECT m[1] AS what, m[2]::oid AS oid FROM types t JOIN pg_catalog.pg_type y ON y.oid = t.oid
  JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c'
  CROSS JOIN LATERAL regexp_matches(k.conbin::text, '${inTrees}', 'g') m WHERE y.typowner NOT IN (SELECT oid FROM trusted)),
operators AS (SELECT o.oid, o.oprname, o.oprnamespace, o.oprowner, o.oprcode FROM named n JOIN pg_catalog.pg_operator o
    ON n.kind = 'operator' AND o.oprname = n.name AND o.oprnamespace = n.schema
  UNION SELECT o.oid, o.oprname, o.oprnamespace, o.oprowner, o.oprcode FROM (TABLE found UNION ALL TABLE checked) f
    JOIN pg_catalog.pg_operator o ON f.what = 'opno' AND o.oid = f.oid),
functions AS (SELECT p.oid FROM named n JOIN pg_catalog.pg_proc p ON p.proname = n.name AND p.pronamespace = n.schema
    AND (n.kind = 'function' OR (n.kind = 'column' AND p.pronargs - p.pronargdefaults <= 1 AND p.pronargs > 0))
  UNION SELECT oprcode::oid FROM operators
  UNION SELECT oid FROM (TABLE found UNION ALL TABLE checked) f WHERE what IN ('funcid', 'aggfnoid', 'winfnoid')
  UNION SELECT p.oid FROM types t CROSS JOIN LATERAL (
      SELECT k.castfunc FROM pg_catalog.pg_cast k WHERE k.castsource = t.oid UNION ALL SELECT k.castfunc FROM pg_catalog.pg_cast k WHERE k.casttarget = t.oid
      UNION ALL SELECT unnest(ARRAY[g.rngsubdiff::oid, g.rngcanonical::oid]) FROM pg_catalog.pg_range g WHERE g.rngtypid = t.oid) AS f(oid)
    JOIN pg_catalog.pg_proc p ON p.oid = f.oid WHERE t.oid >= ${firstUserOid} AND p.proowner NOT IN (SELECT oid FROM trusted))
SELECT format('the function %s is volatile: a query may call only others', p.proname) AS why
  FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid WHERE p.provolatile = 'v' AND p.proname <> ALL ($5::text[])
UNION ALL SELECT format('the function %s reads what it is given the name of: a query names it itself', p.proname)
  FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid WHERE p.proname ~ $6
UNION ALL SELECT format('the %s %s.%s belongs to the role %s: a query runs no code of roles that yours is no member of',
    i.kind, i.schema::pg_catalog.regnamespace, i.name, pg_get_userbyid(i.owner))
  FROM (SELECT 'operator' AS kind, oprnamespace AS schema, oprname AS name, oprowner AS owner FROM operators
    UNION ALL SELECT 'function', p.pronamespace, p.proname, p.proowner FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid
    UNION ALL SELECT 'type', g.typnamespace, g.typname, g.typowner FROM given g
    UNION ALL SELECT 'foreign table', o.relnamespace, o.relname, o.relowner FROM others o WHERE o.relkind = 'f') i
  WHERE i.owner NOT IN (SELECT oid FROM trusted)
LIMIT 1`;

interface ReadQuery {
  readonly text: string;
  readonly names: readonly UsedName[];
  /** The schemas of the role's search_path, as an array of PostgreSQL. */
  readonly path: string;
}

/** Places are in bytes of UTF-8; no length: to the end. */
interface Parsed {
  readonly stmt?: object;
  readonly stmt_location?: number;
  readonly stmt_len?: number;
}

interface UsedName {
  /** 'column' is also a call: `(value).function`. */
  readonly kind: 'function' | 'column' | 'operator' | 'type' | 'relation';
  readonly schema: string | null;
  readonly name: string;
}

/** Must be called outside a transaction. */
export async function queryOf(session: CommandSession, text: string): Promise<ReadQuery> {
  const { names, statement } = await read(text);
  const [row] = await session.typed(
    `SELECT pg_catalog.current_schemas(true)::pg_catalog.text AS path, pg_catalog.current_setting('server_encoding') AS encoding`,
  );
  // The parser shortens and folds names as PostgreSQL does in a database of this encoding.
  if (row?.['encoding'] !== 'UTF8' && /[^\0-\x7f]/.test(statement))
    throw new PlainError(`a query is ASCII, unless the encoding of the database is UTF8: write U&'\\00e9'`);
  return { text: statement, names, path: row?.['path'] ?? '{}' };
}

export async function queryRows(
  session: CommandSession,
  { text, names, path }: ReadQuery,
): Promise<ToolResult> {
  await refuseCode(session, names, path);
  await session.typed('SET LOCAL search_path TO DEFAULT');
  return fetched(session, text, limits.mcpQueryRowsMax);
}

/** Of reading a table whose name is known; in a transaction. Throws PlainError. */
export async function refuseCodeOf(
  session: CommandSession,
  { schema, table }: { readonly schema: string; readonly table: string },
): Promise<void> {
  await refuseCode(session, [{ kind: 'relation', schema, name: table }], '{}');
}

async function refuseCode(session: CommandSession, names: readonly UsedName[], path: string): Promise<void> {
  const columns = (['kind', 'schema', 'name'] as const).map((key) => names.map((name) => name[key]));
  const [found] = await session.rows(codeOf, [...columns, path, harmless, readers]);
  if (found !== undefined) throw new PlainError(found['why'] ?? '');
}

/** The names in a text, which is one SELECT, and the SELECT without a semicolon. */
async function read(text: string): Promise<{ names: UsedName[]; statement: string }> {
  await loadParser();
  let statements: readonly Parsed[];
  try {
    statements = (parseStatements(text) as { stmts?: Parsed[] }).stmts ?? [];
  } catch (error) {
    throw new PlainError((error as Error).message);
  }
  const [first, second] = statements;
  if (first?.stmt === undefined || second !== undefined || !('SelectStmt' in first.stmt))
    throw new PlainError('a query is one SELECT');
  const names = new Map<string, UsedName>();
  const add = (kind: UsedName['kind'], name: string | undefined, schema: string | null = null): void => {
    if (name !== undefined) names.set(JSON.stringify([kind, schema, name]), { kind, schema, name });
  };
  const rest: unknown[] = [first.stmt];
  for (let node = rest.pop(); node !== undefined; node = rest.pop()) {
    if (typeof node !== 'object' || node === null) continue;
    for (const [key, value] of Object.entries(node)) {
      if (key === 'intoClause' || key === 'lockingClause') throw new PlainError('a query only reads');
      const kind = Object.hasOwn(kinds, key) ? kinds[key] : undefined;
      if (kind !== undefined) add(kind, words(value).at(-1), words(value).at(-2) ?? null);
      if (key === 'fields' || key === 'indirection') for (const name of words(value)) add('column', name);
      if (implying.test(key === 'kind' ? String(value) : key))
        for (const name of implied) add('operator', name);
      if (key === 'RangeVar') {
        const { relname, schemaname = null } = value as { relname?: string; schemaname?: string };
        add('relation', relname, schemaname);
      }
      rest.push(value);
    }
  }
  const { stmt_location: from = 0, stmt_len: length } = first;
  const end = length === undefined || length === 0 ? undefined : from + length;
  return { names: [...names.values()], statement: Buffer.from(text).subarray(from, end).toString() };
}

/** What the names are that a field of the parser's tree holds. */
const kinds: Readonly<Record<string, UsedName['kind']>> = {
  funcname: 'function',
  name: 'operator',
  operName: 'operator',
  useOp: 'operator',
  names: 'type',
};

function words(parts: unknown): string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap((part) => (part as { String?: { sval?: string } } | null)?.String?.sval ?? []);
}
