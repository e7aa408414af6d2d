/**
 * Which requests a list shows, and in which order: the newest arrival first, those of the same millisecond by their ids. A place in the
 * list is an arrival and an id. Pure: the server, its listener processes and the page use it.
 */
import type { LineFilter, TailLine } from '../observe/tail.ts';

/** What became of a request. `later`: its sender was told to come again. */
export type RequestResult = 'stored' | 'spooled' | 'refused' | 'later' | 'handshake';

type FilteredOutcome = Pick<TailLine, 'status' | 'code'>;

export function resultOf({ status, code }: FilteredOutcome): RequestResult {
  if (code === 'committed') return 'stored';
  if (code === 'spooled' || code === 'handshake') return code;
  return status >= 500 || status === 429 || status === 408 ? 'later' : 'refused';
}

export const anyLine: LineFilter = {
  result: '',
  schema: '',
  table: '',
  code: '',
  sender: '',
  event: '',
  text: '',
  fromMs: 0,
  untilMs: 0,
};

export function matchesLine(line: TailLine, filter: LineFilter): boolean {
  const { result, schema, table, code, sender, event, text, fromMs, untilMs } = filter;
  const { arrivedAtMs } = line;
  return (
    (result === '' || resultOf(line) === result) &&
    (schema === '' || line.schema === schema) &&
    (table === '' || line.table === table) &&
    (code === '' || line.code === code) &&
    (sender === '' || line.sender === sender) &&
    (event === '' || line.event === event) &&
    (fromMs === 0 || arrivedAtMs >= fromMs) &&
    (untilMs === 0 || arrivedAtMs < untilMs) &&
    (text === '' || says(line, text))
  );
}

function says({ id, address, path = '', schema, table, event = '' }: TailLine, text: string): boolean {
  const wanted = text.toLowerCase();
  return (
    id === text ||
    address === text ||
    [path, `${schema}.${table}`, event].some((it) => it.toLowerCase().includes(wanted))
  );
}

/** Ids end in a number: `ring.12`, `r12`. */
const numberOf = (id: string): number => Number(/\d+$/.exec(id)?.[0] ?? 0);

type PlacedLine = Pick<TailLine, 'arrivedAtMs' | 'id'>;

/** Negative: `a` comes first. What is remembered comes before what is stored, if both are of one millisecond. */
export function byArrival(a: PlacedLine, b: PlacedLine): number {
  return (
    b.arrivedAtMs - a.arrivedAtMs ||
    rankOf(a.id) - rankOf(b.id) ||
    numberOf(b.id) - numberOf(a.id) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
  );
}

/** Whether it is the id of a refused request that was kept: `r` and its id in headgate.rejected_requests. */
export const isKept = (id: string): boolean => /^r\d+$/.test(id);

/** 0: remembered, 1: refused and kept, 2: a handshake that was kept. */
export const rankOf = (id: string): number => (isKept(id) ? 1 : /^h\d+$/.test(id) ? 2 : 0);

/** The id of a place after all requests of its millisecond: handshakes come last, and their numbers begin at 1. */
export const lastOfItsMs = 'h0';

export const isBeyond = (line: PlacedLine, [arrivedAtMs, id]: readonly [number, string]): boolean =>
  byArrival(line, { arrivedAtMs, id }) > 0;
