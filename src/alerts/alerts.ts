/**
 * Alerts without Prometheus: checks every `HEADGATE_ALERT_SECONDS` what is wrong (rules.ts), and POSTs what has changed (conditions.ts) to
 * `HEADGATE_ALERT_URL`. Takes its sources as functions; refuses nothing, delays nothing else and never throws: a failed POST is logged and retried
 * later, within bounds. It does one thing at a time, so a receiver that hangs delays only its own alerts.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { hostname } from 'node:os';
import { RateLimit } from '../access/rate-limit.ts';
import type { Post } from '../access/outgoing.ts';
import { backoffMs } from '../kit/backoff.ts';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { samplesOf } from '../admin/metrics.ts';
import type { Sample } from '../admin/metrics.ts';
import { Conditions, keyOf } from './conditions.ts';
import type { AlertCondition } from './conditions.ts';
import type { AlertStateFile } from './state-file.ts';
import { messageFor } from './message.ts';
import type { Receiver } from './message.ts';
import { rules } from './rules.ts';
import type { Labels, SilentTable, OpenGap, ReplicationSlot, AlertInput } from './rules.ts';
import type { ClaimSource } from './claims.ts';
import type { Readers } from '../observe/context.ts';

export interface AlertDeps extends Receiver {
  readonly version: string;
  readonly everyMs: number;
  readonly post: Post;
  readonly file: AlertStateFile;
  readonly signs: Pick<ObservedConditions, 'certificates' | 'unconfirmed'>;
  /** The text of `/metrics`, of all processes. */
  readonly metrics: () => Promise<string>;
  readonly ready: () => string | null;
  readonly disk: () => Promise<AlertInput['disk']>;
  /** null: not known at present. */
  readonly silent: (
    database: string,
    isKnown: (labels: Labels) => boolean,
  ) => Promise<readonly SilentTable[] | null>;
  readonly slots: (database: string) => Promise<readonly ReplicationSlot[] | null>;
  readonly gaps: (database: string) => Promise<readonly OpenGap[] | null>;
  readonly sharing: ClaimSource;
  readonly observe: Observe;
  /** ms since 1970. */
  readonly nowMs: () => number;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

const sharedRules = rules.filter(({ shared }) => shared === true);

