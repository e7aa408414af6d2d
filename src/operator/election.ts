/**
 * One active operator among several, by a Lease. Takes the cluster and a name of its own; calls `lead` while it is the
 * leader, with a signal that ends its term; releases the lease when it stops, so that the next one need not wait.
 *
 *   following  another operator holds the lease: it is read every `operatorLeaseRetryMs`. It counts as free when it names no holder,
 *              or has not changed for its own duration by our clock: clocks of machines are never compared
 *   leading    we wrote it last: renewed at the same pace. If not renewed for `operatorRenewDeadlineMs`, well before
 *              anybody else may take it, or if found to be another's: the term ends, and we follow
 *   stopped    on request: the term ends, its work is awaited, and only then is the lease released
 *
 * Every write names the version that was read, so if two take it at once the API server refuses one of them (409).
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { isStatus } from './cluster.ts';
import type { Cluster } from './cluster.ts';
import { leases, pathOf } from './kinds.ts';
import type { JsonObject } from './resource.ts';

interface ElectionOptions {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly name: string;
  /** Different from that of every other operator. */
  readonly identity: string;
  readonly limits: Limits;
  readonly observe: Observe;
  /** Monotonic, ms. */
  readonly clock: () => number;
  /** ms since 1970, for people who read the lease. */
  readonly now: () => number;
  /** Runs for one term; must end soon after its signal. */
  readonly lead: (term: AbortSignal) => Promise<void>;
}

interface ElectionLease extends JsonObject {
  readonly metadata: JsonObject & { readonly resourceVersion?: string };
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

export class Election {
  readonly #options: ElectionOptions;
  #seen = { version: '', atMs: -Infinity };
  #told = '';
  #lastAnswerMs: number;

  constructor(options: ElectionOptions) {
    this.#options = options;
    this.#lastAnswerMs = options.clock();
  }

  /** null while the API server answers; otherwise the reason for `/readyz`. */
  get unavailable(): string | null {
    const { clock, limits } = this.#options;
    const silentMs = clock() - this.#lastAnswerMs;
    return silentMs < limits.operatorLeaseSeconds * 1_000
      ? null
      : 'the Kubernetes API server does not answer';
  }

  /** Ends with its signal, after the last term has ended and the lease is released. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (await this.#take(signal)) await this.#term(signal);
      else await this.#pause(signal);
    }
  }

  async #term(signal: AbortSignal): Promise<void> {
    const { identity, observe, lead, limits } = this.#options;
    const term = new AbortController();
    const end = () => term.abort();
    signal.addEventListener('abort', end, { once: true });
    // A timer, not a check after each renewal: a renewal that hangs must not prolong the term.
    let expiry = setTimeout(end, limits.operatorRenewDeadlineMs);
    const working = lead(term.signal);
    observe({ kind: 'operator.leading', identity });
    this.#told = identity;
    while (!term.signal.aborted) {
      await this.#pause(term.signal);
      const held = term.signal.aborted ? null : await this.#take(term.signal);
      if (held === false) end();
      if (held !== true) continue;
      clearTimeout(expiry);
      expiry = setTimeout(end, limits.operatorRenewDeadlineMs);
    }
    clearTimeout(expiry);
    signal.removeEventListener('abort', end);
    await working;
    await this.#giveUp();
  }

  /** true: the lease is ours from now on; false: it is another's; null: unknown, because the server did not answer. */
  async #take(signal: AbortSignal): Promise<boolean | null> {
    const { cluster, clock, identity, observe } = this.#options;
    try {
      const lease = await this.#read(signal);
      this.#lastAnswerMs = clock();
      const holder = lease?.spec?.holderIdentity ?? '';
      if (lease !== null && holder !== '' && holder !== identity && !this.#isStale(lease)) {
        if (this.#told !== holder) observe({ kind: 'operator.following', identity, leader: holder });
        this.#told = holder;
        return false;
      }
      await cluster.request(this.#write(lease, holder), signal);
      return true;
    } catch (error) {
      // Another operator was faster; the next read shows which.
      if (isStatus(error, 409)) return false;
      if (!signal.aborted) {
        observe({ kind: 'operator.lease_failed', identity, reason: (error as Error).message });
      }
      return null;
    }
  }

  async #read(signal: AbortSignal): Promise<ElectionLease | null> {
    const { cluster, namespace, name } = this.#options;
    try {
      const path = pathOf(leases, namespace, name);
      return (await cluster.request({ method: 'GET', path }, signal)) as ElectionLease;
    } catch (error) {
      if (isStatus(error, 404)) return null;
      throw error;
    }
  }

  #isStale({ metadata, spec }: ElectionLease): boolean {
    const { clock, limits } = this.#options;
    const nowMs = clock();
    const version = metadata.resourceVersion ?? '';
    if (version !== this.#seen.version) this.#seen = { version, atMs: nowMs };
    const durationMs = (spec?.leaseDurationSeconds ?? limits.operatorLeaseSeconds) * 1_000;
    return nowMs - this.#seen.atMs > durationMs;
  }

  #write(lease: ElectionLease | null, holder: string) {
    const { namespace, name, identity, now, limits } = this.#options;
    const time = new Date(now()).toISOString().replace('Z', '000Z');
    const isOurs = holder === identity;
    const spec = {
      holderIdentity: identity,
      leaseDurationSeconds: limits.operatorLeaseSeconds,
      acquireTime: (isOurs ? lease?.spec?.acquireTime : undefined) ?? time,
      renewTime: time,
      leaseTransitions: (lease?.spec?.leaseTransitions ?? 0) + (isOurs || lease === null ? 0 : 1),
    };
    const metadata = { ...lease?.metadata, name, namespace };
    const body = { apiVersion: leases.apiVersion, kind: leases.kind, metadata, spec };
    return lease === null
      ? { method: 'POST' as const, path: pathOf(leases, namespace), body }
      : { method: 'PUT' as const, path: pathOf(leases, namespace, name), body };
  }

  /** Removes the holder, so that the next operator need not wait for the lease to expire. If that fails, it expires. */
  async #giveUp(): Promise<void> {
    const { cluster, namespace, name, identity } = this.#options;
    // Not the operator's own signal, which is aborted by now. The request's deadline bounds it.
    const { signal } = new AbortController();
    try {
      const lease = await this.#read(signal);
      if (lease?.spec?.holderIdentity !== identity) return;
      // Omits the holder: some versions of Kubernetes reject an empty name.
      const { holderIdentity: _, ...spec } = lease.spec;
      const body = { ...lease, spec: { ...spec, leaseDurationSeconds: 1 } };
      await cluster.request({ method: 'PUT', path: pathOf(leases, namespace, name), body }, signal);
    } catch (error) {
      const reason = (error as Error).message;
      this.#options.observe({ kind: 'operator.lease_failed', identity, reason });
    }
  }

  async #pause(signal: AbortSignal): Promise<void> {
    await delay(this.#options.limits.operatorLeaseRetryMs, undefined, { signal }).catch(() => {});
  }
}
