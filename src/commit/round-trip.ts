/**
 * Messages to the engine in one write, and its replies (engine-reply.ts): read by a query object of node-postgres, one for each time that the engine is
 * ready, which it says once for every Query and every Sync.
 *
 * A statement may return the number of its transaction in a row of its own, `xid 1234`: with it, another connection can be
 * asked for the fate of a transaction whose end was lost. Another row, `stale 0 7`, says which rows were not newer, as the tag `INSERT 0 0` does of one.
 */
import type { ClientBase, Connection, DatabaseError } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { handedOn, messageOf } from './engine-reply.ts';
import type { EngineReply, StalePlaces } from './engine-reply.ts';

/**
 * Writes `messages`, which hold one Query or Sync for each number in `expected`: how many statements complete before
 * it. Waits at most `timeoutMs`; a connection that stays silent is destroyed.
 *
 * An array is written at once. Any other iterable is read and written as fast as the engine takes it, and must end with
 * what the last answer answers: nothing else is written on the connection before that.
 */
export function roundTrip(
  client: ClientBase,
  messages: Iterable<Buffer>,
  expected: readonly number[],
  timeoutMs: number,
): Promise<EngineReply[]> {
  return new Promise((resolve) => {
    const replies: EngineReply[] = [];
    const end = (reply: EngineReply) => {
      replies.push(reply);
      // After an answer that never came, none will follow.
      if (reply.kind === 'lost') while (replies.length < expected.length) replies.push(reply);
      if (replies.length < expected.length) return listen([]);
      clearTimeout(timer);
      client.off('notice', notice);
      resolve(replies);
    };
    // node-postgres knows one ReadyForQuery per query object: the first object writes everything, and each of the others takes
    // its place before the engine's next message is read.
    let answer: RoundTripQuery;
    const listen = (write: Iterable<Buffer>) => {
      const isLast = replies.length === expected.length - 1;
      answer = new RoundTripQuery(client, write, expected[replies.length] ?? 0, isLast, end);
      client.query(answer);
    };
    const notice = (said: ServerMessage) => answer.heard(said);
    client.on('notice', notice);
    const timer = setTimeout(() => {
      cutOff(client);
      answer.lose('the engine did not answer in time');
    }, timeoutMs);
    listen(messages);
  });
}

/** How much is queued in a socket before it has taken what it was given, in bytes. */
const writeAheadBytesMax = 1024 * 1024;

/**
 * Whether the engine gave up waiting for a standby (pg_cancel_backend). Its text is translated and its SQLSTATE is that of
 * any warning; the function that raises it has one name in every version (src/backend/replication/syncrep.c).
 */
function isCutShort({ routine }: ServerMessage): boolean {
  return routine === 'SyncRepWaitForLSN';
}

/** A notice of the engine, or an ERROR. */
type ServerMessage = {
  readonly [
    field in 'routine' | 'code' | 'message' | 'constraint' | 'table' | 'column' | 'position' | 'where'
  ]?: string | undefined;
};

/**
 * The routine by which it says that the one server that stores the rows has not committed. What that server has said comes
 * before, as a WARNING: it is then as certain as an ERROR of the coordinator's own commit (Citus, transaction/remote_transaction.c).
 */
const notCommitted = 'ErrorIfPostCommitFailedShardPlacements';

/** A query object for node-postgres that reads up to one ReadyForQuery. */
class RoundTripQuery {
  readonly #client: ClientBase;
  readonly #messages: Iterable<Buffer>;
  readonly #statements: number;
  readonly #isLast: boolean;
  readonly #end: (reply: EngineReply) => void;
  #completed = 0;
  #tag = '';
  #xid: string | null = null;
  #stale: StalePlaces[] | null = null;
  #isCutShort = false;
  /** The ERROR of the engine, until it is ready again. */
  #error: DatabaseError | null = null;
  /** What another server has said, as a warning of the engine. */
  #elsewhere: ServerMessage | null = null;
  /** Whether the statement that is running has returned a row. */
  #hasRow = false;
  #ended = false;

  constructor(
    client: ClientBase,
    messages: Iterable<Buffer>,
    statements: number,
    isLast: boolean,
    end: (reply: EngineReply) => void,
  ) {
    this.#client = client;
    this.#messages = messages;
    this.#statements = statements;
    this.#isLast = isLast;
    this.#end = end;
  }

  heard(said: ServerMessage): void {
    if (isCutShort(said)) this.#isCutShort = true;
    if (said.routine === handedOn) this.#elsewhere = said;
  }

