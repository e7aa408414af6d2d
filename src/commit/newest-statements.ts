/**
 * The SQL of a table with the option `version`: a row is stored only if it is newer than the row of its key, and than the deletion of it that is
 * remembered in headgate.tombstones. Pure; takes a target, returns statement texts with the parameters of those in statements.ts.
 *
 * Each statement but the short one returns one row: NULL, or `stale 0 7`: the places of the rows of `$1` that changed nothing because they were not newer. A deletion
 * has the table to itself (table-statements.ts), so no row passes the tombstone that another transaction is about to leave. Everything that decides
 * is PostgreSQL's own, whatever the owner of the table has made.
 */
import { quoteIdentifier as quote, relationName } from '../kit/sql-text.ts';
import type { Newest, NewestPart, Shape } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import type { Rows } from '../types/rows.ts';
import type { StatementStep } from './statement-step.ts';
import type { Committed, Completed, Failed } from './engine-reply.ts';
import { isMeant } from './plan-lock.ts';
import {
  equals,
  internalName,
  keyed,
  keyMissing,
  keyOnly,
  missing,
  names,
  replacement,
  sortKey,
  underPath,
} from './statements.ts';

/** The value that makes the engine fail when a row has no version. */
export const versionMissing = 'version_missing';

/** The values that make the engine fail when the short statement stores nothing. */
const words = { stale: 'not_newer', buried: 'tombstones' } as const;

/**
 * Whether it failed because the long one has to decide: a row is not newer, there are tombstones, or two rows have one key (21000). A row's own value
 * may say so, too: then the long one fails as well.
 */
export function isUndecided({ sqlstate, message }: Pick<Failed, 'sqlstate' | 'message'>): boolean {
  if (sqlstate === '21000') return true;
  return sqlstate === '22P02' && Object.values(words).some((word) => message.includes(word));
}

/** A text that says how new a row is, in bytes. */
const textBytesMax = 1_024;

const types: Readonly<Record<number, string>> = {
  16: 'bool',
  20: 'int8',
  21: 'int2',
  23: 'int4',
  25: 'text',
  1042: 'bpchar',
  1043: 'text',
  1082: 'date',
  1114: 'timestamp',
  1184: 'timestamptz',
  1700: 'numeric',
  2950: 'uuid',
  3220: 'pg_lsn',
};
const nameOf = (oid: number): string => `pg_catalog.${types[oid] ?? 'text'}`;
const isText = (oid: number): boolean => nameOf(oid) === 'pg_catalog.text';
const isTime = (oid: number): boolean => /date|timestamp/.test(nameOf(oid));

/** Texts are compared byte by byte. */
const ordered = (value: string, type: number): string =>
  isText(type) ? `${value} collate pg_catalog."C"` : value;

/** What a value of a document has to look like, so that reading it never fails: it may be that of a row which something else has stored. */
const forms: Readonly<Record<string, string>> = {
  'pg_catalog.numeric': '^-?[0-9]+([.][0-9]+)?$',
  'pg_catalog.timestamptz':
    '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?([Zz]|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)$',
  'pg_catalog.pg_lsn': '^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$',
};

/** The value by which rows of this alias ('' for none) are compared; NULL: it says nothing. */
function valueOf({ column, type, path }: NewestPart, alias: string): string {
  const place = `${alias === '' ? '' : `${alias}.`}${quote(column)}`;
  if (path === null) return `(${place})::${nameOf(type)}`;
  const steps = `array[${path.map(literal).join(', ')}]::pg_catalog.text[]`;
  const text = `(${place} operator(pg_catalog.#>>) ${steps})`;
  const form = forms[nameOf(type)];
  const fits =
    form === undefined
      ? `pg_catalog.jsonb_typeof(${place} operator(pg_catalog.#>) ${steps}) operator(pg_catalog.=) 'string'`
      : `${text} operator(pg_catalog.~) '${form}'`;
  return `(case when ${fits} then ${text}::${nameOf(type)} end)`;
}

/** Whatever `standard_conforming_strings` says. */
function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/** Whether a value can be a version: not NULL, and not one that nothing can ever be newer than. */
function isVersion(value: string, type: number): string {
  if (isText(type)) return `pg_catalog.octet_length(${value}) operator(pg_catalog.<=) ${textBytesMax}`;
  if (isTime(type)) return `pg_catalog.isfinite(${value})`;
  if (nameOf(type) !== 'pg_catalog.numeric') return `${value} is not null`;
  const than = (sign: string, bound: string) =>
    `${value} operator(pg_catalog.${sign}) '${bound}'::pg_catalog.numeric`;
  return `(${than('>', '-Infinity')} and ${than('<', 'Infinity')})`;
}

