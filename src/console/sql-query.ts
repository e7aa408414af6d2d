/**
 * One statement on one connection, as a query object of node-postgres: its result is kept as the texts that the engine
 * wrote, up to a limit of rows and bytes. Takes SQL, returns tables, notices and how it ended; refuses nothing itself.
 *
 * Read only: the extended protocol, one statement, and one row more than is shown. Otherwise the simple protocol; excess
 * rows are read and discarded, because a statement that is cut off may or may not have taken effect.
 */
import type { Socket } from 'node:net';
import type { Client, Connection, DatabaseError } from 'pg';
import type { NoticeMessage } from 'pg-protocol/dist/messages.js';
import { limits } from '../config/limits.ts';
import { readInTurn } from '../engine/close-client.ts';
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
