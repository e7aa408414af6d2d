/**
 * Keeps a door's certificate: has one made, shows it, and has the next one made in time. Takes a store, and a way to have a certificate made
 * (issue.ts); gives files that the door reads. Rejects nothing: what does not work is told, and the certificate before stays.
 *
 *   valid     there is a certificate, and it is not yet time for the next one.
 *   due       there is none, or a third of its lifetime is left. Whoever the store lets asks.
 *   asking    an authority was asked, for `acmeAttemptMs` at most. Ends as `valid` or `waiting`.
 *   waiting   the last attempt gave nothing. Due again after a pause that doubles, or when its owner asks (`retry`).
 *
 * Of several Headgates on one store one is asking, and the others see what is to be shown meanwhile with their next look.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { AcmeError, line } from './authority.ts';
import { newKey } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import { lifetimeOf, nothing, renewalMs } from './state.ts';
import type { Challenge, State } from './state.ts';
import type { Store } from './store.ts';

export interface KeeperOptions {
  readonly domains: readonly string[];
  readonly store: Store;
  /** Has a certificate made; rejects with AcmeError. */
  readonly make: (account: string, publish: Publish, signal: AbortSignal) => Promise<Certificate>;
  /** Puts both where the door finds them. */
  readonly show: (certificate: Certificate | null, challenges: readonly Challenge[]) => Promise<void>;
  readonly observe: Observe;
  /** ms since 1970 */
  readonly now: () => number;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
}

type Publish = (challenges: readonly Challenge[]) => Promise<void>;

/** How a certificate stands, for whoever looks. */
export interface Standing {
  readonly domains: readonly string[];
  readonly state: 'valid' | 'due' | 'asking' | 'waiting';
  /** null: there is none yet. */
  readonly validUntil: string | null;
  /** Attempts in a row that failed, and why the last one did. */
  readonly failures: number;
  readonly reason: string | null;
}

export class CertificateKeeper implements Closable {
  readonly #options: KeeperOptions;
  /** How much earlier than others this Headgate asks. */
  readonly #spread: number;
  readonly #closing = new AbortController();
  #state: State = nothing;
  #asking = false;
  /** After a failure, also where that could not be kept. */
  #notBeforeMs = 0;
  /** Its owner does not want to wait for the pause to be over. */
  #isImpatient = false;
  #unreadable: string | null = null;
  #woken = new AbortController();
  readonly #ran: Promise<void>;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#spread = options.random();
    this.#ran = this.#run();
  }

  get standing(): Standing {
    const { certificate, failures, reason } = this.#state;
    const isDue = this.#dueMs(this.#state) <= this.#options.now();
    return {
      domains: this.#options.domains,
      state: this.#asking ? 'asking' : !isDue ? 'valid' : failures > 0 ? 'waiting' : 'due',
      validUntil: certificate === null ? null : new Date(lifetimeOf(certificate).untilMs).toISOString(),
      failures,
      reason: this.#unreadable ?? reason,
    };
  }

  /** What an authority finds at the path of a token (RFC 8555 §8.3); null: nobody is expected to ask for it. */
  answer(token: string): string | null {
    return this.#state.challenges.find((it) => it.token === token)?.authorization ?? null;
  }

  /** Asks again at once, if that is what is waited for. */
  retry(): void {
    this.#isImpatient = true;
    this.#woken.abort();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#woken.abort();
    await this.#ran;
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      this.#woken = new AbortController();
      try {
        await this.#step();
        this.#unreadable = null;
      } catch (error) {
        this.#cannot(line(error));
      }
      const signal = AbortSignal.any([this.#woken.signal, this.#closing.signal]);
      await delay(this.#restMs(), undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #step(): Promise<void> {
    const { store, now } = this.#options;
    const isImpatient = this.#isImpatient;
    this.#isImpatient = false;
    await this.#take(await store.read());
    const isTime = (state: State) =>
      this.#dueMs(state) <= now() && (Math.max(state.notBeforeMs, this.#notBeforeMs) <= now() || isImpatient);
    if (!isTime(this.#state)) return;
    const state = await store.begin();
    if (state === null) return;
    // Another Headgate was quicker.
    if (isTime(state)) await this.#ask(state);
    else await store.keep(state, true);
  }

  async #ask(before: State): Promise<void> {
    const { store, domains, make, observe, now, random } = this.#options;
    let state: State = { ...before, account: before.account ?? newKey(), challenges: [] };
    const keep = async (next: State, ends: boolean): Promise<void> => {
      if (!(await store.keep(next, ends))) throw new AcmeError('another Headgate asks meanwhile');
      state = next;
      await this.#take(state);
    };
    const signal = AbortSignal.any([AbortSignal.timeout(limits.acmeAttemptMs), this.#closing.signal]);
    const publish: Publish = async (challenges) => {
      await keep({ ...state, challenges }, false);
      if (store.isShared) await delay(limits.acmeShareMs, undefined, { signal });
    };
    this.#asking = true;
    try {
      observe({ kind: 'certificate.asked', domains });
      // Before anybody knows of the account it is kept.
      await keep(state, false);
      const certificate = await make(state.account ?? '', publish, signal);
      await keep({ ...nothing, account: state.account, certificate }, true);
      observe({ kind: 'certificate.made', domains, expiresAtMs: lifetimeOf(certificate).untilMs });
    } catch (error) {
      const failures = state.failures + 1;
      const pauseMs = Math.max(
        backoffMs(failures, limits.acmeRetryMs, limits.acmeRetryMsMax, random),
        Math.min(error instanceof AcmeError ? (error.retryMs ?? 0) : 0, limits.acmeRetryMsMax),
      );
      // Who stops has not failed: the next start goes on.
      const isOver = this.#closing.signal.aborted;
      const reason = line(error);
      this.#notBeforeMs = now() + pauseMs;
      const failed = isOver ? {} : { failures, reason, notBeforeMs: this.#notBeforeMs };
      await keep({ ...state, challenges: [], ...failed }, true).catch(() => undefined);
      if (!isOver) observe({ kind: 'certificate.failed', domains, reason, failures, pauseMs });
    } finally {
      this.#asking = false;
    }
  }

  /** From now on the door shows it. */
  async #take(state: State): Promise<void> {
    this.#state = state;
    await this.#options.show(state.certificate, state.challenges);
  }

  #dueMs({ certificate }: State): number {
    return certificate === null ? 0 : renewalMs(certificate, this.#spread);
  }

  #restMs(): number {
    const { store, now } = this.#options;
    if (store.isShared || this.#unreadable !== null) return limits.acmeLookMs;
    const dueMs = Math.max(this.#dueMs(this.#state), this.#state.notBeforeMs, this.#notBeforeMs);
    // Not at once: where nothing can be kept, the last attempt is forgotten.
    return Math.min(Math.max(dueMs - now(), limits.acmeLookMs), limits.acmeLookMsMax);
  }

  /** Said once for a row of failures that are all the same. */
  #cannot(reason: string): void {
    if (reason === this.#unreadable || this.#closing.signal.aborted) return;
    this.#unreadable = reason;
    this.#options.observe({ kind: 'certificate.unkept', reason });
  }
}
