/**
 * A group of requests → one INSERT → one outcome per request. Takes groups, returns outcomes; refuses with `payload_undecodable`,
 * `row_refused`, `engine_unavailable`, `table_changed`, `relation_not_writable` and `commit_unknown`. Uses sessions of RisingWave.
 *
 * There are no transactions: one INSERT is stored as a whole or not at all, and two INSERTs are independent. So a request is never split
 * over two. When an INSERT fails, the rows at fault are searched for without storing any (row-at-fault.ts). If there are any, the INSERT failed
 * because of them, before anything was written, and is repeated without them. If there are none, it is not known whether the INSERT was
 * stored, unless RisingWave's message says that it was never begun.
 */
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import type { Group, GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { encodeRows, insertSql } from './encode.ts';
import type { BadRow, Encoded } from './encode.ts';
import { causeOf, RowSearch } from './row-at-fault.ts';
import type { RequestRow, Probe } from './row-at-fault.ts';
import { columnsOf } from './relations.ts';
import type { RwSessions } from './sessions.ts';
import { printType } from './types.ts';

interface RwContext extends Pick<StageContext, 'observe' | 'clock'> {
  readonly sessions: Pick<RwSessions, 'run'>;
  /** How long a group may take, in ms. */
  readonly deadlineMs: number;
}

export class RwCommit implements GroupCommit {
  readonly #context: RwContext;

  constructor(
    sessions: Pick<RwSessions, 'run'>,
    deadlineMs: number,
    { observe, clock }: Pick<StageContext, 'observe' | 'clock'>,
  ) {
    this.#context = { sessions, deadlineMs, observe, clock };
  }

  /** `as`: the table that is reported. */
  commit(group: Group, as = group.target): Promise<readonly Outcome[]> {
    return commitGroup(this.#context, group, as);
  }

  /** Stores all of a group, or nothing of it. Never rejects. */
  store(group: Group): Promise<Stored> {
    return storeWhole(this.#context, group);
  }

  /** The rows that RisingWave would refuse, in order; nothing is stored. null: that could not be determined in `timeoutMs`. */
  badRows(rows: Rows, timeoutMs: number): Promise<readonly BadRow[] | null> {
    return badRows(this.#context, rows, timeoutMs);
  }
}

export type Stored =
  | { readonly kind: 'stored' }
  /** The table has changed. */
  | { readonly kind: 'changed' }
  /**
   * `away`: it may be temporary. `slow`: it failed, but an INSERT of no rows works. For both it is not known whether
   * the group is stored.
   */
  | { readonly kind: 'away' | 'slow' | 'refused'; readonly refusal: Refusal };

/** A request that waits for its INSERT. */
interface WaitingInsert {
  readonly place: number;
  readonly rows: Rows;
  readonly encoded: Encoded;
}

async function commitGroup(options: RwContext, group: Group, as: Target): Promise<readonly Outcome[]> {
  const started = options.clock();
  const leftMs = (): number => options.deadlineMs - (options.clock() - started);
  const outcomes: (Outcome | undefined)[] = group.members.map(() => undefined);
  const batches = new Map<string, WaitingInsert[]>();
  for (const [place, rows] of group.members.entries()) {
    const encoded = encodeRows(rows, null);
    if ('refusal' in encoded) {
      outcomes[place] = { kind: 'aborted', ...encoded };
      continue;
    }
    const names = encoded.columns.map(({ name }) => name).join('\0');
    const batch = batches.get(names);
    if (batch === undefined) batches.set(names, [{ place, rows, encoded }]);
    else batch.push({ place, rows, encoded });
  }
  for (const batch of batches.values()) {
    for (const [place, outcome] of await insertAll(options, batch, leftMs)) outcomes[place] = outcome;
  }
  const settled = outcomes.map((outcome) => outcome ?? unknown);
  tell(options, { ...group, target: as }, settled, (options.clock() - started) / 1_000);
  return settled;
}

async function storeWhole(options: RwContext, group: Group): Promise<Stored> {
  const until = options.clock() + options.deadlineMs;
  const leftMs = (): number => until - options.clock();
  const members: WaitingInsert[] = [];
  for (const [place, rows] of group.members.entries()) {
    const encoded = encodeRows(rows, null);
    if ('refusal' in encoded) return { kind: 'refused', refusal: encoded.refusal };
    members.push({ place, rows, encoded });
  }
  const answer = await insert(options, members, leftMs());
  if (!('failed' in answer) && answer.kind === 'committed') return { kind: 'stored' };
  const [bad] = 'failed' in answer ? ((await judge(options, members, leftMs())) ?? []) : [];
  if (bad !== undefined) return { kind: 'refused', refusal: bad.refusal };
  const { kind, refusal: why } = 'failed' in answer ? withoutFault(answer.failed) : answer;
  if (why.code === 'table_changed') return { kind: 'changed' };
  const isAlone =
    kind === 'unknown' && leftMs() > 0 && (await storesNothing(options, group.target, leftMs()));
  return { kind: isAlone ? 'slow' : 'away', refusal: why };
}

/** Whether an INSERT of no rows succeeds: it needs everything that an INSERT of rows needs. */
async function storesNothing({ sessions }: RwContext, target: Target, timeoutMs: number): Promise<boolean> {
  const column = columnsOf(target).find(({ type }) => type.kind === 'scalar');
  if (column === undefined) return false;
  const sql = `insert into ${relationName(target)} (${quoteIdentifier(column.name)}) select NULL::${printType(column.type)} where false`;
  return (await sessions.run(target.database, sql, timeoutMs)).kind === 'done';
}

/** The outcome for each place. */
async function insertAll(
  options: RwContext,
  batch: readonly WaitingInsert[],
  leftMs: () => number,
): Promise<Map<number, Outcome>> {
  const outcomes = new Map<number, Outcome>();
  let left = batch;
  // Each round except the last refuses a request.
  while (left.length > 0) {
    const answer = await insert(options, left, leftMs());
    if (!('failed' in answer)) {
      for (const { place, rows } of left)
        outcomes.set(place, answer.kind === 'committed' ? { kind: 'committed', rows: rows.count } : answer);
      return outcomes;
    }
    const bad = await judge(options, left, leftMs());
    if (bad === null || bad.length === 0) {
      for (const { place } of left) outcomes.set(place, withoutFault(answer.failed));
      return outcomes;
    }
    for (const { rows, row, refusal: why } of bad) {
      const member = left.find((it) => it.rows === rows);
      if (member !== undefined && !outcomes.has(member.place))
        outcomes.set(member.place, { kind: 'aborted', refusal: why, row });
    }
    left = left.filter(({ place }) => !outcomes.has(place));
  }
  return outcomes;
}

async function insert(
  { sessions }: RwContext,
  members: readonly WaitingInsert[],
  timeoutMs: number,
): Promise<Outcome | { readonly failed: string }> {
  const [first] = members;
  if (first === undefined) throw new Error('a group has at least one member');
  const { rows, encoded } = first;
  const tuples = members.flatMap((member) => member.encoded.tuples);
  if (timeoutMs <= 0) return away;
  const answer = await sessions.run(
    rows.target.database,
    insertSql(rows, encoded.columns, tuples),
    timeoutMs,
  );
  switch (answer.kind) {
    case 'done':
      // If the server answers with anything else, nothing is known to be stored.
      return answer.result.command === 'INSERT' ? { kind: 'committed', rows: tuples.length } : unknown;
    case 'failed':
      return { failed: answer.error.message };
    case 'lost':
      return unknown;
    case 'away':
      return away;
  }
}

/** null: it is not known which rows were at fault. */
function judge(
  options: RwContext,
  members: readonly WaitingInsert[],
  timeoutMs: number,
): Promise<readonly (RequestRow & BadRow)[] | null> {
  const places = members.flatMap(({ rows }) =>
    Array.from({ length: rows.count }, (_, row): RequestRow => ({ rows, row })),
  );
  const [first] = members;
  if (first === undefined) return Promise.resolve([]);
  return new RowSearch(probeOf(options, first.rows, timeoutMs), first.encoded.columns).bad(
    places,
    'one each',
  );
}

function probeOf({ sessions, clock }: RwContext, { target }: Rows, timeoutMs: number): Probe {
  const until = clock() + timeoutMs;
  return async (sql) => {
    const leftMs = until - clock();
    if (leftMs <= 0) return undefined;
    const answer = await sessions.run(target.database, sql, leftMs);
    if (answer.kind === 'done') return null;
    return answer.kind === 'failed' ? causeOf(answer.error.message) : undefined;
  };
}

async function badRows(options: RwContext, rows: Rows, timeoutMs: number): Promise<readonly BadRow[] | null> {
  const bad: BadRow[] = [];
  const encoded = encodeRows(rows, (it) => bad.push(it));
  if ('refusal' in encoded) throw new Error('rows that are skipped are none that end it');
  const without = new Set(bad.map(({ row }) => row));
  const places = Array.from({ length: rows.count }, (_, row): RequestRow => ({ rows, row })).filter(
    ({ row }) => !without.has(row),
  );
  if (places.length === 0) return bad;
  const probe = probeOf(options, rows, timeoutMs);
  const found = await new RowSearch(probe, encoded.columns).bad(places, 'all');
  return found === null ? null : [...bad, ...found].toSorted((a, b) => a.row - b.row);
}

/** What RisingWave's frontend reports before it has begun anything (ErrorCode in src/frontend/src/error.rs). */
const neverBegun =
  /Catalog error|Bind error|Failed to bind|Invalid input syntax|sql parser error|Item not found|Server throttled/;

function withoutFault(report: string): Exclude<Outcome, { kind: 'committed' }> {
  if (report.includes('Permission denied'))
    return aborted(
      refusal('relation_not_writable', 'the role that the gateway logs in as may not insert into the table'),
    );
  if (report.includes('Server throttled')) return away;
  return neverBegun.test(report) ? aborted(refusal('table_changed')) : unknown;
}

const aborted = (why: Refusal) => ({ kind: 'aborted', refusal: why }) as const;
const away = aborted(refusal('engine_unavailable'));
const unknown = { kind: 'unknown', refusal: refusal('commit_unknown') } as const;

function tell(
  { observe }: RwContext,
  { target: table, members }: Group,
  outcomes: readonly Outcome[],
  seconds: number,
): void {
  let rows = 0;
  let bytes = 0;
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome.kind !== 'committed') continue;
    rows += outcome.rows;
    bytes += members[i]?.bytes ?? 0;
  }
  if (rows > 0) observe({ kind: 'group.committed', table, rows, bytes, seconds });
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome.kind === 'committed') continue;
    const { code, message: reason } = outcome.refusal;
    const count = members[i]?.count ?? 0;
    if (outcome.kind === 'unknown') return observe({ kind: 'group.unknown', table, rows: count, reason });
    if (refusals[code].status >= 500)
      return observe({
        kind: 'group.aborted',
        table,
        rows: count,
        sqlstate: refusals[code].sqlstate,
        reason,
      });
  }
}
