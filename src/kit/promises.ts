/** Small helpers for promises. */

/** A promise that is settled from outside. Node 20 lacks `Promise.withResolvers`. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}

/**
 * Waits for `work` for at most `ms`, and returns `late` after that. Rejects if the work rejects in time; how it ends later is
 * ignored.
 */
export async function within<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<L>((resolve) => {
    timer = setTimeout(() => resolve(late), ms);
  });
  work.catch(() => undefined);
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for both, even if one fails, so that what was opened can be closed; throws the failure of `one`, or else that of `other`. */
export async function together<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}

/** What is opened once under a name and awaited before. Returns promises that resolve when it is opened; they never reject. */
export class Openings {
  readonly #all = new Map<string, Deferred<void>>();

  /** Resolves when `opened` is called with this name, or at once if it was. */
  of(name: string): Promise<void> {
    return this.#one(name).promise;
  }

  opened(name: string): void {
    this.#one(name).resolve();
  }

  #one(name: string): Deferred<void> {
    let one = this.#all.get(name);
    if (one === undefined) {
      one = deferred();
      this.#all.set(name, one);
    }
    return one;
  }
}
