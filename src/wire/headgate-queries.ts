/**
 * Queries of Headgate's own in a client's session, while a message of the client is held: they run as the role that the session has now, see what
 * its transaction sees, and their answers are not passed on. Takes statements and the engine's messages; returns rows of texts; rejects with
 * SqlFailure: the engine's own errors, 57014 after a CancelRequest, 08006 if either side has left, 0A000 in the middle of a pipeline.
 * Each is a Query message that is sent when the last one has been answered.
 */
import { SqlFailure } from '../errors/refusals.ts';
import { deferred, type Deferred } from '../kit/promises.ts';
import type { OwnRow, SessionQueries } from '../types/sql.ts';
import * as wire from './messages.ts';

const { fromEngine } = wire;

/** What answers a Query, and only that: other messages may come at any time. */
const answering: ReadonlySet<number> = new Set([
  fromEngine.rowDescription,
  fromEngine.dataRow,
  fromEngine.commandComplete,
  fromEngine.emptyQuery,
  fromEngine.error,
  fromEngine.readyForQuery,
]);

interface OwnQuery {
  readonly rows: OwnRow[];
  readonly answer: Deferred<readonly OwnRow[]>;
  error: SqlFailure | null;
}

export class HeadgateQueries implements SessionQueries {
  readonly inTransaction: boolean;
  readonly #send: (query: Buffer) => void;
  #asked: OwnQuery | null = null;
  #stopped: SqlFailure | null = null;
  /** None can be sent, not even one that ends something. */
  #gone: boolean;

  /** `refused`: why none can be asked now. */
  constructor(inTransaction: boolean, refused: SqlFailure | null, send: (query: Buffer) => void) {
    this.inTransaction = inTransaction;
    this.#stopped = refused;
    this.#gone = refused !== null;
    this.#send = send;
  }

  get stopped(): SqlFailure | null {
    return this.#stopped;
  }

  /** `evenStopped`: it ends what another one has begun. */
  async run(sql: string, evenStopped = false): Promise<readonly OwnRow[]> {
    if (this.#stopped !== null && (this.#gone || !evenStopped)) throw this.#stopped;
    if (this.#asked !== null) throw new Error('a query was sent before the last one was answered');
    const asked: OwnQuery = { rows: [], answer: deferred(), error: null };
    this.#asked = asked;
    this.#send(wire.writeQuery(sql));
    return asked.answer.promise;
  }

  /** The client has sent a CancelRequest, which the engine does not see unless a query is running. */
  cancel(): void {
    this.#stopped ??= new SqlFailure({
      sqlstate: '57014',
      message: 'canceling statement due to user request',
    });
  }

  /** Nobody waits for the answer. */
  clientLeft(): void {
    this.#stopped ??= new SqlFailure({ sqlstate: '08006', message: 'connection to client lost' });
  }

  /** Nothing more is sent or answered. */
  leave(): void {
    this.#gone = true;
    this.#stopped ??= new SqlFailure({ sqlstate: '08006', message: 'the connection has ended' });
    this.#asked?.answer.reject(this.#stopped);
    this.#asked = null;
  }

  takes(type: number): boolean {
    return this.#asked !== null && answering.has(type);
  }

  /** A whole message for which `takes` is true. */
  take(type: number, body: Buffer): void {
    const asked = this.#asked;
    if (asked === null) return;
    if (type === fromEngine.dataRow) asked.rows.push(wire.readDataRow(body));
    else if (type === fromEngine.error) asked.error = failureOf(wire.readErrorFields(body));
    else if (type === fromEngine.readyForQuery) {
      this.#asked = null;
      if (asked.error === null) asked.answer.resolve(asked.rows);
      else asked.answer.reject(asked.error);
    }
  }
}

/** Its position and context are those of a text that the client has not written. */
function failureOf(fields: wire.ErrorFields): SqlFailure {
  const detail = fields.get('D');
  const hint = fields.get('H');
  return new SqlFailure({
    sqlstate: fields.get('C') ?? 'XX000',
    message: fields.get('M') ?? '',
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
  });
}
