/**
 * A turn at the engine, which listener processes on few cores give each other. Half of the senders belong to each of two processes; if both
 * had a group of rows at the engine at one time, each group would be half as large, and what a group costs whatever its size would be paid
 * twice (decision 0224). So the next process's group is gathered while the other's is at the engine.
 *
 * The turns are bytes in a pair of sockets that all processes inherit: who reads one has it, and writes it back. Turns are an
 * optimisation and nothing else: whoever has waited for `turnMsMax` goes without one, and gives one back nevertheless, because another process may
 * have ended with its own. One too many is dropped by whoever reads both. Touches the pair of sockets; refuses nothing.
 */
import { once } from 'node:events';
import { readSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, Socket } from 'node:net';
import type { OnReadOpts, SocketConstructorOpts } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Turns } from '../../batch/lane.ts';
import type { Closable } from '../../kit/closer.ts';
import { limits } from '../../tables/limits.ts';

/** Where a listener process finds the two ends. */
const inherited = { takes: 4, gives: 5 } as const;

/** How many turns there are for so many processes; null: there are cores enough, and nobody waits. */
export function turnsOf(processes: number, cores: number): number | null {
  const turns = Math.max(1, Math.floor(cores / 2));
  return processes > turns ? turns : null;
}

/** In the main process: what each listener process inherits, in this order. */
export class TurnstilePair implements Closable {
  readonly turns: number;
  readonly ends: readonly [Socket, Socket];

  private constructor(turns: number, ends: readonly [Socket, Socket]) {
    this.turns = turns;
    this.ends = ends;
    // Nobody reads here.
    for (const end of ends) end.on('error', () => undefined).unref();
  }

  /** Rejects with the system's errors. */
  static async open(turns: number): Promise<TurnstilePair> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-'));
    const server = createServer({ pauseOnConnect: true });
    try {
      const path = join(folder, 'turns');
      server.listen(path);
      await once(server, 'listening');
      const accepted = once(server, 'connection');
      const gives = connect(path);
      gives.pause();
      await once(gives, 'connect');
      const [takes] = (await accepted) as [Socket];
      gives.write('.'.repeat(turns));
      return new TurnstilePair(turns, [takes, gives]);
    } finally {
      server.close();
      await rm(folder, { recursive: true });
    }
  }

  close(): Promise<void> {
    for (const end of this.ends) end.destroy();
    return Promise.resolve();
  }
}

/** In a listener process. */
export class Turnstile implements Turns, Closable {
  readonly #turns: number;
  readonly #ends: { readonly takes: number; readonly gives: number };
  readonly #socket: Socket;
  readonly #read = Buffer.alloc(16);
  /** Called with its turn, or when it has waited for long enough. */
  #waiting: (() => void) | null = null;

  /** `turns`: how many there are. `ends`: their file descriptors. */
  constructor(turns: number, ends: { readonly takes: number; readonly gives: number } = inherited) {
    this.#turns = turns;
    this.#ends = ends;
    // `false` from the callback: nothing more is read until the next wait.
    const onread: OnReadOpts = { buffer: this.#read, callback: (read) => this.#arrived(read) };
    this.#socket = new Socket({ fd: ends.takes, onread } as SocketConstructorOpts);
    this.#socket.on('error', () => undefined).unref();
  }

  take(): (() => void) | Promise<() => void> | null {
    if (this.#waiting !== null || this.#socket.destroyed) return null;
    const read = this.#readNow();
    if (read > 0) {
      this.#giveBack(Math.min(read, this.#turns) - 1);
      return this.#give;
    }
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#waiting?.(), limits.turnMsMax);
      this.#waiting = () => {
        clearTimeout(late);
        this.#waiting = null;
        resolve(this.#give);
      };
      this.#socket.resume();
    });
  }

  close(): Promise<void> {
    this.#socket.destroy();
    return Promise.resolve();
  }

  /** Whether to read on. */
  #arrived(read: number): boolean {
    const waiting = this.#waiting;
    this.#giveBack(Math.min(read, this.#turns) - (waiting === null ? 0 : 1));
    waiting?.();
    return false;
  }

  readonly #give = (): void => {
    this.#giveBack(1);
  };

  #giveBack(turns: number): void {
    try {
      if (turns > 0) writeSync(this.#ends.gives, '.'.repeat(turns));
    } catch {
      // The main process is gone, or so many turns are too many that there is no room.
    }
  }

  /** 0: all are taken. */
  #readNow(): number {
    try {
      return readSync(this.#ends.takes, this.#read);
    } catch {
      return 0;
    }
  }
}
