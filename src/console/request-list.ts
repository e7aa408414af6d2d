/**
 * One list of all requests: those that the processes of this Headgate remember, and those that the database knows. Takes a filter and a
 * place; returns a page in the order of request-filter.ts, each request once: a page ends between two milliseconds, so that both sources know
 * all of it. The database is asked as the session's role; what is remembered is shown by its rights, the last known ones for a while if it does
 * not answer. Refuses nothing of its own.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { Recall, TailLine, TailSource } from '../observe/tail.ts';
import type { ListAnswer, ListCall, ListCounts, ListedRequest, SqlCall, SqlTable } from './api.ts';
import { anyLine, byArrival, lastOfItsMs, resultOf } from './request-filter.ts';
import { handshakeRow, rejectedRow, timeOf } from './request-rows.ts';
import { countHandshakes, countKept, findKept, listHandshakes, listKept } from './request-statements.ts';
import type { Slice } from './request-statements.ts';
import { maySee, withoutOid } from './tail.ts';
import type { TailRights } from './tail.ts';

export interface RequestSources {
  readonly tail: TailSource;
  /** Reads as the session's role; null: the database does not answer. */
  ask(call: SqlCall): Promise<SqlTable | null>;
  rights(): Promise<TailRights | null>;
}

type ListRow = Readonly<Record<string, string | null>>;

/** Lines of tables that the role does not own are dropped only here, so more of them are asked for. */
const rememberedMax = (rights: TailRights, max: number): number =>
  rights === 'all' || rights.strays ? max : Number.MAX_SAFE_INTEGER;

export async function listRequests(
  { filter, from, counts }: ListCall,
  sources: RequestSources,
): Promise<ListAnswer> {
  const max = limits.listRowsMax;
  const slice: Slice = { from, max: max + 1, scanned: limits.listScannedMax };
  const rights = await sources.rights();
  const [remembered, kept, asked, counted] = await Promise.all([
    filter.stored + filter.checked + filter.cause === ''
      ? recall({ filter, from, max: max + 1 }, rights, sources)
      : [],
    rowsOf(listKept(filter, slice), sources),
    rowsOf(listHandshakes(filter, slice), sources),
    counts ? count(filter, rights, sources) : null,
  ]);
  const away = kept === null || asked === null;
  const hits = (kept ?? []).filter((row) => row['hit'] === 't').map(rejectedRow);
  const questions = (asked ?? []).map(handshakeRow);
  // A text was looked for in a part only: what lies beyond it comes with the next page.
  const lookedAt = filter.text === '' ? undefined : kept?.at(-1);
  const end =
    lookedAt !== undefined && Number(lookedAt['looked']) >= limits.listScannedMax
      ? rejectedRow(lookedAt)
      : null;
  const all = joined(remembered, [...hits, ...questions]).sort(byArrival);
  const within = end === null ? all : all.filter((it) => byArrival(it, end) <= 0);
  const { rows, next } = firstPage(within, within[max] ?? end, max);
  return {
    rows,
    next,
    lookedThrough: lookedAt === undefined ? null : Number(lookedAt['looked']),
    away,
    counts: counted,
  };
}

/** What comes before the millisecond of `beyond`; of that as well if there are more than a page of it. */
function firstPage(
  rows: readonly ListedRequest[],
  beyond: ListedRequest | null,
  max: number,
): Pick<ListAnswer, 'rows' | 'next'> {
  if (beyond === null) return { rows, next: null };
  const whole = rows.slice(0, max).filter(({ arrivedAtMs }) => arrivedAtMs > beyond.arrivedAtMs);
  const last = whole.at(-1);
  if (last !== undefined) return { rows: whole, next: [last.arrivedAtMs, lastOfItsMs] };
  const cut = rows.slice(0, max);
  const { arrivedAtMs, id } = cut.at(-1) ?? beyond;
  return { rows: cut, next: [arrivedAtMs, id] };
}

async function recall(
  of: Recall,
  rights: TailRights | null,
  { tail }: RequestSources,
): Promise<readonly ListedRequest[]> {
  if (rights === null) return [];
  const lines = await tail.recall({ ...of, max: rememberedMax(rights, of.max) });
  const seen = lines.filter((line) => maySee(rights, line)).map(listed);
  return seen.slice(0, of.max);
}

function listed(line: TailLine): ListedRequest {
  return {
    ...withoutOid(line),
    reason: null,
    cause: null,
    authenticated: null,
    keptBytes: null,
    owned: null,
    retry: null,
  };
}

