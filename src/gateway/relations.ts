/**
 * Any relation of one database that rows can be inserted into, by the name that an application gives it: for the events
 * gateway, which works with any PostgreSQL, with or without the schema `headgate`.
 *
 * Takes a name as SQL writes it (`orders`, `app.orders`, `"Orders"`), resolved as in any session of that role; returns
 * Targets; refuses with `relation_not_found`, `relation_not_writable` and `key_missing`. Uses the database through the
 * one function that it is given, each call of which is a transaction of its own.
 */
import { isMisnamed, sqlstateOf } from '../engine/sqlstate.ts';
import { mayNameRelation } from '../kit/sql-text.ts';
import { newestOf } from '../types/table-options.ts';
import type { Shape } from '../types/shape.ts';
import type { Code, Target } from '../types/target.ts';
import { lookup, privateColumns, versionSql } from './find-relation-sql.ts';
import type { FoundRow, Versioned } from './find-relation-sql.ts';
import { keyMissing, notFound, notWritable, plainIntake } from '../relations/find-relations.ts';
import type { Lookup } from '../relations/find-relations.ts';
import type { KnownRelations } from '../relations/known-relations.ts';
import { toNewest } from '../relations/newest.ts';
import { missingRights } from '../relations/rights.ts';
import { toCode, toShape } from '../relations/shape.ts';

/** What happens to a row whose key already exists: refused by the engine, replaced, or left out. */
export type WriteMode = 'insert' | 'upsert' | 'ignore';

/** Runs statements, given the search_path that a client of that role has; returns the rows of the last. Throws the engine's error. */
export type Query = (sql: (path: string) => string) => Promise<readonly object[]>;

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
    if (sqlstateOf(error) === '42501')
      throw notWritable(name, 'is in a schema that the role that the gateway logs in as may not use');
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
  const rows = await query(() => versionSql(relation));
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

/**
 * What an ordinary table becomes: all of its columns, filled by the keys of the same name (`document: null`, whatever a webhook table's column is), `writeMode`
 * as the request says, and rows that run no code and are stored by the gateway's role (`code.as: 'writer'`).
 */
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
  const code = codeOf(name, row, shape, logins);
  if (writeMode !== 'insert' && shape.key.length === 0) throw keyMissing(name);
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
    code,
    intake: plainIntake,
  };
}

/**
 * Whose session stores the rows, and what it asks in it whether the table is still the same (commit/plan-lock.ts). Normally, in a database of the embedded
 * engine, the gateway's role has the functions in `headgate_functions` for that. Databases of other engines have none, and there the type of the stored rows
 * tells which table they are in. `headgate`, where the functions for webhook tables are, never occurs here.
 */
function codeOf(name: string, row: FoundRow, shape: Shape, logins: boolean | null): Code {
  const code = toCode(row, { asClient: { logins } });
  const missing = missingRights(row, shape, code);
  if (missing !== null) throw notWritable(name, `cannot take rows: ${missing}`);
  if (typeof code === 'string') throw notWritable(name, `cannot take rows: ${code}`);
  if (row.has_functions) return { ...code, functionsIn: 'headgate_functions' };
  return row.rows_type === null ? code : { ...code, rowsType: row.rows_type };
}
