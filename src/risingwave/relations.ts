/**
 * Tables of one RisingWave database, by the names that applications give them. Takes a name as SQL writes it, returns Targets; refuses
 * with `relation_not_found`, `relation_not_writable` and `key_missing`. Uses the database through the one function that it is given.
 */
import { keyMissing, notFound, notWritable, plainIntake } from '../relations/find-relations.ts';
import type { Lookup } from '../relations/find-relations.ts';
import type { KnownRelations } from '../relations/known-relations.ts';
import type { Target } from '../types/target.ts';
import { literal } from './values.ts';
import { parseType } from './types.ts';
import type { RwType } from './types.ts';

export interface RwColumn {
  readonly name: string;
  readonly type: RwType;
  readonly nullable: boolean;
  /** It is filled if a statement does not name it. */
  readonly hasDefault: boolean;
}

/** null: what the table was created with. */
export type RwConflict = 'error' | 'update' | 'ignore' | null;

/** Throws the engine's error, or Refused. */
type RwQuery = (sql: string) => Promise<readonly object[]>;

interface RwRelationRow {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly kind: string;
  readonly definition: string | null;
}

interface RwColumnRow {
  readonly name: string;
  readonly is_primary_key: boolean;
  readonly is_hidden: boolean;
  readonly is_generated: boolean;
  readonly is_nullable: boolean;
  readonly data_type: string;
  readonly type_oid: number;
}

interface FoundRelation {
  readonly relation: RwRelationRow;
  readonly columns: readonly RwColumnRow[];
}

/** A table that was found there. */
interface RwTarget extends Target {
  readonly rwColumns: readonly RwColumn[];
}

/** For a Target that was found here. */
export function columnsOf(target: Target): readonly RwColumn[] {
  return 'rwColumns' in target ? (target as RwTarget).rwColumns : [];
}

/** A table found there, for rows of a table here: its columns are filled, with NULL if a row omits one. A text: the column it lacks. */
export function fillingOnly(found: Target, { shape, into }: Target): Target | string {
  const known = columnsOf(found);
  const columns: RwColumn[] = [];
  for (const { name } of shape.columns) {
    const column = known.find((it) => it.name === name);
    if (column === undefined) return name;
    columns.push({ ...column, hasDefault: false });
  }
  // The key identifies the server.
  const database = into?.key ?? '';
  const made: RwTarget = {
    ...found,
    database,
    shape: { ...found.shape, document: shape.document },
    rwColumns: columns,
  };
  return made;
}

export type RwRelations = KnownRelations<FoundRelation, RwConflict>;

export class RisingWaveLookup implements Lookup<FoundRelation, RwConflict> {
  readonly #database: string;
  readonly #query: RwQuery;

  constructor(database: string, query: RwQuery) {
    this.#database = database;
    this.#query = query;
  }

  look(name: string): Promise<FoundRelation> {
    return look(this.#query, this.#database, name);
  }

  toTarget(name: string, found: FoundRelation, conflict: RwConflict): Target {
    return toTarget(this.#database, name, found, conflict);
  }
}

const systemSchemas = new Set(['rw_catalog', 'pg_catalog', 'information_schema']);

async function look(query: RwQuery, database: string, name: string): Promise<FoundRelation> {
  const { schema, table } = partsOf(name, database);
  const where = schema === null ? 's.name = any(current_schemas(false))' : `s.name = ${literal(schema)}`;
  const order = schema === null ? 'order by array_position(current_schemas(false), s.name)' : '';
  const relations = (await query(
    `select r.id, s.name as schema, r.name, r.relation_type as kind, r.definition
     from rw_catalog.rw_relations r join rw_catalog.rw_schemas s on s.id = r.schema_id
     where r.name = ${literal(table)} and ${where} ${order}`,
  )) as readonly RwRelationRow[];
  const [relation] = relations;
  if (relation === undefined || systemSchemas.has(relation.schema)) throw notFound(name);
  if (relation.kind !== 'table') throw notWritable(name, `is a ${relation.kind} of RisingWave, and no table`);
  const columns = (await query(
    `select name, is_primary_key, is_hidden, is_generated, is_nullable, data_type, type_oid
     from rw_catalog.rw_columns where relation_id = ${relation.id} order by position`,
  )) as readonly RwColumnRow[];
  return { relation, columns };
}

const part = /\s*(?:"((?:[^"]|"")+)"|([A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*))\s*(\.|$)/y;

