/**
 * One request of /v1/sql on one connection: query objects for node-postgres that write the statement, followed
 * immediately by the DISCARD ALL that resets the session, and read how both ended.
 *
 * Ends: `done`; `failed` if the engine refused with an error; `too_large` or `copying` if reading was abandoned, which
 * costs the connection; `lost` if the connection ended. A connection is `clean`, and may be borrowed again, only once the
 * engine has reported that DISCARD ALL is complete and the session idle.
 */
import type { Socket } from 'node:net';
import type { Connection, DatabaseError, PoolClient } from 'pg';
import { cutOff, readInTurn } from '../engine/close-client.ts';
import { freeBuffer } from '../kit/free-buffer.ts';
import type { Semaphore } from '../kit/semaphore.ts';
import { limits } from '../config/limits.ts';
import type { Field } from './row-text.ts';
import type { SqlResult } from './sql-result.ts';
import { bind, describePortal, describeStatement, execute, parse, query, sync } from './wire-messages.ts';

export type RunEnd =
  | { readonly kind: 'done' | 'open_transaction' | 'too_large' | 'copying' }
  | { readonly kind: 'failed'; readonly error: DatabaseError }
  | { readonly kind: 'lost'; readonly reason: string };

export interface ExecutionResult {
  readonly end: RunEnd;
  /** The session is like a new one. */
  readonly clean: boolean;
}

export interface SqlRun {
  readonly sql: Buffer;
  /** Texts of the parameters, for each execution, all in one transaction; null: the simple protocol, which allows several statements. */
  readonly values: readonly (readonly (string | null)[])[] | null;
  readonly result: SqlResult;
  /** Large results are read in turn. */
  readonly large: Semaphore;
}

/** The engine's message as node-postgres parses it. */
type Told = Partial<Record<'severity' | 'message' | 'detail' | 'hint', string | undefined>>;

const discardAll = query(Buffer.from('DISCARD ALL'));
const rollback = query(Buffer.from('ROLLBACK'));

/** Runs it and resets the session; never rejects. */
export async function runSql(client: PoolClient, options: SqlRun): Promise<ExecutionResult> {
  const stop = watchSize(client, options);
  const onNotice = (notice: Told): void => {
    const { severity = 'NOTICE', message = '', detail, hint } = notice;
    options.result.notice({ severity, message, detail, hint });
  };
  client.on('notice', onNotice);
  try {
    const { end, reset } = await new Promise<{ end: RunEnd; reset: Promise<boolean> }>((resolve) => {
      client.query(new StatementRun(client, options, (it, promise) => resolve({ end: it, reset: promise })));
    });
    client.off('notice', onNotice);
    // Done before the next large result is read: it takes several times its size.
    const hasRoom = end.kind !== 'done' || (await options.result.settleLarge());
    const tooLarge = stop() || !hasRoom || options.result.overflowed;
    if (tooLarge || end.kind === 'lost' || end.kind === 'copying' || end.kind === 'too_large') {
      cutOff(client);
      return { end: tooLarge ? { kind: 'too_large' } : end, clean: false };
    }
    if (await reset) return { end, clean: true };
    // DISCARD ALL cannot run inside a transaction: the request has left one open.
    const open = end.kind === 'done' ? ({ kind: 'open_transaction' } as const) : end;
    const clean = (await resetOnly(client, rollback)) && (await resetSession(client));
    return { end: clean ? open : end, clean };
  } finally {
    client.off('notice', onNotice);
    stop();
  }
}

/** The types of the statement's parameters, by their number; throws the engine's error. */
export function parameterTypes(client: PoolClient, sql: Buffer): Promise<readonly number[]> {
  return new Promise((resolve, reject) => {
    const { connection } = client as unknown as { connection: Connection };
    let types: readonly number[] = [];
    const described = (message: { dataTypeIDs: readonly number[] }): void => {
      types = message.dataTypeIDs;
    };
    connection.once('parameterDescription', described);
    const settle = (run: () => void): void => {
      connection.off('parameterDescription', described);
      run();
    };
    runMessages(client, [parse(sql), describeStatement(), sync()]).then(
      () => settle(() => resolve(types)),
      (error: Error) => settle(() => reject(error)),
    );
  });
}

/** Resolves once the engine is ready again after them, with the first value of the last row; rejects with its error. They are not given back. */
export function runMessages(client: PoolClient, messages: readonly Buffer[]): Promise<string | null> {
  return new Promise((resolve, reject) => {
    client.query(new OtherRun(messages, resolve, reject));
  });
}

/** Whether the session is like a new one. */
export function resetSession(client: PoolClient): Promise<boolean> {
  return resetOnly(client, discardAll);
}

function resetOnly(client: PoolClient, message: Buffer): Promise<boolean> {
  return runMessages(client, [message]).then(
    () => true,
    () => false,
  );
}

/**
 * The client library buffers a message until it is complete, and one value may have a gigabyte, so bytes are counted as
 * they arrive. Large results are read one after the other, since each takes several times its size. The returned
 * function ends the watch and returns whether there were too many bytes.
 */
