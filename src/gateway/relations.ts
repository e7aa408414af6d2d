/**
 * Any relation of one database that rows can be inserted into, by the name that an application gives it: for the events
 * gateway, which works with any PostgreSQL, with or without the schema `headgate`.
 *
 * Takes a name as SQL writes it (`orders`, `app.orders`, `"Orders"`), resolved as in any session of that role; returns
 * Targets; refuses with `relation_not_found`, `relation_not_writable` and `key_missing`. Uses the database through the
 * one function that it is given, each call of which is a transaction of its own.
 */
import { isMisnamed } from '../engine/sqlstate.ts';
import { mayNameRelation, quoteLiteral } from '../kit/sql-text.ts';
import { newestOf } from '../types/table-options.ts';
import type { Shape } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import { hasGatewayFunctions } from './gateway-functions.ts';
import { keyMissing, notFound, notWritable, plainIntake } from '../relations/find-relations.ts';
import type { Lookup } from '../relations/find-relations.ts';
import type { KnownRelations } from '../relations/known-relations.ts';
import { toNewest } from '../relations/newest.ts';
import { toCode, toShape } from '../relations/shape.ts';
import { relationColumns, relationsSql } from '../relations/relations-sql.ts';
import type { RelationRow } from '../relations/relations-sql.ts';

/** What happens to a row whose key already exists: refused by the engine, replaced, or left out. */
export type WriteMode = 'insert' | 'upsert' | 'ignore';

/** Runs statements, given the search_path that a client of that role has; returns the rows of the last. Throws the engine's error. */
export type Query = (sql: (path: string) => string) => Promise<readonly object[]>;

/**
 * Whether the catalog has this relation for the current role, made by a superuser or by itself: another role could lock it, and what it says
 * would be that role's choice. `permitted`: a condition on the relation, `l`.
 */
const hasOwn = (name: string, permitted: string): string => `exists (
  select from pg_catalog.pg_class l
  join pg_catalog.pg_namespace ln on ln.oid operator(pg_catalog.=) l.relnamespace
  join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) l.relowner
  where ln.nspname operator(pg_catalog.=) 'headgate' and l.relname operator(pg_catalog.=) '${name}'
    and pg_catalog.has_schema_privilege(ln.oid, 'USAGE') and ${permitted}
    and (o.rolsuper or o.rolname operator(pg_catalog.=) current_user))`;

const hasLocks = hasOwn('commit_lock_0', `pg_catalog.has_table_privilege(l.oid, 'UPDATE')`);
const knowsVersions = hasOwn('versions', `pg_catalog.has_any_column_privilege(l.oid, 'SELECT')`);

/**
 * The type of arrays of its rows, if statements that return rows may store them: not with rules or row-level security, and not on Citus, which sends such
 * statements on. The role has to be allowed to read it.
 */
const rowsType = `(select y.typarray from pg_catalog.pg_class c join pg_catalog.pg_type y on y.oid operator(pg_catalog.=) c.reltype
  where c.oid operator(pg_catalog.=) s.relation and c.relkind in ('r', 'p') and not c.relhasrules and not c.relrowsecurity and not s.distributed
    and pg_catalog.has_table_privilege(c.oid, 'SELECT'))`;

/** Without compiling, which would take seconds for one row, and in a session that may be lent to others afterwards. */
const lookup = (
  name: string,
  path: string,
  logins: boolean | null,
) => `select pg_catalog.set_config('jit', 'off', true);
select ${relationColumns}, pg_catalog.has_any_column_privilege(s.relation, 'INSERT') as permitted,
  ${hasLocks} as has_locks, ${hasWebhookTables(logins)} as has_webhook_tables, ${hasGatewayFunctions('s.relation')} as has_functions, ${knowsVersions} as knows_versions, ${rowsType} as rows_type
  from (${relationsSql(`
    select pg_catalog.to_regclass(${quoteLiteral(name)})::pg_catalog.oid as relation
    from (select pg_catalog.set_config('search_path', ${quoteLiteral(path)}, true) as set offset 0) as path where path.set is not null`)}) as s`;

/**
 * Whether the database has webhook tables; a policy on their list would run code of the role that owns it. In front of a database that is not
 * Headgate's own (`logins` false) the list is believed if it belongs to a superuser, or to a role that the current one is.
 */
const hasWebhookTables = (logins: boolean | null): string => `exists (
  select from pg_catalog.pg_class l
  join pg_catalog.pg_namespace ln on ln.oid operator(pg_catalog.=) l.relnamespace
  join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) l.relowner and ln.nspowner operator(pg_catalog.=) o.oid
  where ln.nspname operator(pg_catalog.=) 'headgate' and l.relname operator(pg_catalog.=) 'webhook_private'
    and l.relkind operator(pg_catalog.=) 'r' and pg_catalog.has_schema_privilege(ln.oid, 'USAGE')
    and (${logins !== false} or o.rolsuper or pg_catalog.pg_has_role(o.oid, 'USAGE')))`;

