/**
 * One Headgate per data directory, by a lock that ends with its process. Takes a folder, returns a held lock; refuses with
 * DataDirInUse; touches only sockets named `claim-…` in that folder.
 *
 * Not every machine has a program that takes a kernel lock (folder-lock.ts), a pid file outlives its process, and an abstract
 * socket exists only on Linux and not across containers that share a volume. So each Headgate makes a *claim*: a listening Unix
 * socket under a name that is never used again, which the kernel makes dead, visibly for everyone, at the moment its process ends.
 *
 * 1. Create the socket under a hidden name, listen, then rename it to `claim-<pid>-<random>`: a claim that can be
 *    seen can be connected to. Then, and only then, look at every other claim.
 * 2. A claim that refuses connections is dead and is removed. That needs no care: its name is never reused.
 * 3. Of two live claims the one whose name sorts last withdraws at once. The other waits for the outcome of that
 *    claim: it says `held`, because it was there first, or it hangs up.
 *
 * Both claim before they look, so of two that start together at least one sees the other, and the rules never let both stay: the
 * one whose name sorts later stays only if it had looked before the other one claimed, and then it says `held`. Nothing is ever
 * taken over, so there is no moment at which two could take over the same thing.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';

/** Another live process holds the folder. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse';
  /** null: not known. */
  readonly pid: number | null;

  constructor(pid: number | null) {
    super(pid === null ? 'in use' : `in use by pid ${pid}`);
    this.pid = pid;
  }
}

const claimName = /^claim-(\d+)-[0-9a-f]{8}$/;

/** A claim, undecided or decided; questions of other processes wait for the decision. */
class Claim {
  readonly name = `claim-${process.pid}-${randomBytes(4).toString('hex')}`;
  readonly #folder: string;
  readonly #server: Server;
  readonly #asking = new Set<Socket>();
  #held = false;

  constructor(folder: string) {
    this.#folder = folder;
    this.#server = createServer((socket) => {
      socket.on('error', () => socket.destroy());
      this.#asking.add(socket);
      socket.on('close', () => this.#asking.delete(socket));
      if (this.#held) socket.end('held');
    });
  }

  async publish(): Promise<void> {
    const hidden = join(this.#folder, `.${this.name.slice(6)}`);
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(hidden, resolve);
    });
    await rename(hidden, join(this.#folder, this.name));
    // The lock must not keep the process alive.
    this.#server.unref();
  }

  hold(): void {
    this.#held = true;
    for (const socket of this.#asking) socket.end('held');
  }

  async withdraw(): Promise<void> {
    await rm(join(this.#folder, this.name), { force: true });
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#asking) socket.destroy();
    await closed;
  }
}

/**
 * Takes the lock on `folder`, which must exist and whose path must leave 32 bytes of a socket's path free. The lock is
 * held until `close`, or the end of the process.
 */
export async function lockFolder(folder: string, settleMs: number = limits.dataDirLockMs): Promise<Closable> {
  const claim = new Claim(folder);
  try {
    await claim.publish();
    for (const name of await readdir(folder)) {
      const pid = claimName.exec(name)?.[1];
      if (pid === undefined || name === claim.name) continue;
      const fate = await ask(join(folder, name), name < claim.name ? 'alive' : 'fate', settleMs);
      if (fate === 'in use') throw new DataDirInUse(Number(pid));
      if (fate === 'dead') await rm(join(folder, name), { force: true });
    }
    claim.hold();
    return { close: () => claim.withdraw() };
  } catch (error) {
    await claim.withdraw();
    throw error;
  }
}

/** `alive` asks only whether the claim is live; `fate` waits for its decision, and after `settleMs` assumes the worst. */
function ask(
  path: string,
  question: 'alive' | 'fate',
  settleMs: number,
): Promise<'in use' | 'withdrawn' | 'dead'> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const timer = setTimeout(() => done('in use'), settleMs);
    const done = (fate: 'in use' | 'withdrawn' | 'dead'): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(fate);
    };
    socket.on('connect', () => {
      if (question === 'alive') done('in use');
    });
    socket.on('data', () => done('in use'));
    socket.on('end', () => done('withdrawn'));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') done('dead');
      else if (error.code === 'ENOENT' || error.code === 'ECONNRESET' || error.code === 'EPIPE')
        done('withdrawn');
      else if (error.code === 'EAGAIN') done('in use');
      else {
        clearTimeout(timer);
        reject(error);
      }
    });
  });
}
