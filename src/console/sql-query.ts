/**
 * One statement on one connection, as a query object of node-postgres: its result is kept as the texts that the engine
 * wrote, up to a limit of rows and bytes. Takes SQL, returns tables, notices and how it ended, and of an end that is none of the statement's own what is
 * answered: SqlFailure with the engine's words, or Refused: `engine_unavailable`, `answer_too_large`.
 *
 * Read only: the extended protocol, one statement, and one row more than is shown. Otherwise the simple protocol; excess
 * rows are read and discarded, because a statement that is cut off may or may not have taken effect.
 */
import type { Socket } from 'node:net';
import type { Client, Connection, DatabaseError } from 'pg';
import type { NoticeMessage } from 'pg-protocol/dist/messages.js';
import { limits } from '../config/limits.ts';
import { readInTurn } from '../engine/close-client.ts';
import { isConnectionLost } from '../engine/sqlstate.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { SqlColumn, SqlNotice, SqlTable } from './api.ts';

/** How a statement ended. */
export type ReadEnd =
  | { readonly kind: 'done' }
  | { readonly kind: 'too_large' | 'copying' | 'late' }
  | { readonly kind: 'failed'; readonly error: unknown };

interface SqlField {
  readonly name: string;
  readonly dataTypeID: number;
}

interface OpenTable {
  readonly columns: readonly SqlColumn[];
  readonly rows: (readonly (string | null)[])[];
  more: boolean;
}

export class BoundedQuery {
  readonly tables: SqlTable[] = [];
  readonly notices: SqlNotice[] = [];
  readonly #write: boolean;
  readonly #sql: string;
  #open: OpenTable | null = null;
  #end: (end: ReadEnd) => void = () => {};

  constructor(sql: string, write: boolean) {
    this.#sql = sql;
    this.#write = write;
  }

  /** Runs it. Never rejects. After `too_large` and `copying` the connection is no longer usable. */
  async on(client: Client): Promise<ReadEnd> {
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    let bytes = 0;
    // A value is buffered until it is complete, and may have a gigabyte, so bytes are counted as they arrive.
    const count = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > limits.consoleResultBytesMax) {
        this.#end({ kind: 'too_large' });
        stream.destroy();
      } else if (bytes > limits.answerAtOnceBytes) readInTurn(stream, chunk.length);
    };
    const notice = (told: NoticeMessage): void => {
      if (this.notices.length >= limits.consoleNoticesMax) return;
      const { severity = 'NOTICE', message = '', detail, hint } = told;
      this.notices.push({ severity, message, detail: detail ?? null, hint: hint ?? null });
    };
    stream.on('data', count);
    client.on('notice', notice);
    const gone = (): void => this.#end({ kind: 'failed', error: new Error('the connection was lost') });
    client.once('end', gone);
    try {
      return await new Promise<ReadEnd>((resolve) => {
        this.#end = resolve;
        client.query(this);
      });
    } finally {
      stream.off('data', count);
      client.off('notice', notice);
      client.off('end', gone);
    }
  }

  submit(connection: Connection): void {
    if (this.#write) return connection.query(this.#sql);
    connection.stream.cork();
    connection.parse({ name: '', text: this.#sql, types: [] }, true);
    connection.bind({}, true);
    connection.describe({ type: 'P', name: '' }, true);
    connection.execute({ portal: '', rows: String(limits.consoleRowsMax + 1) }, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription({ fields }: { readonly fields: readonly SqlField[] }): void {
    const columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
    this.#open = { columns, rows: [], more: false };
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const open = this.#open;
    if (open === null) return;
    if (open.rows.length < limits.consoleRowsMax) open.rows.push(fields);
    else open.more = true;
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#close(text);
  }

  handlePortalSuspended(): void {
    this.#close('');
  }

  handleEmptyQuery(): void {
    this.#close('');
  }

  handleCopyInResponse(): void {
    this.#end({ kind: 'copying' });
  }

  handleCopyData(): void {
    this.#end({ kind: 'copying' });
  }

  handleReadyForQuery(): void {
    this.#end({ kind: 'done' });
  }

  handleError(error: Error | DatabaseError): void {
    this.#end({ kind: 'failed', error });
  }

  #close(command: string): void {
    const { columns, rows, more } = this.#open ?? { columns: [], rows: [], more: false };
    this.#open = null;
    if (this.tables.length < limits.consoleResultTablesMax)
      this.tables.push({ columns, rows, command, more });
  }
}

/** What is answered to a statement that failed. `write`: it may have taken effect. */
export function failedEnd(end: Exclude<ReadEnd, { readonly kind: 'done' }>, write: boolean): Error {
  switch (end.kind) {
    case 'failed':
      return failureOf(end.error);
    case 'too_large':
      return new Refused(
        'answer_too_large',
        write ? 'the answer is larger than 8 MiB; the statement may have taken effect' : undefined,
      );
    case 'copying':
      return new SqlFailure({
        sqlstate: '0A000',
        message: 'COPY … FROM STDIN and TO STDOUT are not possible here',
      });
    case 'late': {
      const message = `the statement ran longer than ${limits.consoleStatementMs / 1_000} s and was cancelled`;
      return new SqlFailure({ sqlstate: '57014', message });
    }
  }
}

/** PostgreSQL's words for it, if its messages are in English. */
const severalStatements = 'cannot insert multiple commands into a prepared statement';

/** The same for an error of node-postgres. */
export function failureOf(error: unknown): Error {
  if (error instanceof Refused || error instanceof SqlFailure) return error;
  const { code, message, severity, detail, hint, position } = error as DatabaseError;
  // node-postgres' own error if a password is required and none was given, or the server does not know it.
  if (message.startsWith('SASL'))
    return new SqlFailure({ sqlstate: '28P01', message: 'password authentication failed' });
  // An error without severity is not from the engine: the connection was refused or lost, or it is a bug.
  if (severity === undefined || code === undefined) {
    const lost =
      code !== undefined ||
      /^(?:Connection terminated|Client has encountered|Client was closed|timeout expired|the connection was lost)/.test(
        message,
      );
    return lost || !(error instanceof Error) ? new Refused('engine_unavailable') : error;
  }
  if (isConnectionLost(error)) return new Refused('engine_unavailable');
  if (code === '42601' && message === severalStatements)
    return new SqlFailure({
      sqlstate: code,
      message: 'a run that only reads takes one statement, and there are several',
      hint: 'Leave one of them, or choose “May write”: there each of several is committed.',
    });
  return new SqlFailure({
    sqlstate: code,
    message,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
    ...(position === undefined ? {} : { position: Number(position) }),
  });
}
