/**
 * What a list of kept requests is asked for, and the same as conditions on headgate.rejected_requests, or on another relation of kept requests. Takes a
 * filter, returns SQL. Pure; a condition means the same in psql (statements.ts).
 */
import type { LineFilter } from '../observe/tail.ts';
import { literal, time } from './quote.ts';
import { anyLine } from './request-filter.ts';

/** What only a request that was kept can be asked for. */
export interface KeptFilter extends LineFilter {
  /** `yes`, `no`: whether it was retried and is stored; '': both. */
  readonly stored: string;
  /** `yes`, `no`: whether VALIDATE had accepted it. */
  readonly checked: string;
  /** Its `cause`, by kind. */
  readonly cause: string;
}

export const anyKept: KeptFilter = { ...anyLine, stored: '', checked: '', cause: '' };

/** WHERE for headgate.rejected_requests: all conditions of a filter, its text too, and `more`; none match if it is about others. */
export function whereKept(filter: KeptFilter, more: readonly string[] = []): string {
  const conditions = refusedConditions(filter) ?? ['false'];
  return where([...conditions, ...(filter.text === '' ? [] : [holdsText(filter.text)]), ...more]);
}

export const where = (all: readonly string[]): string =>
  all.length === 0 ? '' : `\n  WHERE ${all.join('\n    AND ')}`;

/** null: none of them is a refused one. */
export function refusedConditions(filter: KeptFilter): readonly string[] | null {
  const { result, code, sender, event, stored, checked, cause } = filter;
  if (result !== '' && result !== 'refused') return null;
  const isStored = `retry_outcome IS NOT DISTINCT FROM 'committed'::text`;
  return [
    ...ofTableAndTime(filter, 'received_at'),
    ...(code === '' ? [] : [`code = ${literal(code)}`]),
    ...(sender === '' ? [] : [`sender = ${literal(sender)}`]),
    ...(event === '' ? [] : [`event = ${literal(event)}`]),
    ...(cause === '' ? [] : [`(cause ->> 'kind'::text) = ${literal(cause)}`]),
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