/** A request that was kept is in the database as well, with more; how long its answer took, and the size of a body that was not read, are remembered only here. */
function joined(lines: readonly ListedRequest[], kept: readonly ListedRequest[]): ListedRequest[] {
  const twins = new Map<string, ListedRequest[]>();
  for (const line of lines) twins.set(twinOf(line), [...(twins.get(twinOf(line)) ?? []), line]);
  const whole = kept.map((it) => {
    const twin = twins.get(twinOf(it))?.pop();
    return twin === undefined ? it : { ...it, ms: twin.ms, bytes: it.bytes ?? twin.bytes };
  });
  return [...[...twins.values()].flat(), ...whole];
}

/** What the database says of it as `twins`. A request that was kept on disk can be refused later. */
function twinOf({ arrivedAtMs, address, schema, table, code }: ListedRequest): string {
  const kind = code === 'committed' || code === 'handshake' ? code : 'refused';
  return `${arrivedAtMs} ${address} ${schema} ${table} ${kind}`;
}

function counted(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function taken(left: Map<string, number>, key: string): boolean {
  const n = left.get(key) ?? 0;
  if (n > 0) left.set(key, n - 1);
  return n > 0;
}

async function count(
  filter: ListCall['filter'],
  rights: TailRights | null,
  sources: RequestSources,
): Promise<ListCounts> {
  const any = { ...filter, result: '' };
  const beganMs = Date.now();
  const onlyKept = filter.stored + filter.checked + filter.cause !== '';
  const [lines, all] = await Promise.all([
    onlyKept ? [] : recall({ filter: any, from: null, max: Number.MAX_SAFE_INTEGER }, rights, sources),
    recall({ filter: anyLine, from: null, max: Number.MAX_SAFE_INTEGER }, rights, sources),
  ]);
  const since = all.at(-1)?.arrivedAtMs ?? 0;
  const [[kept], [asked]] = await Promise.all([
    rowsOf(countKept(any, since), sources).then((rows) => rows ?? []),
    rowsOf(countHandshakes(any, since), sources).then((rows) => rows ?? []),
  ]);
  const twins = [kept, asked].flatMap((row) => JSON.parse(row?.['twins'] ?? '[]') as string[]);
  const left = counted(twins);
  const by = { stored: 0, spooled: 0, refused: 0, later: 0, handshake: 0 };
  for (const line of lines) if (!taken(left, twinOf(line))) by[resultOf(line)] += 1;
  by.refused += Number(kept?.['requests'] ?? 0);
  by.handshake += Number(asked?.['requests'] ?? 0);
  return {
    by,
    kept: Number(kept?.['requests'] ?? 0),
    // A text is counted only where it was looked for.
    whole: filter.text === '',
    rememberedSinceMs: since === 0 ? null : since,
    forgottenMs: forgottenOf(all) ?? beganMs,
    refusedSinceMs: sinceMs(kept?.['since']),
    handshakesSinceMs: sinceMs(asked?.['since']),
  };
}

/**
 * Since when all of them are remembered, newest first: each process keeps its last ones, so the one that has forgotten the latest decides. null: there
 * is none. Ids are the process's name and a number from 0 on (tail-source.ts).
 */
export function forgottenOf(lines: readonly Pick<TailLine, 'id' | 'arrivedAtMs'>[]): number | null {
  const oldest = new Map(lines.map((line) => [line.id.slice(0, line.id.lastIndexOf('.')), line]));
  const full = [...oldest.values()].filter(({ id }) => !id.endsWith('.0'));
  const [first] = [...oldest.values()].toSorted(byArrival).slice(-1);
  if (first === undefined) return null;
  return Math.max(first.arrivedAtMs, ...full.map(({ arrivedAtMs }) => arrivedAtMs));
}

/** A request that is remembered, by its id; the id under which it was kept, if it was. null: it is forgotten, or not of the role's. */
export async function findRequest(id: string, sources: RequestSources): Promise<ListedRequest | null> {
  const rights = await sources.rights();
  const of = { filter: { ...anyLine, text: id }, from: null, max: Number.MAX_SAFE_INTEGER };
  const found = (await recall(of, rights, sources)).find((line) => line.id === id);
  if (found === undefined) return null;
  if (found.table === '' || resultOf(found) !== 'refused') return found;
  const [kept] = (await rowsOf(findKept(found), sources)) ?? [];
  return kept === undefined ? found : { ...found, id: `r${kept['id']}` };
}

/** null: the database does not answer. */
async function rowsOf(sql: string | null, sources: RequestSources): Promise<readonly ListRow[] | null> {
  if (sql === null) return [];
  try {
    const table = await sources.ask({ sql, write: false, own: true });
    if (table === null) return null;
    return table.rows.map((row) =>
      Object.fromEntries(table.columns.map(({ name }, i) => [name, row[i] ?? null])),
    );
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === 'engine_unavailable') return null;
    throw error;
  }
}

const sinceMs = (text: string | null | undefined): number | null =>
  text === null || text === undefined ? null : timeOf(text);