/** A value as a tombstone keeps it: a text that any session reads in the same way. */
function kept(value: string, type: number): string {
  const name = nameOf(type);
  if (isTime(type)) return `extract(epoch from ${value})::pg_catalog.text`;
  if (name === 'pg_catalog.pg_lsn')
    return `(${value} operator(pg_catalog.-) '0/0'::pg_catalog.pg_lsn)::pg_catalog.text`;
  if (name === 'pg_catalog.numeric') return `pg_catalog.trim_scale(${value})::pg_catalog.text`;
  return `${value}::pg_catalog.text`;
}

/** The same as it is compared: texts that Headgate has written there itself. */
function keptOrdered(text: string, type: number): string {
  return isText(type) || nameOf(type) === 'pg_catalog.uuid'
    ? `${text} collate pg_catalog."C"`
    : `${text}::pg_catalog.numeric`;
}

/** Whether the values on the left are less; the first that differs decides. */
function less(left: readonly string[], right: readonly string[], orEqual = false): string {
  return left.reduceRight((rest, value, i) => {
    const other = right[i] ?? '';
    const is = (sign: string) => `${value} operator(pg_catalog.${sign}) ${other}`;
    return rest === '' ? is(orEqual ? '<=' : '<') : `(${is('<')} or ${is('=')} and ${rest})`;
  }, '');
}

/** The names and expressions that both statements use. */
class NewestParts {
  readonly newest: Newest;
  readonly versions: readonly string[];
  readonly ord: string;
  readonly row: string;
  readonly hash: string;
  readonly rank: string;
  readonly best: string;
  readonly key: readonly string[];
  readonly #shape: Shape;

  constructor(shape: Shape, newest: Newest, key: readonly string[]) {
    this.#shape = shape;
    this.newest = newest;
    this.key = key;
    this.ord = internalName(shape, 'ord');
    this.row = internalName(shape, 'row');
    this.hash = internalName(shape, 'digest');
    this.rank = internalName(shape, 'rank');
    this.best = internalName(shape, 'best');
    this.versions = newest.parts.map((_, i) => internalName(shape, `version_${i}`));
  }

  /** The decoded rows with their versions. `unless`: further cases of what is wrong with a row, as they stand in CASE. */
  rows(from: string, target: Target, unless: string): string {
    const { parts } = this.newest;
    const values = parts.map((part, i) => `${valueOf(part, '')} as ${this.versions[i] ?? ''}`);
    const path = underPath(target);
    const check = this.#check(this.versions, unless);
    return (
      `select * from (select *, ${values.join(', ')} from ${from} offset 0) as v ` +
      `where ${path === '' ? '' : `${path} and `}${check}`
    );
  }

