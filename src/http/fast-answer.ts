/** One answer in the order of its connection (fast-connection.ts), in place of a ServerResponse. */
import { messageOf } from './reply.ts';
import type { OwnHeader, HttpReply } from './reply.ts';

/** The connection that it is owed on. */
interface Owing {
  /** The last headers of an answer that leaves the connection open. */
  readonly keepsAlive: string;
  /** Writes the answers whose turn it is. */
  flush(): void;
}

export class FastAnswer {
  /** It was written to its last byte. */
  writableFinished = false;
  message: string | null = null;
  closes = false;
  readonly #connection: Owing;
  #whenWritten: (() => void) | null = null;
  #others: (() => void)[] | null = null;

  constructor(connection: Owing) {
    this.#connection = connection;
  }

  /** As in a ServerResponse; if the connection is gone before, nothing is called. */
  once(_event: 'finish' | 'close', done: () => void): void {
    if (this.#whenWritten === null) this.#whenWritten = done;
    else (this.#others ??= []).push(done);
  }

  send(reply: HttpReply, closes: boolean, nowMs: number, own: OwnHeader | null = null): void {
    const connection = this.#connection;
    this.closes = closes;
    const last = closes ? 'Connection: close\r\n' : connection.keepsAlive;
    this.message = messageOf(reply, last, nowMs, own);
    connection.flush();
  }

  written(): void {
    this.writableFinished = true;
    this.#whenWritten?.();
    for (const done of this.#others ?? []) done();
  }
}
