/**
 * Keeps a door's certificate: requests one, shows it, and requests the next one in time. Takes a store, and a function that requests a
 * certificate (authority.ts); produces files that the door reads. Never rejects: failures are reported, and the previous certificate stays.
 *
 *   valid     there is a certificate, and it is not yet time for the next one.
 *   due       there is none, or a third of its lifetime is left. The Headgate that the store admits asks.
 *   asking    an authority is being asked, for `acmeAttemptMs` at most. Ends as `valid` or `waiting`.
 *   waiting   the last attempt failed. Due again after a pause that doubles, or when its owner asks (`retry`).
 *
 * Of several Headgates on one store only one asks; the others learn with their next look what to show meanwhile.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { abortAfter, abortWith } from '../kit/abort-signal.ts';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { AcmeError, line } from './authority.ts';
import { newKey } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import { lifetimeOf, nothing, renewalMs } from './certificate-state.ts';
import type { Challenge, CertificateState, Store } from './certificate-state.ts';

export interface RenewalOptions {
  readonly domains: readonly string[];
  readonly store: Store;
  /** Requests a certificate; rejects with AcmeError. */
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

/** The state of a certificate, for display. */
export interface CertificateStatus {
  readonly domains: readonly string[];
  readonly state: 'valid' | 'due' | 'asking' | 'waiting';
  /** null: there is no certificate yet. */
  readonly validUntil: string | null;
  /** The number of consecutive failed attempts, and why the last one failed. */
  readonly failures: number;
  readonly reason: string | null;
}

export class CertificateRenewal implements Closable {
  readonly #options: RenewalOptions;
  /** How much earlier than others this Headgate asks. */
  readonly #spread: number;
  readonly #closing = new AbortController();
  #state: CertificateState = nothing;
  #asking = false;
  /** After a failure, even if the failure could not be stored. */
  #notBeforeMs = 0;
  /** Its owner does not want to wait for the end of the pause. */
  #isImpatient = false;
  #unreadable: string | null = null;
  #woken = new AbortController();
  readonly #ran: Promise<void>;

  constructor(options: RenewalOptions) {
    this.#options = options;
    this.#spread = options.random();
    this.#ran = this.#run();
  }

  get standing(): CertificateStatus {
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

  /** Asks again at once, if it is waiting to. */
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
      const signal = abortWith(this.#woken.signal, this.#closing.signal);
      await delay(this.#restMs(), undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #step(): Promise<void> {
    const { store, now } = this.#options;
    const isImpatient = this.#isImpatient;
    this.#isImpatient = false;
    await this.#take(await store.read());
    const isTime = (state: CertificateState) =>
      this.#dueMs(state) <= now() && (Math.max(state.notBeforeMs, this.#notBeforeMs) <= now() || isImpatient);
    if (!isTime(this.#state)) return;
    const state = await store.begin();
    if (state === null) return;
    // Another Headgate was quicker.
    if (isTime(state)) await this.#ask(state);
    else await store.keep(state, true);
  }

  async #ask(before: CertificateState): Promise<void> {
    const { store, domains, make, observe, now, random } = this.#options;
    let state: CertificateState = { ...before, account: before.account ?? newKey(), challenges: [] };
    const keep = async (next: CertificateState, ends: boolean): Promise<void> => {
      if (!(await store.keep(next, ends))) throw new AcmeError('another Headgate asks meanwhile');
      state = next;
      await this.#take(state);
    };
    const signal = abortAfter(limits.acmeAttemptMs, this.#closing.signal);
    const publish: Publish = async (challenges) => {
      await keep({ ...state, challenges }, false);
      if (store.isShared) await delay(limits.acmeShareMs, undefined, { signal });
    };
    this.#asking = true;
    try {
      observe({ kind: 'certificate.asked', domains });
      // The account's key is stored before anybody knows of the account.
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
      // A shutdown is not a failure: the next start continues.
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

  /** From now on the door shows this certificate. */
  async #take(state: CertificateState): Promise<void> {
    this.#state = state;
    await this.#options.show(state.certificate, state.challenges);
  }

  #dueMs({ certificate }: CertificateState): number {
    return certificate === null ? 0 : renewalMs(certificate, this.#spread);
  }

  #restMs(): number {
    const { store, now } = this.#options;
    if (store.isShared || this.#unreadable !== null) return limits.acmeLookMs;
    const dueMs = Math.max(this.#dueMs(this.#state), this.#state.notBeforeMs, this.#notBeforeMs);
    // Not at once: if nothing can be stored, the last attempt is not remembered.
    return Math.min(Math.max(dueMs - now(), limits.acmeLookMs), limits.acmeLookMsMax);
  }

  /** Reported once for a series of identical failures. */
  #cannot(reason: string): void {
    if (reason === this.#unreadable || this.#closing.signal.aborted) return;
    this.#unreadable = reason;
    this.#options.observe({ kind: 'certificate.unkept', reason });
  }
}