function partsOf(name: string, database: string): { readonly schema: string | null; readonly table: string } {
  const parts: string[] = [];
  part.lastIndex = 0;
  for (let more = true; more;) {
    const [all, quoted, plain, end] = part.exec(name) ?? [];
    if (all === undefined || parts.length === 3 || name.includes('\0')) throw notFound(name);
    parts.push(quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '');
    more = end === '.';
  }
  if (parts.length === 3 && parts.shift() !== database) throw notFound(name);
  const [first = '', second] = parts;
  return second === undefined ? { schema: null, table: first } : { schema: first, table: second };
}

function toTarget(
  database: string,
  name: string,
  { relation, columns }: FoundRelation,
  conflict: RwConflict,
): Target {
  const { defaults, conflict: own } = parseDefinition(relation.definition ?? '');
  const hasKey = columns.some((it) => it.is_primary_key && !it.is_hidden);
  if (conflict !== null) refuseConflict(name, conflict, hasKey ? own : null);
  const written = columns.filter((it) => !it.is_hidden && !it.is_generated);
  const known = written.map((it): RwColumn => {
    const type = parseType(it.data_type);
    if (type === null)
      throw notWritable(name, `has a column "${it.name}" of a type that Headgate does not know`);
    return { name: it.name, type, nullable: it.is_nullable, hasDefault: defaults.has(it.name) };
  });
  if (known.length === 0) throw notWritable(name, 'cannot take rows: it has no column that can be written');
  const target: RwTarget = {
    database,
    schema: relation.schema,
    table: relation.name,
    oid: relation.id,
    check: null,
    waitsForDisk: true,
    hasLocks: false,
    shape: {
      version: JSON.stringify([relation.id, relation.definition, written]),
      writeMode: 'insert',
      columns: written.map((it) => ({
        name: it.name,
        type: it.data_type,
        baseType: it.type_oid,
        fallback: null,
      })),
      // RisingWave handles keys that already exist.
      key: [],
      document: null,
      onTypeError: 'reject',
    },
    code: {
      owner: 0,
      ownerName: '',
      as: 'writer',
      deletesAs: 'writer',
      inert: true,
      schemaTrusted: true,
      writer: '',
      functionsIn: null,
    },
    intake: plainIntake,
    rwColumns: known,
  };
  return target;
}

/** `own`: what the table does; null: it has no key. */
function refuseConflict(name: string, asked: 'error' | 'update' | 'ignore', own: string | null): void {
  if (own === null && asked !== 'error') throw keyMissing(name);
  if (own === null || own === asked) return;
  throw notWritable(
    name,
    `was not made for on_conflict=${asked}: in RisingWave a table says what becomes of a key that is there already (ON CONFLICT of CREATE TABLE)`,
  );
}

/**
 * What only the definition of a RisingWave table says: which columns have a default, and what happens to a row whose key already
 * exists. Read from `rw_catalog.rw_relations.definition`, which RisingWave prints itself; what is not understood is taken for the
 * default. Source: parse_create_table in src/sqlparser/src/parser.rs of its repository.
 */
interface Definition {
  /** Columns that are filled by a default if a statement does not name them. */
  readonly defaults: ReadonlySet<string>;
  /** `other`: parts of the row, or by version. */
  readonly conflict: 'update' | 'ignore' | 'other';
}

const token = /'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|\S/g;

export function parseDefinition(sql: string): Definition {
  const tokens: readonly string[] = sql.match(token) ?? [];
  const open = tokens.indexOf('(');
  const defaults = new Set<string>();
  let depth = 0;
  let column = '';
  let at = open;
  for (; at >= 0 && at < tokens.length; at++) {
    const it = tokens[at] ?? '';
    if (it === '(' || it === '<' || it === '[') depth++;
    else if (it === ')' || it === '>' || it === ']') depth--;
    if (depth === 0) break;
    if (depth !== 1) continue;
    if (it === '(' || it === ',') column = nameOf(tokens[at + 1] ?? '');
    else if (it.toLowerCase() === 'default') defaults.add(column);
  }
  const rest = tokens
    .slice(at + 1)
    .join(' ')
    .toLowerCase();
  return { defaults, conflict: conflictOf(rest) };
}

function nameOf(it: string): string {
  return it.startsWith('"') ? it.slice(1, -1).replaceAll('""', '"') : it.toLowerCase();
}

function conflictOf(rest: string): Definition['conflict'] {
  if (/\bwith version column\b/.test(rest)) return 'other';
  const [, how = 'overwrite'] =
    /\bon conflict (do nothing|ignore|overwrite|do update full|\w+ \w+)/.exec(rest) ?? [];
  if (how === 'do nothing' || how === 'ignore') return 'ignore';
  return how === 'overwrite' || how === 'do update full' ? 'update' : 'other';
}
