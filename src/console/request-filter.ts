/**
 * Which requests a list shows, and in which order: the newest arrival first, those of the same millisecond by their ids. A place in the
 * list is an arrival and an id. A filter is told of a request that is remembered, and as conditions on headgate.rejected_requests, or on another relation
 * of kept requests: a condition means the same in psql (statements.ts). Pure: the server, its listener processes and the page use it.
 */
import type { LineFilter, TailLine } from '../observe/tail.ts';
import { literal, time } from './quote.ts';
import { reasonOf } from './statements.ts';

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

/** What only a request that was kept can be asked for. */
export interface KeptFilter extends LineFilter {
  /** `yes`, `no`: whether it was retried and is stored; '': both. */
  readonly stored: string;
  /** `yes`, `no`: whether VALIDATE had accepted it. */
  readonly checked: string;
  /** As `reasonOf` says it. */
  readonly cause: string;
}

export const anyKept: KeptFilter = { ...anyLine, stored: '', checked: '', cause: '' };

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

/** WHERE for headgate.rejected_requests: all conditions of a filter, its text too, and `more`; none match if it is about others. */
export function whereKept(filter: KeptFilter, more: readonly string[] = []): string {
  const conditions = refusedConditions(filter) ?? ['false'];
  return where([...conditions, ...(filter.text === '' ? [] : [holdsText(filter.text)]), ...more]);
}

export const where = (all: readonly string[]): string =>
  all.length === 0 ? '' : `\n  WHERE ${all.join('\n    AND ')}`;

/** Condition on headgate.rejected_requests: it was retried and is stored. */
export const isStored = `retry_outcome IS NOT DISTINCT FROM 'committed'::text`;

/** null: none of them is a refused one. */
export function refusedConditions(filter: KeptFilter): readonly string[] | null {
  const { result, code, sender, event, stored, checked, cause } = filter;
  if (result !== '' && result !== 'refused') return null;
  return [
    ...ofTableAndTime(filter, 'received_at'),
    ...(code === '' ? [] : [`code = ${literal(code)}`]),
    ...(sender === '' ? [] : [`sender = ${literal(sender)}`]),
    ...(event === '' ? [] : [`event = ${literal(event)}`]),
    ...(cause === '' ? [] : [`${reasonOf('')} = ${literal(cause)}`]),
    ...(stored === '' ? [] : [stored === 'yes' ? isStored : `NOT (${isStored})`]),
    ...(checked === 'yes' || checked === 'no' ? [`${checked === 'no' ? 'NOT ' : ''}authenticated`] : []),
  ];
}

/** `column`: of the time of arrival. */
export function ofTableAndTime(filter: LineFilter, column: string): string[] {
  const { schema, table, fromMs, untilMs } = filter;
  return [
    ...(schema === '' ? [] : [`schema_name = ${literal(schema)}`]),
    ...(table === '' ? [] : [`table_name = ${literal(table)}`]),
    ...(fromMs === 0 ? [] : [`${column} >= ${time(fromMs)}`]),
    ...(untilMs === 0 ? [] : [`${column} < ${time(untilMs)}`]),
  ];
}

/** In its reason, path, event, address, id, headers that were kept, or body. */
export function holdsText(text: string): string {
  const [exact, lower] = [literal(text), `lower(${literal(text)})`];
  return `(strpos(lower(reason), ${lower}) > 0 OR strpos(lower(target), ${lower}) > 0 OR strpos(lower(event), ${lower}) > 0
    OR strpos(lower(pg_catalog.concat(schema_name, '.'::text, table_name)), ${lower}) > 0
    OR remote_address = ${exact} OR pg_catalog.concat('r', id) = ${exact} OR strpos(lower(headers::text), ${lower}) > 0
    OR position(pg_catalog.convert_to(${exact}, 'UTF8') IN body) > 0)`;
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
