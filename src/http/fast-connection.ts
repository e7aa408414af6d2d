/**
 * One connection whose requests are read here instead of by Node's parser, as long as each request has the one form that the
 * recogniser accepts and soon arrives as a whole. Takes its socket; gives whole requests, and writes their answers in the
 * order of the requests, each in one piece. At the first byte that does not have that form, it goes to Node, with all
 * bytes of the request that the byte belongs to, after the answers that are still owed, and stays there.
 *
 * As a rule a request is one piece: `#onData`, `#readAll`; its answer follows when its FastAnswer calls `flush`. What comes after `#written` is for requests
 * in pieces, for connections that go to Node, and for the end.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../config/limits.ts';
import type { Connection } from './connection.ts';
import type { Exchange } from './exchange.ts';
import { FastAnswer } from './plain-answer.ts';
import { WholeRequest } from './plain-request.ts';
import { doubtful, more } from './plain-request-parser.ts';
import type { PlainRequestParser } from './plain-request-parser.ts';
import type { ReceivedRequests } from './received-requests.ts';
import { readEach } from './sockets.ts';

/** What the connections of one door share: FastConnections (fast-connections.ts). */
export interface FastContext {
  readonly limits: Limits;
  readonly recogniser: PlainRequestParser;
  /** Where whole requests go. */
  readonly requests: Pick<ReceivedRequests<Exchange>, 'receive'>;
  readonly answersHalfClosed: boolean;
  /** The last headers of an answer that leaves its connection open, as Node writes them. */
  readonly keepsAlive: string;
  /** Bytes of requests that have not arrived as a whole. */
  heldBytes: number;
  /** Goes up by one at least once a second. */
  readonly tick: number;
  /** A connection that holds bytes is checked again in a moment. */
  holds(connection: FastConnection, does: boolean): void;
  /** Gives a socket to Node's parser. */
  readonly handOver: (socket: Socket) => void;
  remove(gone: FastConnection): void;
}

export class FastConnection {
  readonly socket: Socket;
  readonly keepsAlive: string;
  readonly #all: FastContext;
  readonly #connection: Connection;
  readonly #endReads: () => void;
  /** Answers that are owed, in order. */
  #owed: FastAnswer[] = [];
  /** Answers that the kernel has not taken yet. */
  #unwritten = 0;
  /** The beginning of a request. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** In how many pieces it has arrived. */
  #pieces = 0;
  /** How long that request is; 0: its head is not complete. */
  #wanted = 0;
  /** The held bytes were already there at the last check. */
  isSlow = false;
  /** When bytes were last received or sent. */
  tick: number;
  hadRequest = false;
  #isReading = false;
  /** Bytes that arrive are dropped. */
  isOver = false;
  #senderEnded = false;
  /** What to do when everything is answered; null: wait for the next request. */
  #leaving: (() => void) | null = null;