  #check(values: readonly string[], unless: string): string {
    const fine = this.newest.parts.map(({ type }, i) => isVersion(values[i] ?? '', type)).join(' and ');
    return `(case ${unless}when (${fine}) is not true then '${versionMissing}' else 'true' end)::pg_catalog.bool`;
  }

  /** Fails if a decoded row has no version. `unless`: see rows. */
  haveVersions(unless: string): string {
    const values = this.newest.parts.map((part) => valueOf(part, ''));
    return this.#check(values, unless);
  }

  /** Whether the row of the table is older than the one that would replace it. */
  older(): string {
    const excluded = this.newest.parts.map((part) => ordered(valueOf(part, 'excluded'), part.type));
    return `${this.missing(this.row)} or ${less(this.stored(this.row), excluded, this.newest.replacesEqual)}`;
  }

  /** `kept`: columns that an existing row keeps. A row without a version is refused, so it replaces that. */
  conflict(kept: readonly string[]): string {
    const versions = new Set(this.newest.parts.map(({ column }) => column));
    const left = kept.filter((name) => !versions.has(name));
    return `on conflict (${this.key.join(', ')}) ${replacement(this.#shape, left)}`;
  }

  /** The newest row of each key. */
  winners(from: string): string {
    const key = this.key.join(', ');
    const { parts, replacesEqual } = this.newest;
    const newestFirst = parts.map(({ type }, i) => `${ordered(this.versions[i] ?? '', type)} desc`);
    return (
      `select distinct on (${key}) * from ${from} ` +
      `order by ${key}, ${newestFirst.join(', ')}, ${this.ord}${replacesEqual ? ' desc' : ''}`
    );
  }

  same(left: string, right: string): string {
    return this.#shape.key.map((column) => equals(column, left, right)).join(' and ');
  }

  /** Of decoded rows: their versions as they are compared with each other. */
  decoded(alias: string): string[] {
    return this.newest.parts.map(({ type }, i) => ordered(`${alias}.${this.versions[i] ?? ''}`, type));
  }

  /** Of rows of the table, which may have none. */
  stored(alias: string): string[] {
    return this.newest.parts.map((part) => ordered(valueOf(part, alias), part.type));
  }

  missing(alias: string): string {
    return this.newest.parts.map((part) => `${valueOf(part, alias)} is null`).join(' or ');
  }

  /** Decoded rows as tombstones keep them. */
  kept(alias: string): string[] {
    return this.newest.parts.map(({ type }, i) => kept(`${alias}.${this.versions[i] ?? ''}`, type));
  }

  keptLess(left: readonly string[], right: readonly string[]): string {
    const asOrdered = (texts: readonly string[]) =>
      texts.map((text, i) => keptOrdered(`(${text})`, this.newest.parts[i]?.type ?? 0));
    return less(asOrdered(left), asOrdered(right));
  }

  tombstone(alias: string): string[] {
    return this.newest.parts.map((_, i) => `${alias}.version[${i + 1}]`);
  }

  /** The digest of a key: equal for keys that are. */
  digest(alias: string): string {
    const texts = this.#shape.key.map(({ name }, i) => {
      const type = this.newest.keyTypes[i] ?? 0;
      return kept(`(${alias}.${quote(name)})::${nameOf(type)}`, type);
    });
    const bytes = `pg_catalog.convert_to((array[${texts.join(', ')}])::pg_catalog.text, 'UTF8')`;
    return `pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(${bytes}), 1, 16), 'hex')::pg_catalog.uuid`;
  }

  /**
   * The row that the statement returns: which rows were stale, if fewer than all were applied. `which`: where the keys of those are that were. A row
   * is also stale behind one of the same key that is not older; ranks, and not comparisons with each other, keep many rows of one key cheap.
   */
  told(applied: string, which: string): string {
    const { ord, rank, best } = this;
    const key = this.key.join(', ');
    const ranked = `select ${key}, ${ord}, pg_catalog.dense_rank() over (order by ${this.decoded('r').join(', ')}) as ${rank} from r`;
    const led =
      `select *, pg_catalog.max(${rank}) over (partition by ${key} order by ${ord} ` +
      `rows between unbounded preceding and 1 preceding) as ${best} from (${ranked}) as k`;
    const behind = `l.${best} operator(pg_catalog.${this.newest.replacesEqual ? '>' : '>='}) l.${rank}`;
    const places = `(l.${ord} operator(pg_catalog.-) 1::pg_catalog.int8)::pg_catalog.text`;
    return (
      `select case when (select pg_catalog.count(*) from ${applied}) operator(pg_catalog.<>) (select pg_catalog.count(*) from r) then ` +
      `(select 'stale ' operator(pg_catalog.||) pg_catalog.string_agg(${places}, ' ' order by l.${ord}) ` +
      `from (${led}) as l left join ${which} on ${this.same('s', 'l')} where s.${this.key[0] ?? ''} is null or ${behind}) end`
    );
  }
}

function partsOf(shape: Shape): NewestParts | null {
  const key = sortKey(shape);
  return shape.newest === undefined || key === null ? null : new NewestParts(shape, shape.newest, key);
}

/** Whether rows of this table replace only older ones. */
export function isNewestOnly(target: Target): boolean {
  return partsOf(target.shape) !== null;
}

function tombstonesOf({ oid }: Target): string {
  return `(select * from headgate.tombstones where relation operator(pg_catalog.=) ${oid}::pg_catalog.oid)`;
}

/** Stores the newest row of each key of `$1`, `$2`: see underPath; an existing row keeps its columns of the names `left`. */
export function storeNewestStatement(target: Target, left: readonly string[] = []): string {
  const { shape } = target;
  const parts = partsOf(shape);
  if (parts === null) throw new Error('the table has no versions');
  const columns = names(shape.columns);
  const key = parts.key.join(', ');
  const t = parts.row;
  const buried =
    `exists (select from ${tombstonesOf(target)} b where b.key operator(pg_catalog.=) ${parts.digest('w')} ` +
    `and not ${parts.keptLess(parts.tombstone('b'), parts.kept('w'))})`;
  const noTombstones = `(select not exists (select from ${tombstonesOf(target)} b))`;
  return (
    `with r as materialized (${parts.rows(keyed(shape), target, '')}), stored as (` +
    `insert into ${relationName(target)} as ${t} (${columns}) select ${columns} from (${parts.winners('r')}) as w ` +
    `where ${isMeant(target)} and (${noTombstones} or not ${buried}) order by ${key} ` +
    `${parts.conflict(left)} where ${parts.older()} returning ${parts.key.map((it) => `${t}.${it}`).join(', ')}) ` +
    parts.told('stored', 'stored as s')
  );
}

