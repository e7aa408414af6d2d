/**
 * Two sockets and the session between them. Takes a client whose startup packet has been read and a new connection to the
 * engine; moves bytes both ways until one side ends, at the pace of the slower side.
 *
 * A relay is *relaying*; then *ending*: further messages are not passed on, and the client may read its last messages for as
 * long as it keeps reading (`sqlLingerMs`); then *closed*: both sockets are closed and `closed` has resolved with the reason.
 */
import type { Socket } from 'node:net';
import { deferred } from '../kit/promises.ts';
import type { Limits } from '../config/limits.ts';
import { ProtocolViolation } from './framing.ts';
import { type FatalReason, writeFatal, writeTerminate } from './messages.ts';
import { SqlPortSession, type SqlPortSessionOptions } from './session.ts';

export const shuttingDown: FatalReason = {
  sqlstate: '57P01',
  message: 'terminating connection because Headgate is shutting down',
};
const engineLost: FatalReason = {
  sqlstate: '08006',
  message: 'the connection to the database was lost',
  hint: 'Connect again; whether the statement that was running took effect is not known.',
};

const unread: FatalReason = {
  sqlstate: '08006',
  message: 'terminating connection because the follower does not read what it is sent',
};

export class Relay {
  readonly #client: Socket;
  readonly #engine: Socket;
  readonly #limits: Limits;
  readonly #session: SqlPortSession;
  readonly #authenticated: () => void;
  readonly #closed = deferred<string>();
  #state: 'relaying' | 'ending' | 'closed' = 'relaying';
  #reason = 'the client left';
  #toClient: Buffer[] = [];
  #toEngine: Buffer[] = [];
  #held = false;
  /** What the client has sent behind the message that is held: it is read, because nothing else tells that the client has left. */
  #behind: Buffer[] = [];
  #behindBytes = 0;
  #draining = false;
  #told = false;
  #lingering: NodeJS.Timeout | null = null;
  /** Runs while a follower of the log holds up the engine. */
  #unread: NodeJS.Timeout | undefined;
  readonly #follows: boolean;