/** Columns that no request fills, of the table or of one that it is a partition of. */
const privateColumns = (relation: number): string => `select pg_catalog.set_config('jit', 'off', true);
  select headgate.placed(w.relation, p.value)::pg_catalog.text as name
  from headgate.webhook_private w cross join lateral pg_catalog.jsonb_array_elements(w.places) p
  where w.relation operator(pg_catalog.=) ${relation}::pg_catalog.regclass
    or w.relation operator(pg_catalog.=) any (array(select a.relid from pg_catalog.pg_partition_ancestors(${relation}::pg_catalog.regclass) a))`;

interface FoundRow extends RelationRow {
  readonly has_webhook_tables: boolean;
  readonly private: readonly string[];
  /** The current role may insert into at least one column. */
  readonly permitted: boolean;
  readonly has_locks: boolean;
  readonly has_functions: boolean;
  readonly knows_versions: boolean;
  readonly rows_type: number | null;
  /** Absent: it has no option `version`. */
  readonly versioned?: Versioned;
}

/** headgate.versions */
interface Versioned {
  readonly options: Readonly<Record<string, unknown>>;
  /** The column that takes whole documents. */
  readonly document: string | null;
  /** Columns by the header that fills them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** PostgreSQL's own schemas, including those of temporary tables, and Headgate's. */
const systemSchemas = /^(?:pg_.*|information_schema|headgate)$/;

export type Relations = KnownRelations<FoundRow, WriteMode>;

export class PostgresLookup implements Lookup<FoundRow, WriteMode> {
  readonly #database: string;
  readonly #query: Query;
  readonly #logins: boolean | null;

  /** `logins`: see CodeChoice.asClient. */
  constructor(database: string, query: Query, logins: boolean | null) {
    this.#database = database;
    this.#query = query;
    this.#logins = logins;
  }

  look(name: string): Promise<FoundRow> {
    return look(this.#query, this.#logins, name);
  }

  toTarget(name: string, row: FoundRow, writeMode: WriteMode): Target {
    return toTarget(this.#database, this.#logins, name, row, writeMode);
  }
}

async function look(query: Query, logins: boolean | null, name: string): Promise<FoundRow> {
  if (!mayNameRelation(name)) throw notFound(name);
  let rows: readonly FoundRow[];
  try {
    rows = (await query((path) => lookup(name, path, logins))) as readonly FoundRow[];
  } catch (error) {
    if (isMisnamed(error)) throw notFound(name);
    throw error;
  }
  const [row] = rows;
  if (row === undefined || systemSchemas.test(row.schema_name)) throw notFound(name);
  if (!['r', 'p', 'v'].includes(row.relation_kind)) throw notWritable(name, 'is no table');
  if (!row.insertable) throw notWritable(name, 'is a view that is not updatable');
  if (!row.permitted) throw notWritable(name, 'may not be written by the role that the gateway logs in as');
  const versioned = row.knows_versions ? await versionOf(query, row.relation) : null;
  const found = versioned === null ? row : { ...row, versioned };
  if (!row.has_webhook_tables) return { ...found, private: [] };
  const hidden = (await query(() => privateColumns(row.relation))) as readonly { name: string | null }[];
  return { ...found, private: hidden.flatMap(({ name }) => name ?? []) };
}

async function versionOf(query: Query, relation: number): Promise<Versioned | null> {
  const rows = await query(
    () =>
      `select pg_catalog.set_config('jit', 'off', true); select v.versioned from headgate.versions v where v.relation operator(pg_catalog.=) ${relation}`,
  );
  return (rows as readonly { readonly versioned: Versioned | null }[])[0]?.versioned ?? null;
}

/** With the option `version` a row replaces only one that is older. */
function newestShape(name: string, row: FoundRow, shape: Shape): Shape {
  const { versioned } = row;
  if (versioned === undefined) return shape;
  if (shape.writeMode !== 'upsert')
    throw notWritable(name, 'has the option version: its rows are stored with on_conflict=update');
  const { options, document, headers } = versioned;
  const option = newestOf(options);
  const headerColumn = (header: string) => headers[header];
  const newest = option === null ? undefined : toNewest(option, { row, shape, document, headerColumn });
  if (typeof newest === 'string') throw notWritable(name, `cannot take rows: ${newest}`);
  return newest === undefined ? shape : { ...shape, newest };
}

function toTarget(
  database: string,
  logins: boolean | null,
  name: string,
  row: FoundRow,
  writeMode: WriteMode,
): Target {
  const choice = { writeMode, document: null, includes: [], private: row.private } as const;
  const shape = toShape(row, { ...choice, onTypeError: 'reject' });
  if (typeof shape === 'string') throw notWritable(name, `cannot take rows: ${shape}`);
  const code = toCode(row, { asClient: { logins } });
  if (typeof code === 'string') throw notWritable(name, `cannot take rows: ${code}`);
  if (writeMode !== 'insert' && shape.key.length === 0) {
    throw keyMissing(name);
  }
  return {
    database,
    schema: row.schema_name,
    table: row.table_name,
    oid: row.relation,
    check: null,
    waitsForDisk: true,
    hasLocks: row.has_locks,
    // The key is included even if rows are only inserted: a commit takes a key that it did not know of for a changed table.
    shape: newestShape(name, row, shape),
    code: row.has_functions
      ? { ...code, functionsIn: 'headgate_functions' }
      : { ...code, ...(row.rows_type !== null && { rowsType: row.rows_type }) },
    intake: plainIntake,
  };
}
