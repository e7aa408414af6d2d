/**
 * `headgate/client`: rows and SQL for a Headgate events gateway, from Node and from browsers. Takes rows and statements, returns row
 * counts and results; throws HeadgateError. Uses nothing but `fetch`.
 */
import { follow } from './follow.ts';
import type { Followed } from './follow.ts';
import { toJson } from './json.ts';
import { canGzip, send } from './request.ts';
import type { RequestOptions } from './request.ts';
import { work } from './work.ts';
import type { Handler, WorkOptions } from './work.ts';

export { HeadgateError } from './request.ts';
export type { HeadgateErrorFields } from './request.ts';
export type { Followed } from './follow.ts';
export type { LeaseColumns } from './lease.ts';
export type { Effect, Handler, Job, WorkOptions } from './work.ts';

export interface ClientOptions {
  /** The gateway's URL, e.g. `http://127.0.0.1:8000`. */
  readonly url: string;
  /** The value of EVENTS_API_TOKEN. */
  readonly token?: string;
  /** Which of the gateway's databases; default: its first. */
  readonly database?: string;
  /** Whether bodies are compressed; default: if the platform supports it. */
  readonly gzip?: boolean;
  /** How often a request is retried when the gateway says "later"; default 8. */
  readonly retries?: number;
  /** How long one request is tried in total, in ms; default 60000. */
  readonly retryMs?: number;
  /** Replaces the global one. */
  readonly fetch?: typeof fetch;
}

export interface InsertOptions {
  /** A row whose primary key already exists: refuses its batch (default), replaces the old row, or is left out. */
  readonly onConflict?: 'error' | 'update' | 'ignore';
  /** `skip`: commits the good rows of a batch and lists the bad ones; default `fail`. */
  readonly onError?: 'fail' | 'skip';
  /** Rows of one request, i.e. of one transaction; default 5000. */
  readonly batchRows?: number;
  /** Bytes of one request before compression; default 1 MiB, the size up to which the gateway commits it together with others. */
  readonly batchBytes?: number;
  readonly signal?: AbortSignal;
}

export interface FollowOptions {
  /** Where to continue: a `Followed.position`; `0`: all rows of the table first. Default: from now on. */
  readonly after?: string;
  /** A row has a position of its own at least every so many rows, 1 to 10000; default 1. More of them spare bytes. */
  readonly batch?: number;
  readonly signal?: AbortSignal;
}

export interface Inserted {
  /** Committed rows. */
  readonly rows: number;
  /** With `onError: 'skip'`: rows that were left out, by their index among all given rows, from 0; at most 1000 a batch. */
  readonly skipped: readonly { readonly row: number; readonly error: string }[];
  readonly skippedTotal: number;
}

/** A value of a result: digits that a number cannot hold become a BigInt, or a string if there is a decimal point. */
export type SqlValue = unknown;

export interface SqlAnswer<Row = Readonly<Record<string, SqlValue>>> {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Row[];
  readonly rowsAffected: number;
  readonly command: string;
  /** For several statements: the answer to each. */
  readonly results?: readonly Omit<SqlAnswer<Row>, 'results' | 'notices'>[];
  readonly notices?: readonly { readonly severity: string; readonly message: string }[];
}

