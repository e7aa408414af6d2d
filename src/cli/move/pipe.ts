/**
 * Copies rows from one server to another: COPY … TO STDOUT on one connection, COPY … FROM STDIN on the other, chunk by chunk at the
 * speed of the slower side. Takes two idle clients and the two statements; returns the number of rows; throws the engine's error,
 * after which both connections are idle again, or lost.
 */
import type { Client, Connection } from 'pg';

/** node-postgres's connection, as far as COPY needs it. */
interface CopyConnection extends Connection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
}

abstract class Copy {
  readonly #sql: string;
  readonly done: Promise<number>;
  #resolve: (rows: number) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #rows = 0;

  constructor(sql: string) {
    this.#sql = sql;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The caller awaits it later; until then a rejection must not count as unhandled.
    this.done.catch(() => {});
  }

  submit(connection: Connection): void {
    (connection as CopyConnection).query(this.#sql);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rows = Number(/^COPY (\d+)$/.exec(text)?.[1] ?? 0);
  }

  handleError(error: Error): void {
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#rows);
  }

  handleRowDescription(): void {
    // COPY sends none.
  }

  handleDataRow(): void {
    // As above.
  }

  handleEmptyQuery(): void {
    // As above.
  }

  handlePortalSuspended(): void {
    // As above.
  }
}

class CopyIn extends Copy {
  readonly ready: Promise<CopyConnection>;
  failed = false;
  /** Called when the server has refused: nothing will drain the source any more. */
  onFailure = () => {};
  #opened: (connection: CopyConnection) => void = () => {};
  #refused: (error: Error) => void = () => {};

  constructor(sql: string) {
    super(sql);
    this.ready = new Promise((resolve, reject) => {
      this.#opened = resolve;
      this.#refused = reject;
    });
    this.ready.catch(() => {});
  }

  handleCopyInResponse(connection: Connection): void {
    this.#opened(connection as CopyConnection);
  }

  handleCopyData(): void {
    // This side only receives rows.
  }

  override handleError(error: Error): void {
    super.handleError(error);
    this.failed = true;
    this.#refused(error);
    this.onFailure();
  }
}

class CopyOut extends Copy {
  readonly #take: (chunk: Buffer) => void;

  constructor(sql: string, take: (chunk: Buffer) => void) {
    super(sql);
    this.#take = take;
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.#take(chunk);
  }

  handleCopyInResponse(): void {
    // This side only sends rows.
  }
}

export async function pipeRows(from: Client, fromSql: string, to: Client, toSql: string): Promise<number> {
  const sink = new CopyIn(toSql);
  to.query(sink);
  const target = await sink.ready;
  const { stream: reading } = (from as unknown as { connection: Connection }).connection;
  const source = new CopyOut(fromSql, (chunk) => {
    // After a refusal, the remaining data is read and discarded.
    if (sink.failed) return;
    target.sendCopyFromChunk(chunk);
    if (!target.stream.writableNeedDrain || reading.isPaused()) return;
    reading.pause();
    target.stream.once('drain', () => void reading.resume());
  });
  sink.onFailure = () => void reading.resume();
  from.query(source);
  try {
    await source.done;
  } catch (error) {
    if (!sink.failed) target.sendCopyFail('the source failed');
    await sink.done.catch(() => {});
    throw error;
  }
  if (!sink.failed) target.endCopyFrom();
  return sink.done;
}
