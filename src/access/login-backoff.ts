/**
 * How long an attempt to log in waits because of wrong passwords before it, for the same name and from the same network: nobody else waits. The first few of a
 * minute are free; after them passwords are looked at one by one, a second apart, also if connections try them at one time. Takes the clock as an
 * argument; touches nothing.
 */
import type { Limits } from '../config/limits.ts';

interface Attempts {
  /** The times of the last wrong ones, as many as are free. */
  readonly wrongMs: readonly number[];
  /** When the next password is looked at. */
  nextMs: number;
}

const minuteMs = 60_000;

export class LoginBackoff {
  readonly #limits: Limits;
  /** In the order of their last wrong one. */
  readonly #attempts = new Map<string, Attempts>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** In ms; null: too many wait already. */
  waitMs(user: string, network: string, nowMs: number): number | null {
    const it = this.#attempts.get(keyOf(user, network));
    const [first = -Infinity] = it?.wrongMs ?? [];
    const isFree =
      it === undefined || it.wrongMs.length < this.#limits.sqlWrongPasswordsMax || nowMs - first >= minuteMs;
    if (isFree) return 0;
    const waitMs = Math.max(0, it.nextMs - nowMs);
    if (waitMs > this.#limits.sqlPasswordWaitMs) return null;
    it.nextMs = nowMs + waitMs + this.#limits.sqlPasswordPauseMs;
    return waitMs;
  }

  wrong(user: string, network: string, nowMs: number): void {
    const key = keyOf(user, network);
    const { wrongMs = [], nextMs = 0 } = this.#attempts.get(key) ?? {};
    this.#attempts.delete(key);
    this.#attempts.set(key, {
      wrongMs: [...wrongMs, nowMs].slice(-this.#limits.sqlWrongPasswordsMax),
      nextMs: Math.max(nextMs, nowMs + this.#limits.sqlPasswordPauseMs),
    });
    if (this.#attempts.size <= this.#limits.sqlWrongPasswordNamesMax) return;
    const [oldest = ''] = this.#attempts.keys();
    this.#attempts.delete(oldest);
  }
}

/** A name of the start-up packet has no zero byte. */
const keyOf = (user: string, network: string): string => `${network}\0${user.slice(0, 64)}`;
