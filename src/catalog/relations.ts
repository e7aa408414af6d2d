/**
 * Any relation of one database that rows can be inserted into, by the name that an application gives it: for the events
 * gateway, which stands in front of any PostgreSQL, with the schema `headgate` or without.
 *
 * Takes a name as SQL writes it (`orders`, `app.orders`, `"Orders"`), resolved as any session of that role resolves it;
 * gives Targets; refuses with `relation_not_found`, `relation_not_writable` and `key_missing`. Touches the database
 * through the one function it is given, whose every call is a transaction of its own. What was found is remembered for a
 * moment, what was not is looked for again.
 */
import type { Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import { Refused } from '../tables/refusals.ts';
import { relationColumns, relationsSql, toCode, toShape } from './shape.ts';
import type { RelationRow } from './shape.ts';

/** What becomes of a row whose key is there already: refused by the engine, replaced, or left out. */
export type WriteMode = 'insert' | 'upsert' | 'ignore';

export interface RelationsOptions {
  readonly database: string;
  /** Adds the search_path that a client of that role has to the parameters. Throws the engine's error. */
  readonly query: (sql: string, values: readonly unknown[]) => Promise<readonly object[]>;
  readonly limits: Pick<Limits, 'relationsMax' | 'relationAgeMs'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface Known {
  readonly row: FoundRow;
  readonly until: number;
  /** By mode, so that a relation that did not change is the same object. */
  readonly targets: Map<WriteMode, Target>;
}

/** Lock tables that somebody else has made are his to lock. */
const hasLocks = `exists (
  select from pg_catalog.pg_class l
  join pg_catalog.pg_namespace ln on ln.oid operator(pg_catalog.=) l.relnamespace
  join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) l.relowner
  where ln.nspname operator(pg_catalog.=) 'headgate' and l.relname operator(pg_catalog.=) 'commit_lock_0'
    and pg_catalog.has_schema_privilege(ln.oid, 'USAGE') and pg_catalog.has_table_privilege(l.oid, 'UPDATE')
    and (o.rolsuper or o.rolname operator(pg_catalog.=) current_user))`;

const lookup = `select ${relationColumns}, pg_catalog.has_any_column_privilege(s.relation, 'INSERT') as permitted,
  ${hasLocks} as has_locks
  from (${relationsSql(`
    select pg_catalog.to_regclass($1)::pg_catalog.oid as relation
    from (select pg_catalog.set_config('search_path', $2, true) as set offset 0) as path where path.set is not null`)}) as s`;

interface FoundRow extends RelationRow {
  /** The role that asks may insert, into some column at least. */
  readonly permitted: boolean;
  readonly has_locks: boolean;
}

/** Schemas of PostgreSQL's own, with those of temporary tables, and of Headgate's. */
const systemSchemas = /^(?:pg_.*|information_schema|headgate)$/;

export class Relations {
  readonly #options: RelationsOptions;
  /** In the order in which they were found: the first is the oldest. */
  readonly #known = new Map<string, Known>();
  readonly #looking = new Map<string, Promise<Known>>();

  constructor(options: RelationsOptions) {
    this.#options = options;
  }

  /** At once what is remembered. Throws Refused, or the engine's error. */
  find(name: string, writeMode: WriteMode): Target | Promise<Target> {
    const known = this.#remembered(name);
    if (known !== null) return this.#targetOf(name, known, writeMode);
    return this.#lookTogether(name).then((found) => this.#targetOf(name, found, writeMode));
  }

  #targetOf(name: string, known: Known, writeMode: WriteMode): Target {
    let target = known.targets.get(writeMode);
    if (target === undefined) {
      target = toTarget(this.#options.database, name, known.row, writeMode);
      known.targets.set(writeMode, target);
    }
    return target;
  }

  /** The engine has said that it is not what it was. */
  forget(name: string): void {
    this.#known.delete(name);
    this.#looking.delete(name);
  }

  #remembered(name: string): Known | null {
    const known = this.#known.get(name);
    return known !== undefined && known.until > this.#options.clock() ? known : null;
  }

  #remember(name: string, row: FoundRow): Known {
    const { limits, clock } = this.#options;
    const before = this.#known.get(name);
    // The Targets of a relation that did not change stay as they are.
    const same = before !== undefined && JSON.stringify(before.row) === JSON.stringify(row);
    const targets = same ? before.targets : new Map<WriteMode, Target>();
    const known = { row, until: clock() + limits.relationAgeMs, targets };
    this.#known.delete(name);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size >= limits.relationsMax) this.#known.delete(oldest);
    this.#known.set(name, known);
    return known;
  }

  /** One question for all who ask at the same time; what it did not find may have been made since it was put. */
  async #lookTogether(name: string): Promise<Known> {
    const underway = this.#looking.get(name);
    if (underway !== undefined) {
      try {
        return await underway;
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
      }
      // One that another of those who waited has begun since is as good as one's own.
      const next = this.#looking.get(name);
      if (next !== undefined && next !== underway) return next;
    }
    const look = this.#look(name).then((row) => this.#remember(name, row));
    this.#looking.set(name, look);
    try {
      return await look;
    } finally {
      if (this.#looking.get(name) === look) this.#looking.delete(name);
    }
  }

  async #look(name: string): Promise<FoundRow> {
    // to_regclass() of later versions takes a number for an oid.
    if (name.includes('\0') || /^\s*[-+\d]/.test(name)) throw notFound(name);
    let rows: readonly FoundRow[];
    try {
      rows = (await this.#options.query(lookup, [name])) as readonly FoundRow[];
    } catch (error) {
      if (isBadName(error)) throw notFound(name);
      throw error;
    }
    const [row] = rows;
    if (row === undefined || systemSchemas.test(row.schema_name)) throw notFound(name);
    if (!['r', 'p', 'v'].includes(row.relation_kind)) throw notWritable(name, 'is no table');
    if (!row.insertable) throw notWritable(name, 'is a view that is not updatable');
    if (!row.permitted) throw notWritable(name, 'may not be written by the role that the gateway logs in as');
    return row;
  }
}

function toTarget(database: string, name: string, row: FoundRow, writeMode: WriteMode): Target {
  const shape = toShape(row, { writeMode, document: null, includes: [], onTypeError: 'reject' });
  if (typeof shape === 'string') throw notWritable(name, `cannot take rows: ${shape}`);
  const code = toCode(row);
  if (typeof code === 'string') throw notWritable(name, `cannot take rows: ${code}`);
  if (writeMode !== 'insert' && shape.key.length === 0) {
    throw new Refused('key_missing', `"${name}" has no primary key that a row could say`);
  }
  return {
    database,
    schema: row.schema_name,
    table: row.table_name,
    oid: row.relation,
    check: null,
    waitsForDisk: true,
    hasLocks: row.has_locks,
    // With its key also where rows are only inserted: a commit takes a key that it did not know for a changed table.
    shape,
    code,
    intake: {
      format: 'json',
      batched: false,
      document: null,
      unknown: 'ignore',
      includes: [],
      hiddenHeaders: new Set(),
    },
  };
}

function notFound(name: string): Refused {
  return new Refused('relation_not_found', `no such table "${name}"`);
}

function notWritable(name: string, why: string): Refused {
  return new Refused('relation_not_writable', `"${name}" ${why}`);
}

/**
 * A text that is no name, or names another database. Versions before 16 raise; later ones find nothing. Only what the
 * parser of names says, and bytes that are no text: anything else is trouble of the engine's.
 */
function isBadName(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return ['42601', '42602', '0A000', '22021', '42622'].includes(String(error.code));
}
