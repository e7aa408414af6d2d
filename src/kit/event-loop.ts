/**
 * Turns of the event loop: short work that is spread over them, and the moments at which nothing waits in the kernel. Closing a server's socket resets the
 * connections that the kernel has made and nobody has accepted yet; closing a connection resets it if bytes have arrived that nobody has read. By then a
 * proxy has sent a request on it, and may not send it again.
 */
import type { Server } from 'node:net';

/**
 * Runs short work, a bounded number of pieces per turn of the event loop: thousands that arrive at the same instant would
 * otherwise block everything else until all are done. Takes functions; runs each exactly once, in order, and at
 * once if few have come in this turn. The callers bound what waits.
 */
export class PerTurn {
  readonly #max: number;
  readonly #endOfTurn: (run: () => void) => void;
  #inThisTurn = 0;
  #waiting: (() => void)[] = [];
  #head = 0;

  /** `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  constructor(max: number, endOfTurn: (run: () => void) => void) {
    this.#max = max;
    this.#endOfTurn = endOfTurn;
  }

  run(work: () => void): void {
    if (this.#inThisTurn >= this.#max || this.#head < this.#waiting.length) {
      this.#waiting.push(work);
      return;
    }
    this.#count();
    work();
  }

  #count(): void {
    if (this.#inThisTurn === 0) this.#endOfTurn(() => this.#turn());
    this.#inThisTurn += 1;
  }

  #turn(): void {
    this.#inThisTurn = 0;
    // Work that these add comes after the work that already waits.
    const until = Math.min(this.#waiting.length, this.#head + this.#max);
    while (this.#head < until) {
      const work = this.#waiting[this.#head];
      this.#head += 1;
      this.#count();
      work?.();
    }
    // A copy moves at most as many entries as were run since the last one.
    if (this.#head * 2 < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}

/**
 * Resolves right after a turn of the event loop in which `count` did not change, or after `turnsMax` turns. A process that
 * got no processor for a while runs its timers before it looks at what has arrived meanwhile; after this it has looked. The
 * caller must then close at once, before it waits for anything else.
 */
export async function quietTurn(count: () => number, turnsMax: number): Promise<void> {
  // The first one ends the turn that this was called in: how much that turn has looked at is not known.
  await endOfTurn();
  for (let turn = 0; turn < turnsMax; turn++) {
    const before = count();
    await endOfTurn();
    if (count() === before) break;
  }
}

/** A quiet turn of a server: no connection waits to be accepted. */
export async function nobodyWaits(server: Server, turnsMax: number): Promise<void> {
  let accepted = 0;
  const tell = () => (accepted += 1);
  server.on('connection', tell);
  await quietTurn(() => accepted, turnsMax);
  server.off('connection', tell);
}

const endOfTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
