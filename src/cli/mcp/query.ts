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
import { loadParser, parseStatements } from '../../validate/parse.ts';
import type { CommandSession } from '../session.ts';
import { fetched } from './fetched.ts';
import type { ToolResult } from './server.ts';

/** Volatile, and harmless. */
const harmless = ['random', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'clock_timestamp', 'timeofday'];

/** They read tables, or values of types, that they are given the names of. */
const readers =
  '^(?:(?:table|schema|database)_to_xml|pg_input_|(?:domain|record|array|range|multirange)_(?:in|recv)$)';

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

/**
 * Code that a query would run: names ($1 to $3) are looked up in their schema or, without one, in those of the search_path ($4), by name alone;
 * those of a relation of another role also in what PostgreSQL runs when it reads it: views, policies, and the constraints and indexes that it plans
 * with. Of a view of a role that this one is a member of, the owner knew what it calls.
 */
const codeOf = `WITH RECURSIVE trusted AS (SELECT r.oid FROM pg_catalog.pg_roles r
  WHERE r.rolsuper OR r.oid = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'headgate') OR pg_has_role(session_user, r.oid, 'MEMBER')),
named AS (SELECT n.kind, n.name, s.oid AS schema FROM unnest($1::text[], $2::text[], $3::text[]) n(kind, schema, name)
  JOIN pg_catalog.pg_namespace s ON s.nspname = n.schema OR (n.schema IS NULL AND s.nspname = ANY ($4::text[]))),
trees AS (SELECT ev_class AS relation, ev_action::text AS tree FROM pg_catalog.pg_rewrite
  UNION ALL SELECT polrelid, polqual::text FROM pg_catalog.pg_policy
  UNION ALL SELECT conrelid, conbin::text FROM pg_catalog.pg_constraint WHERE contype = 'c'
  UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_catalog.pg_index),
relations AS (SELECT c.oid, c.reltype FROM named n JOIN pg_catalog.pg_class c ON n.kind = 'relation' AND c.relname = n.name AND c.relnamespace = n.schema
    WHERE c.relowner NOT IN (SELECT oid FROM trusted)
  UNION SELECT c.oid, c.reltype FROM relations r JOIN trees t ON t.relation = r.oid
    CROSS JOIN LATERAL regexp_matches(t.tree, ':relid (\\d+)', 'g') m JOIN pg_catalog.pg_class c ON c.oid = m[1]::oid
    WHERE c.relowner NOT IN (SELECT oid FROM trusted)),
found AS (SELECT m[1] AS what, m[2]::oid AS oid FROM relations r JOIN trees t ON t.relation = r.oid
  CROSS JOIN LATERAL regexp_matches(t.tree, ':(funcid|aggfnoid|winfnoid|opno|resulttype|typid) (\\d+)', 'g') m),
types AS (SELECT a.atttypid AS oid FROM relations r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid UNION SELECT reltype FROM relations),
operators AS (SELECT o.oid, o.oprname, o.oprnamespace, o.oprowner, o.oprcode FROM named n JOIN pg_catalog.pg_operator o
    ON n.kind = 'operator' AND o.oprname = n.name AND o.oprnamespace = n.schema
  UNION SELECT o.oid, o.oprname, o.oprnamespace, o.oprowner, o.oprcode FROM found f JOIN pg_catalog.pg_operator o ON f.what = 'opno' AND o.oid = f.oid),
functions AS (SELECT p.oid FROM named n JOIN pg_catalog.pg_proc p ON p.proname = n.name AND p.pronamespace = n.schema
    AND (n.kind = 'function' OR (n.kind = 'column' AND p.pronargs - p.pronargdefaults <= 1 AND p.pronargs > 0))
  UNION SELECT oprcode::oid FROM operators
  UNION SELECT oid FROM found WHERE what IN ('funcid', 'aggfnoid', 'winfnoid')
  UNION SELECT k.castfunc FROM types t JOIN pg_catalog.pg_cast k ON k.castsource = t.oid)
SELECT format('the function %s is volatile: a query may call only others', p.proname) AS why
  FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid WHERE p.provolatile = 'v' AND p.proname <> ALL ($5::text[])
UNION ALL SELECT format('the function %s reads what it is given the name of: a query names it itself', p.proname)
  FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid WHERE p.proname ~ $6
UNION ALL SELECT format('the %s %s.%s belongs to the role %s: a query runs no code of roles that yours is no member of',
    i.kind, i.schema::pg_catalog.regnamespace, i.name, pg_get_userbyid(i.owner))
  FROM (SELECT 'operator' AS kind, oprnamespace AS schema, oprname AS name, oprowner AS owner FROM operators
    UNION ALL SELECT 'function', p.pronamespace, p.proname, p.proowner FROM functions f JOIN pg_catalog.pg_proc p ON p.oid = f.oid
    UNION ALL SELECT 'type', t.typnamespace, t.typname, t.typowner FROM pg_catalog.pg_type t WHERE t.oid IN (SELECT oid FROM found WHERE what IN ('resulttype', 'typid'))
      OR EXISTS (SELECT FROM named n WHERE n.kind = 'type' AND n.name = t.typname AND n.schema = t.typnamespace)) i
  WHERE i.owner NOT IN (SELECT oid FROM trusted)
LIMIT 1`;

interface Query {
  readonly text: string;
  readonly names: readonly Name[];
  /** The schemas of the role's search_path, as an array of PostgreSQL. */
  readonly path: string;
}

/** Places are in bytes of UTF-8; no length: to the end. */
interface Parsed {
  readonly stmt?: object;
  readonly stmt_location?: number;
  readonly stmt_len?: number;
}

interface Name {
  /** 'column' is also a call: `(value).function`. */
  readonly kind: 'function' | 'column' | 'operator' | 'type' | 'relation';
  readonly schema: string | null;
  readonly name: string;
}

/** Must be called outside a transaction. */
export async function queryOf(session: CommandSession, text: string): Promise<Query> {
  const { names, statement } = await read(text);
  const [row] = await session.typed('SELECT pg_catalog.current_schemas(true)::pg_catalog.text AS path');
  return { text: statement, names, path: row?.['path'] ?? '{}' };
}

export async function queryRows(session: CommandSession, { text, names, path }: Query): Promise<ToolResult> {
  const columns = (['kind', 'schema', 'name'] as const).map((key) => names.map((name) => name[key]));
  const [found] = await session.rows(codeOf, [...columns, path, harmless, readers]);
  if (found !== undefined) throw new PlainError(found['why'] ?? '');
  await session.typed('SET LOCAL search_path TO DEFAULT');
  return fetched(session, text, limits.mcpQueryRowsMax);
}

/** The names in a text, which is one SELECT, and the SELECT without a semicolon. */
async function read(text: string): Promise<{ names: Name[]; statement: string }> {
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
  const names = new Map<string, Name>();
  const add = (kind: Name['kind'], name: string | undefined, schema: string | null = null): void => {
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
const kinds: Readonly<Record<string, Name['kind']>> = {
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