  /** `authenticated`: called when the engine has accepted the client. */
  constructor(
    client: Socket,
    engine: Socket,
    authenticated: () => void,
    session: Omit<SqlPortSessionOptions, 'toEngine' | 'toClient' | 'flush'>,
  ) {
    this.#client = client;
    this.#engine = engine;
    this.#limits = session.limits;
    this.#authenticated = authenticated;
    this.#follows = (session.followerRefused ?? null) !== null;
    this.#session = new SqlPortSession({
      ...session,
      toEngine: (bytes) => this.#toEngine.push(bytes),
      flush: () => this.#flush(this.#engine, this.#toEngine),
      toClient: (bytes) => {
        if (bytes.length > 0) this.#toClient.push(bytes);
      },
    });
  }

  /** Resolves once, with the reason, when both sockets are closed. */
  get closed(): Promise<string> {
    return this.#closed.promise;
  }

  /** Begins with the client's startup packet and what followed it. */
  start(packet: Buffer, rest: Buffer): void {
    const [client, engine] = [this.#client, this.#engine];
    client.on('data', (chunk: Buffer) => this.#fromClient(chunk));
    client.on('end', () => {
      if (this.#held) this.#session.clientLeft();
      this.#passEnd();
    });
    client.on('drain', () => this.#pace());
    client.on('error', (error) => this.#vanished(error));
    client.on('close', () => this.#vanished(null));
    engine.on('data', (chunk: Buffer) => this.#fromEngine(chunk));
    engine.on('end', () => this.#engineEnded());
    engine.on('drain', () => this.#pace());
    engine.on('error', () => this.#engineEnded());
    engine.on('close', () => this.#engineEnded());
    engine.write(packet);
    if (rest.length > 0) this.#fromClient(rest);
    this.#passEnd();
    if (client.destroyed || engine.destroyed) this.#vanished(null);
    this.#pace();
  }

  /** Cancels what Headgate itself runs for this client, if the packet of a CancelRequest has its key. */
  cancel(packet: Buffer): void {
    if (this.#session.isCancelledBy(packet)) this.#session.cancel();
  }

  /** Ends as soon as the client has no statement running and no transaction open; at once if it follows the log. */
  drain(): void {
    this.#draining = true;
    this.#endWhenIdle();
  }

  /** Ends now; tells the client why, if it can be sent a message. */
  end(fatal: FatalReason, reason: string): void {
    if (this.#state !== 'relaying') return;
    const last = this.#session.clientCanBeTold && !this.#session.fatal ? writeFatal(fatal) : null;
    const bye = this.#session.engineCanBeTold && !this.#session.terminated ? writeTerminate() : null;
    this.#enterEnding(reason);
    if (last === null) this.#client.end();
    else this.#client.end(last);
    if (this.#engine.destroyed || this.#engine.writableEnded) return;
    if (bye === null) this.#engine.destroy();
    else this.#engine.end(bye);
  }

  #fromClient(chunk: Buffer): void {
    if (this.#state !== 'relaying') return;
    if (this.#held) {
      this.#behind.push(chunk);
      this.#behindBytes += chunk.length;
      this.#pace();
      return;
    }
    let held: Promise<void> | null;
    try {
      held = this.#session.fromClient(chunk);
    } catch (error) {
      this.#violated(error);
      return;
    }
    this.#flush(this.#engine, this.#toEngine);
    if (held !== null) {
      this.#held = true;
      held.then(
        () => this.#released(),
        (error: unknown) => this.#violated(error),
      );
    }
    this.#pace();
  }

  #released(): void {
    this.#held = false;
    if (this.#state !== 'relaying') return;
    this.#flush(this.#engine, this.#toEngine);
    const behind = this.#behind.splice(0);
    this.#behindBytes = 0;
    for (const chunk of behind) this.#fromClient(chunk);
    this.#passEnd();
    this.#pace();
    this.#endWhenIdle();
  }

  #fromEngine(chunk: Buffer): void {
    if (this.#state !== 'relaying') return;
    try {
      this.#session.fromEngine(chunk);
    } catch (error) {
      this.#violated(error);
      return;
    }
    this.#flush(this.#client, this.#toClient);
    if (!this.#told && this.#session.authenticated) {
      this.#told = true;
      this.#authenticated();
    }
    this.#pace();
    this.#endWhenIdle();
  }

  /** Sends the pieces of one chunk in one system call. */
  #flush(socket: Socket, pieces: Buffer[]): void {
    if (pieces.length === 0) return;
    if (pieces.length === 1) {
      socket.write(pieces[0]!);
    } else {
      socket.cork();
      for (const piece of pieces) socket.write(piece);
      socket.uncork();
    }
    pieces.length = 0;
  }

  /** Reads from each side only as fast as the other side accepts it. */
  #pace(): void {
    if (this.#state !== 'relaying') return;
    const { sqlRelayBufferBytesMax, sqlHeldBytesMax, sqlOutstandingMax, sqlFollowerUnreadMs } = this.#limits;
    const stopClient =
      this.#behindBytes >= sqlHeldBytesMax ||
      this.#engine.writableLength > sqlRelayBufferBytesMax ||
      this.#session.outstanding > sqlOutstandingMax;
    if (stopClient !== this.#client.isPaused()) {
      if (stopClient) this.#client.pause();
      else this.#client.resume();
    }
    const stopEngine = this.#client.writableLength > sqlRelayBufferBytesMax;
    if (stopEngine !== this.#engine.isPaused()) {
      if (stopEngine) this.#engine.pause();
      else this.#engine.resume();
      clearTimeout(this.#unread);
      if (stopEngine && this.#follows)
        this.#unread = setTimeout(() => this.end(unread, unread.message), sqlFollowerUnreadMs);
    }
  }

  #endWhenIdle(): void {
    const ends = this.#session.idle || this.#session.streams;
    if (this.#draining && this.#state === 'relaying' && ends) this.end(shuttingDown, 'drained');
  }

  #violated(error: unknown): void {
    const message = error instanceof ProtocolViolation ? error.message : 'internal error';
    const sqlstate = error instanceof ProtocolViolation ? '08P01' : 'XX000';
    this.end({ sqlstate, message }, message);
  }

  /** A client that sends nothing more may still read the engine's answers to what it has sent. */
  #passEnd(): void {
    if (this.#state !== 'relaying' || this.#held || !this.#client.readableEnded) return;
    if (!this.#engine.writableEnded) this.#engine.end();
  }

  #engineEnded(): void {
    if (this.#state === 'relaying') {
      const expected = this.#session.terminated || this.#session.fatal || this.#client.readableEnded;
      if (expected) {
        this.#enterEnding(this.#session.fatal ? 'ended by the database' : 'the client left');
        this.#client.end();
      } else {
        this.end(engineLost, engineLost.message);
      }
      if (!this.#engine.destroyed) this.#engine.end();
    }
    this.#settle();
  }

  #vanished(error: Error | null): void {
    this.#enterEnding(error === null ? 'the client left' : `the client left: ${error.message}`);
    this.#client.destroy();
    this.#engine.destroy();
    this.#settle();
  }

  /** Anything still received is read and discarded, because closing a socket with unread bytes would lose the last message. */
  #enterEnding(reason: string): void {
    if (this.#state !== 'relaying') return;
    this.#state = 'ending';
    this.#reason = reason;
    this.#session.leave();
    clearTimeout(this.#unread);
    this.#client.resume();
    this.#engine.resume();
    this.#linger(Infinity);
  }

  /** Gives the client time for as long as it keeps reading what is buffered for it. */
  #linger(waitingBefore: number): void {
    const waiting = this.#client.writableLength;
    if (waiting >= waitingBefore) {
      this.#client.destroy();
      this.#engine.destroy();
      return;
    }
    this.#lingering = setTimeout(() => this.#linger(waiting), this.#limits.sqlLingerMs);
  }

  #settle(): void {
    if (this.#state !== 'ending' || !this.#client.closed || !this.#engine.closed) return;
    this.#state = 'closed';
    if (this.#lingering !== null) clearTimeout(this.#lingering);
    this.#closed.resolve(this.#reason);
  }
}