export class Alerts implements Closable {
  readonly #deps: AlertDeps;
  readonly #conditions = new Conditions();
  readonly #growth = new Growth();
  readonly #closing = new AbortController();
  readonly #perHour = new RateLimit(
    { count: limits.alertPerHour, perMs: 3_600_000, burst: limits.alertBurst },
    1,
  );
  #ended: Promise<void> = Promise.resolve();
  #failures = 0;
  #failure = '';
  #againAtMs = -Infinity;
  #silent: readonly SilentTable[] = [];
  #slots: readonly ReplicationSlot[] = [];
  #gaps: readonly OpenGap[] = [];
  #askedAtMs = -Infinity;

  constructor(deps: AlertDeps) {
    this.#deps = deps;
  }

  start(): this {
    this.#ended = this.#run();
    return this;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { file, nowMs } = this.#deps;
    this.#conditions.restore(await file.read(), rules, nowMs());
    while (!signal.aborted) {
      // A bug here must not end the service that it watches.
      await this.look().catch((error: unknown) => this.#failed(error));
      await delay(this.#deps.everyMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Checks once, and reports what has changed. */
  async look(): Promise<void> {
    const view = await this.#view();
    const clockMs = this.#deps.clock();
    const seen = rules.map((rule) => ({ rule, wrong: rule.wrong(view) }));
    const changed = this.#conditions.step(seen, this.#deps.nowMs());
    if (changed.length === 0 || clockMs < this.#againAtMs) return;
    const own = await this.#ownOf(changed);
    if (own.length > 0 && this.#perHour.take('', clockMs) === 0) await this.#tell(own);
  }

  /** One Headgate reports what several see; conditions that another one has reported are marked as told. */
  async #ownOf(changed: readonly AlertCondition[]): Promise<readonly AlertCondition[]> {
    const { sharing, file } = this.#deps;
    const verdicts = await sharing.claim(changed);
    const told = changed.filter((_, i) => verdicts[i] === 'told');
    if (told.length > 0) {
      this.#conditions.told(told);
      await file.write(this.#conditions.kept);
    }
    return changed.filter((_, i) => verdicts[i] === 'tell');
  }

  async #tell(changed: readonly AlertCondition[]): Promise<void> {
    const { post, url, file, observe, version, nowMs } = this.#deps;
    try {
      const message = messageFor(this.#deps, changed, { version, host: hostname() }, nowMs());
      await post(url, message, this.#closing.signal);
    } catch (error) {
      return this.#failed(error);
    }
    this.#failures = 0;
    this.#failure = '';
    await this.#deps.sharing.told(changed);
    this.#conditions.told(changed);
    await file.write(this.#conditions.kept);
    const over = changed.filter(({ state }) => state === 'over').length;
    observe({ kind: 'alerts.told', firing: changed.length - over, over });
  }

  #failed(error: unknown): void {
    const { observe, clock } = this.#deps;
    if (this.#closing.signal.aborted) return;
    this.#failures += 1;
    this.#againAtMs =
      clock() + backoffMs(this.#failures, limits.alertRetryMinMs, limits.alertRetryMs, Math.random);
    const reason = error instanceof Error ? error.message : String(error);
    // Logged once for a series of identical failures.
    if (reason !== this.#failure) observe({ kind: 'alerts.failed', reason });
    this.#failure = reason;
  }

  async #view(): Promise<AlertInput> {
    const { metrics, ready, disk, signs, clock } = this.#deps;
    const samples = new Map<string, Sample[]>();
    for (const sample of samplesOf(await metrics().catch(() => ''))) {
      const known = samples.get(sample.name);
      if (known === undefined) samples.set(sample.name, [sample]);
      else known.push(sample);
    }
    const atMs = clock();
    await this.#askDatabases(
      (samples.get('headgate_tables') ?? []).map(({ labels }) => labels.get('database') ?? ''),
    );
    return {
      of: (name) => samples.get(name) ?? [],
      grown: (id, value, windowMs) => this.#growth.grown(id, value, windowMs, atMs),
      notReady: ready(),
      disk: await disk().catch(() => null),
      certificates: signs.certificates,
      unconfirmed: signs.unconfirmed,
      silent: this.#silent,
      slots: this.#slots,
      gaps: this.#gaps,
    };
  }

  /**
   * Asks the databases which tables are silent or lack deliveries, who follows the log and what other Headgates have told, and reports that told conditions still hold.
   * The last known result stays until a database gives a new one.
   */
  async #askDatabases(databases: readonly string[]): Promise<void> {
    const { silent, slots, gaps, sharing, clock, nowMs } = this.#deps;
    if (clock() - this.#askedAtMs < limits.alertAskedEveryMs) return;
    this.#askedAtMs = clock();
    await sharing.claim(this.#conditions.standing);
    const all: SilentTable[] = [];
    const followed: ReplicationSlot[] = [];
    const open: OpenGap[] = [];
    const known = new Set(this.#conditions.kept.map(({ rule, labels }) => keyOf(rule, labels)));
    const isKnown = (labels: Labels) => known.has(keyOf('HeadgateTableSilent', labels));
    for (const database of databases.slice(0, limits.alertDatabasesMax)) {
      const ofDatabase = ({ labels }: { readonly labels: Labels }) => labels['database'] === database;
      all.push(...((await silent(database, isKnown)) ?? this.#silent.filter(ofDatabase)));
      followed.push(...((await slots(database)) ?? this.#slots.filter(ofDatabase)));
      open.push(...((await gaps(database)) ?? this.#gaps.filter(ofDatabase)));
      this.#conditions.restore(await sharing.left(database), sharedRules, nowMs());
    }
    this.#silent = all;
    this.#slots = followed;
    this.#gaps = open;
  }
}

interface Point {
  readonly atMs: number;
  readonly value: number;
}

/**
 * How much counts have grown within a time window. Takes a count's value at a moment; a count seen for the first time grew from zero,
 * because its process started with this one. A count that decreased has been reset. Bounded in counts and points.
 */
export class Growth {
  /** By id: earlier values, each with the time it was first seen; the window starts at the first point. */
  readonly #counts = new Map<string, Point[]>();

  grown(id: string, value: number, windowMs: number, nowMs: number): number {
    let points = this.#counts.get(id);
    if (points === undefined) {
      if (value === 0 || this.#counts.size >= limits.alertCountsMax) return 0;
      points = [{ atMs: nowMs - windowMs, value: 0 }];
      this.#counts.set(id, points);
    }
    const last = points.at(-1);
    if (last !== undefined && value < last.value)
      points.splice(0, points.length, { atMs: nowMs - windowMs, value: 0 });
    // Points close together are merged, so the start of the window may be slightly too old.
    if (value !== last?.value) {
      const near =
        points.length > 1 && nowMs - (points.at(-1)?.atMs ?? 0) < windowMs / (limits.alertPointsMax / 2);
      if (near) points[points.length - 1] = { atMs: points.at(-1)?.atMs ?? nowMs, value };
      else points.push({ atMs: nowMs, value });
    }
    while (points.length > 1 && (points[1]?.atMs ?? nowMs) <= nowMs - windowMs) points.shift();
    return value - (points[0]?.value ?? value);
  }
}

/**
 * Facts that alerts need and that only observations contain, not metrics: the state of the doors' certificates, and which
 * confirmations failed. Takes observations of all processes; returns the present state of both. Bounded in tables.
 */
export class ObservedConditions implements Pick<AlertInput, 'certificates' | 'unconfirmed'> {
  readonly certificates = new Map<string, string>();
  readonly #failed = new Map<string, { readonly labels: Labels; count: number }>();

  get unconfirmed(): AlertInput['unconfirmed'] {
    return [...this.#failed.values()];
  }

  readonly readers: Readers = {
    'tls.loaded': ({ door }) => void this.certificates.delete(door),
    'tls.doubtful': ({ door, state, validUntil }) =>
      void this.certificates.set(door, `${state}, valid until ${validUntil}`),
    'tls.unusable': ({ door }) =>
      void this.certificates.set(door, 'the files have changed and cannot be used'),
    'certificate.failed': ({ failures, reason }) => {
      if (failures >= limits.acmeFailuresToldMin)
        this.certificates.set('listen', `no new one can be had: ${reason}`);
    },
    'sns.failed': ({ table }) => this.#fail(table),
    'event_grid.failed': ({ table }) => this.#fail(table),
  };

  #fail({ database, schema, table }: TableName): void {
    const key = JSON.stringify([database, schema, table]);
    const known = this.#failed.get(key);
    if (known !== undefined) known.count += 1;
    else if (this.#failed.size < limits.metricTablesMax)
      this.#failed.set(key, { labels: { database, schema, table }, count: 1 });
  }
}