  lose(reason: string): void {
    this.#finish({ kind: 'lost', reason, xid: this.#xid });
  }

  submit({ stream }: Connection): void {
    const ahead = Array.isArray(this.#messages) ? Infinity : writeAheadBytesMax;
    const messages = this.#messages[Symbol.iterator]();
    const pump = () => {
      stream.cork();
      let bytes = 0;
      let next = messages.next();
      for (; next.done !== true; next = messages.next()) {
        stream.write(next.value);
        bytes += next.value.length;
        if (bytes > ahead) break;
      }
      stream.uncork();
      if (next.done === true) return;
      if (stream.writableNeedDrain) stream.once('drain', pump);
      else setImmediate(pump);
    };
    pump();
  }

  handleCommandComplete(message: { readonly text?: string }): void {
    // Of one row: it was not newer, if that can be.
    if (message.text === 'INSERT 0 0') (this.#stale ??= []).push({ completed: this.#completed, places: [0] });
    this.#completed++;
    this.#hasRow = false;
    this.#tag = message.text ?? '';
  }

  handleReadyForQuery(): void {
    if (this.#isCutShort) return this.lose('the wait for the standby was cut short');
    // All statements have completed, or this is not the answer to what was sent.
    if (this.#completed < this.#statements)
      return this.lose('the backend was ready without completing the statements');
    // Nothing is committed while a transaction is open.
    if (this.#isLast && this.#client.getTransactionStatus() !== 'I')
      return this.lose('the backend was left in a transaction');
    const done = { kind: 'done', tag: this.#tag, xid: this.#xid } as const;
    this.#finish(this.#stale === null ? done : { ...done, stale: this.#stale });
  }

  /** The engine is ready again, after an ERROR. */
  readonly #ready = (): void => {
    if (this.#error === null) return;
    const error = (this.#error.routine === notCommitted ? this.#elsewhere : null) ?? this.#error;
    if (this.#isLast && this.#client.getTransactionStatus() !== 'I')
      return this.lose('the backend was left in a transaction');
    // The last statement of a Query completes after the commit; that it has returned its row shows that it has ended.
    const left = this.#statements - this.#completed;
    this.#finish({
      kind: 'failed',
      sqlstate: error.code ?? '',
      message: messageOf(error),
      completed: this.#completed,
      atCommit: left === 0 || (left === 1 && this.#hasRow),
      xid: this.#xid,
      constraint: error.constraint ?? null,
      table: error.table ?? null,
      column: error.column ?? null,
      placed: error.position !== undefined,
      where: error.where ?? '',
      routine: error.routine ?? null,
    });
  };

  handleError(error: Error | DatabaseError): void {
    if (!('severity' in error) || error.code === undefined) return this.lose(error.message);
    this.#error = error;
    // node-postgres takes an ERROR for the end of a query, and passes on nothing of what follows. That may be the end of
    // the connection: a FATAL, even one after an ERROR, may come after the commit that it interrupts.
    const { connection } = this.#client as unknown as { readonly connection: Connection };
    connection.on('readyForQuery', this.#ready);
    this.#client.on('error', this.#gone);
    this.#client.on('end', this.#gone);
  }

  readonly #gone = (): void => this.lose(`${this.#error?.code ?? ''} ${this.#error?.message ?? ''}`);

  handleCopyInResponse(): void {
    // The rows have already been sent.
  }

  handleRowDescription(): void {
    // See handleDataRow.
  }

  /** What else the statements return is ignored. */
  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#hasRow = true;
    for (const field of fields) {
      this.#xid = /^xid (\d+)$/.exec(field ?? '')?.[1] ?? this.#xid;
      if (field?.startsWith('stale ') === true)
        (this.#stale ??= []).push({
          completed: this.#completed,
          places: field.slice(6).split(' ').map(Number),
        });
    }
  }

  handleEmptyQuery(): void {
    // No statement is ever empty.
  }

  handlePortalSuspended(): void {
    // Portals are executed for all of their rows.
  }

  handleCopyData(): void {
    // The engine sends none during COPY FROM.
  }

  #finish(reply: EngineReply): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#error !== null) {
      const { connection } = this.#client as unknown as { readonly connection: Connection };
      connection.off('readyForQuery', this.#ready);
      this.#client.off('error', this.#gone);
      this.#client.off('end', this.#gone);
    }
    this.#end(reply);
  }
}