function watchSize(client: PoolClient, { large, result }: SqlRun): () => boolean {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  let bytes = 0;
  let done: (() => void) | null = null;
  let endWaiting: () => void = () => {};
  let last = 0;
  // In its turn, a result still waits until earlier ones were read: nothing is discarded that only has to wait.
  const goOn = (): void => {
    endWaiting = result.whenRoom((room) => {
      if (room) readInTurn(stream, last);
      else cutOff(client);
    });
  };
  const count = (chunk: Buffer): void => {
    last = chunk.length;
    bytes += last;
    if (bytes > limits.gatewayResultBytesMax) cutOff(client);
    else if (bytes > limits.gatewayLargeResultBytes && done === null) {
      stream.pause();
      done = large.take(goOn);
    } else if (done !== null && !result.hasRoom) {
      stream.pause();
      goOn();
    } else if (bytes > limits.answerAtOnceBytes) readInTurn(stream, last);
  };
  stream.on('data', count);
  return () => {
    stream.off('data', count);
    endWaiting();
    done?.();
    stream.resume();
    return bytes > limits.gatewayResultBytesMax;
  };
}

export abstract class StatementExecution {
  readonly #messages: readonly Buffer[];

  constructor(messages: readonly Buffer[]) {
    this.#messages = messages;
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    stream.cork();
    for (const message of this.#messages) stream.write(message);
    stream.uncork();
  }

  /** The engine has read all of them. */
  protected giveBackMessages(): void {
    for (const message of this.#messages) freeBuffer(message);
  }

  abstract handleError(error: Error | DatabaseError, connection: Connection): void;
  abstract handleReadyForQuery(): void;

  handleRowDescription(_message: { readonly fields: readonly Field[] }): void {
    // Only a statement's own run needs them.
  }

  handleDataRow(_message: { readonly fields: readonly (string | null)[] }): void {
    // As above.
  }

  handleCommandComplete(_message: { readonly text: string }, _connection: Connection): void {
    // As above.
  }

  handleCopyInResponse(): void {
    // As above.
  }

  handleCopyData(): void {
    // As above.
  }

  handleEmptyQuery(): void {
    // A comment only: there is nothing to report.
  }

  handlePortalSuspended(_connection: Connection): void {
    // As a rule, all rows are requested at once.
  }
}

class StatementRun extends StatementExecution {
  readonly #client: PoolClient;
  readonly #result: SqlResult;
  readonly #done: (end: RunEnd, reset: Promise<boolean>) => void;
  #copying = false;
  #tooLarge = false;
  #ended = false;

  constructor(
    client: PoolClient,
    { sql, values, result }: SqlRun,
    done: (end: RunEnd, reset: Promise<boolean>) => void,
  ) {
    super(
      values === null
        ? [query(sql), discardAll]
        : [
            parse(sql),
            ...values.flatMap((set) => [bind(set), describePortal(), execute()]),
            sync(),
            discardAll,
          ],
    );
    this.#client = client;
    this.#result = result;
    this.#done = done;
  }

  override handleRowDescription({ fields }: { readonly fields: readonly Field[] }): void {
    this.#bound(this.#tooLarge || this.#result.describe(fields));
  }

  override handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#bound(this.#tooLarge || this.#result.row(fields));
  }

  override handleCommandComplete({ text }: { readonly text: string }): void {
    this.#bound(this.#tooLarge || this.#result.complete(text));
  }

  #bound(there: boolean): void {
    if (there) return;
    this.#tooLarge = true;
    this.#finish({ kind: 'too_large' });
  }

  override handleCopyInResponse(): void {
    this.#copying = true;
    this.#finish({ kind: 'copying' });
  }

  override handleCopyData(): void {
    if (!this.#copying) this.handleCopyInResponse();
  }

  handleReadyForQuery(): void {
    this.giveBackMessages();
    this.#finish({ kind: 'done' });
  }

  handleError(error: Error | DatabaseError): void {
    if ('severity' in error && error.severity !== 'FATAL' && error.severity !== 'PANIC') {
      this.#finish({ kind: 'failed', error });
    } else {
      this.#finish({ kind: 'lost', reason: error.message });
    }
  }

  /** The answer to DISCARD ALL is already coming, so the next query object must read it. */
  #finish(end: RunEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    const reads = end.kind === 'done' || end.kind === 'failed';
    const reset = !reads
      ? Promise.resolve(false)
      : runMessages(this.#client, []).then(
          () => true,
          () => false,
        );
    this.#done(end, reset);
  }
}

class OtherRun extends StatementExecution {
  readonly #done: (value: string | null) => void;
  readonly #failed: (error: Error) => void;
  #value: string | null = null;

  constructor(
    messages: readonly Buffer[],
    done: (value: string | null) => void,
    failed: (error: Error) => void,
  ) {
    super(messages);
    this.#done = done;
    this.#failed = failed;
  }

  override handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#value = fields[0] ?? null;
  }

  handleReadyForQuery(): void {
    this.#done(this.#value);
  }

  handleError(error: Error): void {
    this.#failed(error);
  }
}