export interface Client {
  /**
   * Inserts objects whose keys are columns. Rows are sent in batches, in order, each all or nothing; a batch that is refused throws, and
   * earlier ones stay. HeadgateError.line is then the number of the row in its batch, from 1.
   */
  insert(
    table: string,
    rows: Iterable<object> | AsyncIterable<object> | object,
    options?: InsertOptions,
  ): Promise<Inserted>;
  /**
   * The rows of a table as they are committed, each at least once. Reconnects when the gateway was unreachable, within the client's
   * `retries` and `retryMs`; throws its refusals. Leaving the loop closes the stream.
   */
  follow<Row = Readonly<Record<string, SqlValue>>>(
    table: string,
    options?: FollowOptions,
  ): AsyncIterable<Followed<Row>>;
  /**
   * Acts on each row of a table at least once (docs/workers.md): claims rows for a time, runs the handler, marks them as done, and tries again later those whose
   * handler throws. Resolves once `signal` has ended it and its handlers have ended; throws the gateway's refusals.
   */
  work<Row = Readonly<Record<string, SqlValue>>>(
    table: string,
    handler: Handler<Row>,
    options?: WorkOptions,
  ): Promise<void>;
  /** `` sql`select * from t where id = ${id}` ``: each value is a parameter, never a part of the text. */
  sql<Row = Readonly<Record<string, SqlValue>>>(
    strings: TemplateStringsArray,
    ...values: readonly unknown[]
  ): Promise<SqlAnswer<Row>>;
  /** The same with the text and its parameters `$1` … separate; without parameters the text may contain several statements. */
  query<Row = Readonly<Record<string, SqlValue>>>(
    text: string,
    params?: readonly unknown[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<SqlAnswer<Row>>;
}

const batchRowsDefault = 5_000;
const batchBytesDefault = 1024 * 1024;
/** Below this size gzip costs more than it saves. */
const gzipCharsMin = 1_024;

export function createClient(options: ClientOptions): Client {
  const request: RequestOptions = {
    url: options.url.replace(/\/+$/, ''),
    token: options.token,
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    retries: options.retries ?? 8,
    retryMs: options.retryMs ?? 60_000,
  };
  const gzips = (options.gzip ?? true) && canGzip();
  const path: PathOf = (route, parameters) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...parameters, database: options.database })) {
      if (value !== undefined) query.set(name, value);
    }
    const text = query.toString();
    return text === '' ? route : `${route}?${text}`;
  };
  const { run, each } = sqlRunner(request, path);
  const query: Client['query'] = <Row>(
    text: string,
    params: readonly unknown[] = [],
    { signal }: { readonly signal?: AbortSignal } = {},
  ) => run<Row>(text, params, false, signal);
  return {
    query,
    work: (table, handler, workOptions) =>
      work(
        (text, params, repeatable) => run<object>(text, params, repeatable),
        (text, sets) => each(text, sets),
        table,
        handler,
        workOptions,
      ),
    follow: <Row>(table: string, { after, batch = 1, signal }: FollowOptions = {}) =>
      follow<Row>(
        request,
        (position) => path('/v1/events', { name: table, after: position, batch: String(batch) }),
        after,
        signal,
      ),
    sql: <Row>(strings: TemplateStringsArray, ...values: readonly unknown[]) =>
      query<Row>(
        strings.reduce((text, part, index) => `${text}$${index}${part}`),
        values,
      ),
    insert: async (table, rows, insertOptions = {}) => {
      const { onConflict, onError, signal } = insertOptions;
      const target = path('/v1/events', { name: table, on_conflict: onConflict, on_error: onError });
      const total = { rows: 0, skipped: [] as { row: number; error: string }[], skippedTotal: 0 };
      for await (const batch of batches(rows, insertOptions)) {
        const answer = (await send(request, {
          path: target,
          contentType: 'application/x-ndjson',
          body: batch.body,
          gzip: gzips && batch.body.length >= gzipCharsMin,
          repeatable: onConflict === 'update' || onConflict === 'ignore',
          signal,
        })) as { rows: number; skipped?: { line: number; error: string }[]; skippedTotal?: number };
        total.rows += answer.rows;
        total.skippedTotal += answer.skippedTotal ?? 0;
        for (const { line, error } of answer.skipped ?? []) {
          total.skipped.push({ row: batch.firstRow + line - 1, error });
        }
      }
      return total;
    },
  };
}

type PathOf = (route: string, parameters: Readonly<Record<string, string | undefined>>) => string;

/** `repeatable`: the statement may take effect twice. */
function sqlRunner(request: RequestOptions, path: PathOf) {
  const sent = (statement: object, repeatable: boolean, signal?: AbortSignal): Promise<unknown> =>
    send(request, {
      path: path('/v1/sql', {}),
      contentType: 'application/json',
      body: toJson(statement),
      gzip: false,
      repeatable,
      signal,
    });
  return {
    run: async <Row>(
      text: string,
      params: readonly unknown[],
      repeatable: boolean,
      signal?: AbortSignal,
    ): Promise<SqlAnswer<Row>> => {
      const statement = params.length === 0 ? { sql: text } : { sql: text, params: [...params] };
      return (await sent(statement, repeatable, signal)) as SqlAnswer<Row>;
    },
    /** Once with each set of parameters, in one transaction, which may take effect twice. An earlier gateway refuses several sets. */
    each: (text: string, sets: readonly (readonly unknown[])[]): Promise<unknown> =>
      sent(sets.length === 1 ? { sql: text, params: sets[0] } : { sql: text, each: sets }, true),
  };
}

interface Batch {
  readonly body: string;
  /** The index of its first row among all, from 0. */
  readonly firstRow: number;
}

async function* batches(
  rows: Iterable<object> | AsyncIterable<object> | object,
  { batchRows = batchRowsDefault, batchBytes = batchBytesDefault }: InsertOptions,
): AsyncGenerator<Batch> {
  let lines: string[] = [];
  let bytes = 0;
  let count = 0;
  const take = (): Batch => {
    const batch = { body: lines.join('\n'), firstRow: count - lines.length };
    lines = [];
    bytes = 0;
    return batch;
  };
  for await (const row of isMany(rows) ? rows : [rows]) {
    const line = toJson(row);
    const length = byteLength(line) + 1;
    if (lines.length > 0 && (lines.length >= batchRows || bytes + length > batchBytes)) yield take();
    lines.push(line);
    bytes += length;
    count++;
  }
  if (lines.length > 0) yield take();
}

function isMany(rows: object): rows is Iterable<object> | AsyncIterable<object> {
  return Symbol.iterator in rows || Symbol.asyncIterator in rows;
}

function byteLength(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    // A surrogate pair is two units and four bytes.
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