/**
 * The short statement: stores the rows of `$1` if the table has no tombstones, and fails otherwise (isUndecided). `one`: there is one row, of which the
 * command tag says whether it was stored; of several, it fails unless each has a key of its own and is newer. It costs the engine little more than
 * an upsert, because it does not prepare to say which rows were stale.
 */
export function storeNewerStatement(target: Target, left: readonly string[], one: boolean): string {
  const { shape } = target;
  const parts = partsOf(shape);
  if (parts === null) throw new Error('the table has no versions');
  const columns = names(shape.columns);
  const buried = `when exists (select from ${tombstonesOf(target)} b) then '${words.buried}' `;
  const older = parts.older();
  const order = one ? '' : `order by ${parts.key.join(', ')} `;
  const newer = one ? older : `(case when ${older} then 'true' else '${words.stale}' end)::pg_catalog.bool`;
  return (
    `insert into ${relationName(target)} as ${parts.row} (${columns}) select ${columns} from ${keyed(shape)} ` +
    `where ${isMeant(target)} and ${parts.haveVersions(buried)} ${order}${parts.conflict(left)} where ${newer}`
  );
}

/**
 * Deletes the rows that have the key of a row in `$1` whose byte in `$3` is 1, and are not newer, and remembers each version. `$2`: see
 * underPath. Of the same version the deletion is the newer one.
 */
export function removeOlderStatement(target: Target): string {
  const bare = keyOnly(target.shape);
  const parts = partsOf(bare);
  if (parts === null) throw new Error('the table has no versions');
  const t = parts.row;
  const place = `(${parts.ord} operator(pg_catalog.-) 1::pg_catalog.int8)::pg_catalog.int4`;
  const others = `when pg_catalog.get_byte($3, ${place}) operator(pg_catalog.<>) 1 then 'false' when ${missing(parts.key)} then '${keyMissing}' `;
  const newer = less(parts.decoded('w'), parts.stored(t));
  const only = target.code.inert ? 'only ' : '';
  const table = `${only}${relationName(target)} as ${t}`;
  return (
    `with r as materialized (${parts.rows(keyed(bare), target, others)}), ` +
    `w as materialized (select *, ${parts.digest('k')} as ${parts.hash} from (${parts.winners('r')}) as k), ` +
    `gone as (delete from ${table} using w where ${isMeant(target)} and ${parts.same(t, 'w')} and (${parts.missing(t)} or not ${newer})), ` +
    `put as (insert into headgate.tombstones as b (relation, key, version) ` +
    `select ${target.oid}::pg_catalog.oid::pg_catalog.regclass, w.${parts.hash}, array[${parts.kept('w').join(', ')}] from w ` +
    `where not exists (select from ${table} where ${parts.same(t, 'w')} and ${newer}) order by 2 ` +
    `on conflict (relation, key) do update set version = excluded.version, deleted_at = pg_catalog.now() ` +
    `where ${parts.keptLess(parts.tombstone('b'), parts.tombstone('excluded'))} returning b.key) ` +
    parts.told('put', `(select w.* from w join put on put.key operator(pg_catalog.=) w.${parts.hash}) as s`)
  );
}

/** The rows of these requests are committed; `before`: answers before that of the first step. */
export function committed(
  { stale: said }: Completed,
  steps: readonly StatementStep[],
  before: number,
  members: readonly Rows[],
): Committed {
  if (said === undefined) return { kind: 'committed' };
  const stale = new Map<Rows, number>();
  for (const { completed, places } of said) {
    const rowAt = steps[completed - before]?.rowAt;
    if (rowAt === undefined) continue;
    for (const place of places) {
      const member = memberAt(members, rowAt(place));
      if (member !== undefined) stale.set(member, (stale.get(member) ?? 0) + 1);
    }
  }
  return stale.size === 0 ? { kind: 'committed' } : { kind: 'committed', stale };
}

/** The request that this row of a transaction belongs to. */
function memberAt(members: readonly Rows[], row: number): Rows | undefined {
  let first = 0;
  return members.find(({ count }) => row < (first += count));
}
