/**
 * One attempt to commit some requests' rows on one connection: a query object for node-postgres that writes
 * the whole transaction at once and reads how it ended.
 *
 * Ends: `committed` only when the backend has said that it is idle again after the last statement; `failed` when
 * the backend refused with an ERROR, which ends an implicit transaction with nothing stored; `lost` for everything
 * else (the connection ended, a FATAL), where nobody knows.
 */
import type { Connection, DatabaseError } from 'pg';

export type Attempt =
  | { readonly kind: 'committed' }
  | {
      readonly kind: 'failed';
      readonly sqlstate: string;
      readonly message: string;
      /** 1-based row of the COPY that the engine named, null when it named none. */
      readonly line: number | null;
      /** Where the engine says which constraint it was; names only, never values. */
      readonly constraint: string | null;
    }
  | { readonly kind: 'lost'; readonly reason: string };

export class GroupCopy {
  readonly #messages: readonly Buffer[];
  readonly #table: string;
  readonly #end: (attempt: Attempt) => void;
  #statementsDone = 0;
  #ended = false;

  constructor(table: string, messages: readonly Buffer[], end: (attempt: Attempt) => void) {
    this.#table = table;
    this.#messages = messages;
    this.#end = end;
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    stream.cork();
    for (const message of this.#messages) stream.write(message);
    stream.uncork();
  }

  handleCommandComplete(): void {
    this.#statementsDone++;
  }

  handleReadyForQuery(): void {
    // COPY and confirm have both completed, or this is not the answer to what was sent.
    if (this.#statementsDone >= 2) this.#finish({ kind: 'committed' });
    else this.#finish({ kind: 'lost', reason: 'the backend was ready without completing the transaction' });
  }

  handleError(error: Error | DatabaseError): void {
    if (!('severity' in error) || error.code === undefined) {
      this.#finish({ kind: 'lost', reason: error.message });
      return;
    }
    if (!isDefinite(error.severity, error.code)) {
      this.#finish({ kind: 'lost', reason: `${error.code} ${error.message}` });
      return;
    }
    this.#finish({
      kind: 'failed',
      sqlstate: error.code,
      message: error.message,
      line: lineOf(error.where ?? '', this.#table),
      constraint: error.constraint ?? null,
    });
  }

  handleCopyInResponse(): void {
    // The rows are on their way already.
  }

  handleRowDescription(): void {
    // confirm() returns void: nothing to read.
  }

  handleDataRow(): void {
    // See handleRowDescription.
  }

  handleEmptyQuery(): void {
    // The statement is never empty.
  }

  handlePortalSuspended(): void {
    // The simple protocol has no portals.
  }

  handleCopyData(): void {
    // The engine sends none during COPY FROM.
  }

  #finish(attempt: Attempt): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#end(attempt);
  }
}

/**
 * Whether the statement certainly ended with nothing stored. A FATAL may come after the commit that it interrupts,
 * so only an ERROR is a definite no; the severity's text is translated by servers with other lc_messages, and then
 * these classes, which no FATAL of a running session has, say the same.
 */
function isDefinite(severity: string | undefined, sqlstate: string): boolean {
  return severity === 'ERROR' || /^(0A|2[1-7]|4|54|55|57014|P0|HG)/.test(sqlstate);
}

/** The row that the engine's CONTEXT names. A name that merely looks like the text must not blame another row. */
function lineOf(where: string, table: string): number | null {
  const prefix = `COPY ${table}, line `;
  for (const context of where.split('\n')) {
    if (!context.startsWith(prefix)) continue;
    const digits = /^\d{1,9}/.exec(context.slice(prefix.length))?.[0];
    if (digits !== undefined) return Number(digits);
  }
  return null;
}
