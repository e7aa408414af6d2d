/** Rows of headgate.rejected_requests and headgate.handshakes as requests of the list, for the server and for the page. Pure. */
import type { ListedRequest } from './api.ts';

type RowOfTexts = Readonly<Record<string, string | null>>;

/** ms since 1970, of a time as PostgreSQL writes it: `2026-01-31 12:00:00.123456+00`; NaN for NULL. */
export function timeOf(text: string | null): number {
  return text === null ? NaN : Date.parse(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
}

/** Which refused requests have such rows; the limits are those of limits-requests.ts. Apart from explained.ts, which the first page does not load. */
export const keptLimits =
  'Of the requests that a table refuses 1,000 that passed its check and 100 others are kept at once, and of each kind 10 a second after that; of all these the newest of a database, up to HEADGATE_REJECTED_ROWS_MAX, for HEADGATE_REJECTED_DAYS. Requests that broke off, came by another method or to no table are never kept.';

export function rejectedRow(row: RowOfTexts): ListedRequest {
  const text = (name: string): string => row[name] ?? '';
  const optional = {
    ...((row['sender'] ?? null) === null ? {} : { sender: text('sender') }),
    ...((row['event'] ?? null) === null ? {} : { event: text('event') }),
  };
  return {
    id: `r${text('id')}`,
    atMs: timeOf(row['received_at'] ?? null),
    arrivedAtMs: timeOf(row['received_at'] ?? null),
    database: '',
    schema: text('schema_name'),
    table: text('table_name'),
    door: text('door') as ListedRequest['door'],
    status: Number(text('status')),
    code: text('code'),
    rows: 0,
    bytes: (row['body_bytes'] ?? null) === null ? null : Number(row['body_bytes']),
    ms: 0,
    address: text('remote_address'),
    ...optional,
    reason: text('reason'),
    cause: (row['cause'] ?? null) === null ? null : (JSON.parse(text('cause')) as ListedRequest['cause']),
    authenticated: row['authenticated'] === 't',
    keptBytes: (row['kept_bytes'] ?? null) === null ? null : Number(row['kept_bytes']),
    owned: row['owned'] !== 'f',
    retry: row['retry_outcome'] ?? null,
  };
}

export function handshakeRow(row: RowOfTexts): ListedRequest {
  const text = (name: string): string => row[name] ?? '';
  return {
    id: `h${text('id')}`,
    atMs: timeOf(row['asked_at'] ?? null),
    arrivedAtMs: timeOf(row['asked_at'] ?? null),
    database: '',
    schema: text('schema_name'),
    table: text('table_name'),
    door: 'http',
    status: Number(text('status')),
    code: text('outcome') === 'answered' ? 'handshake' : `handshake_${text('outcome')}`,
    rows: 0,
    bytes: null,
    ms: 0,
    address: text('remote_address'),
    reason: null,
    cause: null,
    authenticated: null,
    keptBytes: null,
    owned: null,
    retry: null,
  };
}
