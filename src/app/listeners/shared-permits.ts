/**
 * A semaphore that listener processes on few cores share: who has a permit has a group at the engine. Each of two processes has half of the
 * senders; if both had a group at the engine at one time, each group would be half as large, and what a group costs whatever its size would be
 * paid twice (decision 0225). So one process gathers its group while that of the other is at the engine.
 *
 * Permits are bytes in a pair of sockets that all processes inherit: who reads one has it, and writes it back. They are an optimisation and
 * nothing else: who has waited for `permitMsMax` goes without one, and writes one back nevertheless, because another process may have ended with
 * its own. If there are then too many, they are dropped by who reads several. Touches the pair of sockets; refuses nothing.
 */
import { once } from 'node:events';
import { readSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, Socket } from 'node:net';
import type { OnReadOpts, SocketConstructorOpts } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Permits } from '../../batch/lane.ts';
import type { Closable } from '../../kit/closer.ts';
import { limits } from '../../tables/limits.ts';

/** Where a listener process finds the two ends. */
const inherited = { takes: 4, gives: 5 } as const;

/** How many permits there are for so many processes; null: there are cores enough, and nobody waits. */
export function permitsOf(processes: number, cores: number): number | null {
  const permits = Math.max(1, Math.floor(cores / 2));
  return processes > permits ? permits : null;
}

/** In the main process: what each listener process inherits, in this order. */
export class PermitEnds implements Closable {
  readonly permits: number;
  readonly ends: readonly [Socket, Socket];

  private constructor(permits: number, ends: readonly [Socket, Socket]) {
    this.permits = permits;
    this.ends = ends;
    // Nobody reads here.
    for (const end of ends) end.on('error', () => undefined).unref();
  }

  /** Rejects with the system's errors. */
  static async open(permits: number): Promise<PermitEnds> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-'));
    const server = createServer({ pauseOnConnect: true });
    try {
      const path = join(folder, 'permits');
      server.listen(path);
      await once(server, 'listening');
      const accepted = once(server, 'connection');
      const gives = connect(path);
      gives.pause();
      await once(gives, 'connect');
      const [takes] = (await accepted) as [Socket];
      gives.write('.'.repeat(permits));
      return new PermitEnds(permits, [takes, gives]);
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
export class SharedPermits implements Permits, Closable {
  readonly #permits: number;
  readonly #ends: { readonly takes: number; readonly gives: number };
  readonly #socket: Socket;
  readonly #read = Buffer.alloc(16);
  /** Called when there is one, or when it has waited for long enough. */
  #waiting: (() => void) | null = null;

  /** `permits`: how many there are. `ends`: their file descriptors. */
  constructor(permits: number, ends: { readonly takes: number; readonly gives: number } = inherited) {
    this.#permits = permits;
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
      this.#giveBack(Math.min(read, this.#permits) - 1);
      return this.#give;
    }
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#waiting?.(), limits.permitMsMax);
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
    this.#giveBack(Math.min(read, this.#permits) - (waiting === null ? 0 : 1));
    waiting?.();
    return false;
  }

  readonly #give = (): void => {
    this.#giveBack(1);
  };

  #giveBack(permits: number): void {
    try {
      if (permits > 0) writeSync(this.#ends.gives, '.'.repeat(permits));
    } catch {
      // The main process is gone, or there are so many that there is no room.
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