  constructor(all: FastContext, socket: Socket, connection: Connection) {
    this.#all = all;
    this.socket = socket;
    this.keepsAlive = all.keepsAlive;
    this.#connection = connection;
    this.tick = all.tick;
    // After an error `close` follows.
    socket.on('end', this.#onEnd).on('error', nothing).on('close', this.#onClose);
    this.#endReads = readEach(socket, this.#onData);
  }

  /** `piece` is valid during this call only. */
  readonly #onData = (piece: Buffer): void => {
    this.tick = this.#all.tick;
    if (this.isOver || this.#connection.ending) return;
    if (this.#heldBytes === 0) return this.#read(piece);
    this.#hold(piece);
    // A head is parsed again from its beginning with each of its few pieces; of a body only the end is awaited.
    if (this.#heldBytes >= this.#wanted) this.#read(this.#takeHeld());
    else if (this.#holdsTooMuch) this.leaveHeld();
  };

  /** Answers made meanwhile wait until all bytes are read, so that requests that arrive together are counted together. */
  #read(bytes: Buffer): void {
    this.#isReading = true;
    this.#readAll(bytes);
    this.#isReading = false;
    this.flush();
  }

  #readAll(bytes: Buffer): void {
    const { recogniser, requests } = this.#all;
    let at = 0;
    while (at < bytes.length) {
      // The length of the head, whose lines the recogniser has then noted for WholeRequest; or `more`, or `doubtful`.
      const head = recogniser.read(bytes, at);
      if (head === doubtful) return this.#leave(kept(bytes.subarray(at)));
      const length = head + (head === more ? 0 : recogniser.bodyBytes);
      if (head === more || at + length > bytes.length) {
        this.#wanted = length;
        this.#hold(bytes.subarray(at));
        return this.#holdsTooMuch ? this.leaveHeld() : undefined;
      }
      const own = Buffer.allocUnsafe(length);
      bytes.copy(own, 0, at, at + length);
      const request = new WholeRequest(own, recogniser);
      const answer = new FastAnswer(this);
      at += length;
      this.#pieces = 0;
      this.hadRequest = true;
      this.isOver = request.closes;
      this.#owed.push(answer);
      requests.receive(this.#connection, request, answer);
      if (this.isOver || this.#connection.ending) return;
    }
  }

  /** Writes the answers whose turn it is. */
  flush(): void {
    if (this.#isReading) return;
    const socket = this.socket;
    let [text, ready] = ['', 0];
    for (let it = this.#owed[0]; it !== undefined && it.message !== null; it = this.#owed[++ready])
      text += it.message;
    if (ready === 0) return;
    const batch = ready === this.#owed.length ? this.#owed : this.#owed.splice(0, ready);
    if (batch === this.#owed) this.#owed = [];
    if (!socket.writable) return;
    this.#unwritten += batch.length;
    this.tick = this.#all.tick;
    socket.write(text, 'latin1');
    // Nearly always, the kernel takes it at once.
    if (socket.writableLength === 0) this.#written(batch);
    else socket.write('', 'latin1', (error) => (error ? undefined : this.#written(batch)));
  }

  #written(batch: readonly FastAnswer[]): void {
    this.#unwritten -= batch.length;
    this.tick = this.#all.tick;
    for (const answer of batch) answer.written();
    const socket = this.socket;
    if (batch.at(-1)?.closes === true) {
      // Whatever else has arrived is read and dropped.
      this.#leaving = null;
      socket.resume();
      socket.destroySoon();
    } else if (this.#isQuiet) {
      if (this.#senderEnded) socket.destroySoon();
      this.#leaving?.();
    }
  }

  /** Nothing is owed to the sender. */
  get #isQuiet(): boolean {
    return this.#owed.length + this.#unwritten === 0;
  }

  /** It waits for a request of which nothing has come. */
  get isIdle(): boolean {
    return this.#isQuiet && this.#heldBytes === 0 && !this.isOver;
  }

  get #holdsTooMuch(): boolean {
    const { fastPiecesMax, fastHeldBytesMax } = this.#all.limits;
    return this.#pieces > fastPiecesMax || this.#all.heldBytes > fastHeldBytesMax;
  }

  #hold(piece: Buffer): void {
    if (this.#pieces === 0) this.isSlow = false;
    this.#held.push(kept(piece));
    this.#pieces += 1;
    this.#heldBytes += piece.length;
    this.#all.heldBytes += piece.length;
    this.#all.holds(this, true);
  }

  #takeHeld(): Buffer {
    const [first, second] = this.#held;
    const bytes = first !== undefined && second === undefined ? first : Buffer.concat(this.#held);
    this.#all.heldBytes -= this.#heldBytes;
    this.#all.holds(this, false);
    this.#held = [];
    this.#heldBytes = 0;
    this.#wanted = 0;
    return bytes;
  }

  leaveHeld(): void {
    if (this.#heldBytes > 0) this.#leave(this.#takeHeld());
  }

  /** Node's parser continues with these bytes and those that follow. */
  #leave(bytes: Buffer): void {
    const socket = this.socket;
    socket.pause();
    // At once: a sender that ends its half meanwhile has not ended before they are read.
    socket.unshift(bytes);
    this.#whenQuiet(() => {
      this.#handOver();
      socket.resume();
    });
  }

  #handOver(): void {
    this.#all.remove(this);
    this.#all.handOver(this.socket);
    // With a listener, Node reads through the socket's stream and not past it: only then does a body that nobody reads yet stop the sender.
    this.socket.on('data', nothing);
    this.socket.off('error', nothing).off('close', this.#onClose);
  }

  #whenQuiet(leave: () => void): void {
    this.isOver = true;
    this.#endReads();
    this.socket.off('end', this.#onEnd);
    if (this.#isQuiet) leave();
    else this.#leaving = leave;
  }

  readonly #onEnd = (): void => {
    const socket = this.socket;
    if (this.isOver) return;
    if (this.#heldBytes > 0) {
      const bytes = this.#takeHeld();
      // A socket that has ended takes no bytes back, so Node gets them as events.
      return this.#whenQuiet(() => {
        this.#handOver();
        socket.emit('data', bytes);
        socket.emit('end');
      });
    }
    this.isOver = true;
    this.#senderEnded = true;
    if (this.#isQuiet || !this.#all.answersHalfClosed) socket.end();
  };

  readonly #onClose = (): void => {
    this.#takeHeld();
    this.isOver = true;
    this.#all.remove(this);
  };
}

/** A copy in memory of its own, outside Node's pool: for bytes that may be held for longer than others in the pool. */
function kept(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

const nothing = (): void => undefined;
