/**
 * What happens to the batches of one WebSocket. A stream is opened once and then takes batches:
 *
 *   route → find the table → VALIDATE over the first frame ┆ find → admit → decode → the lane's receipt, in order
 *
 * Takes an Opening, and then batches; returns one Outcome for each, or throws Refused with the codes of those stages.
 * Batches are pipelined: each is submitted before the previous one is committed, in one Chain, so that after a batch
 * that was not committed none takes effect. If a retry can help and nothing was stored (the table was changed, the lane is
 * full, the engine is unreachable), the stream starts a new chain with the first batch that was not committed, for at most
 * `streamPatienceMs`. An unknown outcome is never retried. Touches nothing itself.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import type { CheckRequest, DecodeHead, RequestSpan } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { backoffMs } from '../kit/backoff.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { freeLarge } from '../kit/free-buffer.ts';
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { clientOf } from './stream-fence.ts';
import type { FencedStream, StreamFence } from './stream-fence.ts';
import { changedAttemptsMax, standing } from './refusal-check.ts';
import { authenticated } from './ingest.ts';
import { ingestRoute } from './routes.ts';
import { admitPastDisk } from './retry.ts';
import type { DirectStages } from './retry.ts';
import { decodeItems } from '../decode/batches.ts';
import type { ItemsRequest } from '../decode/batches.ts';
import type { StageContext } from '../observe/context.ts';
import type { Rejects } from '../reject/rejected-requests.ts';

/** The items of one batch, as received. */
export interface StreamBatch extends Omit<ItemsRequest, Exclude<keyof DecodeHead, 'arrivedAtMs'>> {
  /** null or absent: it is not traced. */
  readonly span?: RequestSpan | null;
}

/** What all streams work with. */
interface StreamContext extends DirectStages, Omit<StageContext, 'observe'> {
  /** Keeps refused streams and batches for the owners of their tables; null: nobody does. */
  readonly rejects: Pick<Rejects, 'keep'> | null;
  /** null: this process takes all streams of a table, and its lane keeps their order. */
  readonly fence: StreamFence | null;
}

/** The upgrade as it arrived, with the first frame in place of a body. */
export interface StreamUpgrade extends CheckRequest {
  readonly remoteAddress?: string;
}

export interface Stream {
  /** Takes the next batch; rejects only because of a bug. After a batch that is not committed, none is. */
  submit(batch: StreamBatch): Promise<Outcome>;
  /** The connection is closed: what was not submitted to the lane yet never will be. */
  end(): void;
}

export interface StreamHooks {
  /** Called with the table that the stream is for, as soon as it is known. */
  target(name: TableName): void;
}

export class RequestStreams {
  readonly #stages: StreamContext;
  readonly #pause: (ms: number) => Promise<void>;

  /** `pause`: resolves after so many ms. */
  constructor(stages: StreamContext, pause: (ms: number) => Promise<void> = delay) {
    this.#stages = stages;
    this.#pause = pause;
  }

  /** Rejects with Refused or with a bug. */
  async open(opening: StreamUpgrade, hooks: StreamHooks): Promise<Stream> {
    const { catalog, clock, fence } = this.#stages;
    const sinceMs = clock();
    const name = ingestRoute(opening.target);
    let target = await catalog.find(name);
    for (let attempt = 1; ; attempt++) {
      hooks.target(target);
      try {
        await authenticated(target, opening);
        refuseUnfit(target);
        break;
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const why = await standing(error.refusal, catalog, target, sinceMs);
        if (why.code !== 'table_changed' || attempt === changedAttemptsMax) {
          tellRejected(this.#stages, opening, target, why, null);
          throw new Refused(why);
        }
        target = await catalog.find(name);
      }
    }
    const client = clientOf(opening.target);
    await fence?.pass(target, client);
    return new IngestStream(this.#stages, this.#pause, opening, target, client);
  }
}

/** `batch` null: the first frame was refused, and with it the stream. */
function tellRejected(
  { rejects }: StreamContext,
  opening: StreamUpgrade,
  target: Target,
  why: Refusal,
  batch: StreamBatch | null,
): void {
  rejects?.keep({
    target,
    refusal: why,
    door: 'websocket',
    authenticated: batch !== null,
    method: opening.method,
    requestTarget: opening.target,
    rawHeaders: opening.rawHeaders,
    arrivedAtMs: batch?.arrivedAtMs ?? opening.arrivedAtMs,
    remoteAddress: opening.remoteAddress ?? '',
    traceparent: batch?.span?.traceparent,
    body: batch?.documents.bytes ?? opening.body,
  });
}

/** Rows that go elsewhere keep no order, and an id from the headers of the upgrade would make all batches one delivery. */
function refuseUnfit({ dedupe, into, shape, intake }: Target): void {
  if (into !== undefined) throw new Refused('websocket_unsupported');
  const versioned = shape.newest?.parts.map(({ column }) => column) ?? [];
  if (intake.includes.some(({ what, column }) => what === 'header' && versioned.includes(column)))
    throw new Refused('version_missing', 'version is a header, and the items of a WebSocket have no headers');
  if (dedupe?.parts.every((part) => 'header' in part) !== true) return;
  throw new Refused(
    'delivery_id_missing',
    `dedupe is ${dedupe.shown}, and the items of a WebSocket have no headers`,
  );
}

interface WaitingBatch {
  readonly batch: StreamBatch;
  /** When it arrived, by the clock. */
  readonly sinceMs: number;
  /** The table that it was last checked and decoded for. */
  found: Target | null;
  readonly answer: Deferred<Outcome>;
  /** Why it was not committed; null: it waits, or its receipt is outstanding. */
  failure: BatchFailure | null;
  /** When it first failed for a reason that may pass. */
  failedAtMs: number | null;
  attempts: number;
  /** Resolves when it is committed or the stream has ended; null: nothing waits for that. */
  passed: Deferred<void> | null;
}

type BatchFailure =
  | Exclude<Outcome, { kind: 'committed' }>
  | { readonly kind: 'bug'; readonly error: unknown };

/**
 * States, `#state`, changed by `#become` alone:
 *   idle        every batch received is with the lane, or there is none.
 *   handing     batches are being handed to the lane, one after another.
 *   broken      a batch has failed; receipts are outstanding, and nothing more is handed over.
 *   recovering  nothing is in flight; waits for the cause of the first failure to pass.
 *   ended       the first batch has failed for good, or the connection is closed.
 *
 *   idle ──batch──► handing ──none left──► idle ──a failure──► broken ──none owed──► recovering ──► handing
 *                      └────────────a failure────────────────────┘                        └──► ended
 */
type StreamState = 'idle' | 'handing' | 'broken' | 'recovering' | 'ended';

class IngestStream implements Stream, FencedStream {
  readonly #stages: StreamContext;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #opening: StreamUpgrade;
  readonly client: string | null;
  decided = 0;
  #target: Target;
  #chain: Chain = { broken: false };
  #state: StreamState = 'idle';
  /** Batches that are not committed yet, in order; the first `#handed` of them are with the lane. */
  readonly #entries: WaitingBatch[] = [];
  #handed = 0;
  /** Outstanding receipts. */
  #owed = 0;
  /** The loop of `#handOver` is still running. */
  #looping = false;

  constructor(
    stages: StreamContext,
    pause: (ms: number) => Promise<void>,
    opening: StreamUpgrade,
    target: Target,
    client: string | null,
  ) {
    this.client = client;
    this.#stages = stages;
    this.#pause = pause;
    this.#opening = opening;
    this.#target = target;
    stages.fence?.streams.add(this);
  }

  get target(): Target {
    return this.#target;
  }

  settled(): Promise<void> {
    const last = this.#entries.at(-1);
    if (last === undefined || this.#state === 'ended') return Promise.resolve();
    last.passed ??= deferred();
    return last.passed.promise;
  }

  submit(batch: StreamBatch): Promise<Outcome> {
    const answer = deferred<Outcome>();
    const sinceMs = this.#stages.clock();
    this.#entries.push({
      batch,
      sinceMs,
      found: null,
      answer,
      failure: null,
      failedAtMs: null,
      attempts: 0,
      passed: null,
    });
    if (this.#state === 'idle') void this.#handOver();
    return answer.promise;
  }

  end(): void {
    this.#become('ended');
  }

  async #handOver(): Promise<void> {
    this.#become('handing');
    this.#looping = true;
    while (this.#state === 'handing') {
      const entry = this.#entries[this.#handed];
      if (entry === undefined) this.#become('idle');
      else await this.#hand(entry).catch((error: unknown) => this.#notHanded(entry, error));
    }
    this.#looping = false;
    this.#breakOff();
  }

  async #hand(entry: WaitingBatch): Promise<void> {
    const { catalog, lanes } = this.#stages;
    const found = catalog.find(this.#target);
    const target = found instanceof Promise ? await found : found;
    entry.found = target;
    // A new version of the table may have another check or another secret, and has to accept the client, too.
    if (target !== this.#target) {
      await authenticated(target, this.#opening);
      refuseUnfit(target);
    }
    this.#target = target;
    // Before it is decoded: this is retried every few ms as long as the lane is full.
    admitPastDisk(this.#stages, target, { bytes: entry.batch.documents.bytes.length, inOrder: true });
    const decoded = this.#decode(target, entry.batch);
    const rows = decoded instanceof Promise ? await decoded : decoded;
    if (this.#state !== 'handing') return;
    const { span = null } = entry.batch;
    const trace = span !== null && { traceparent: span.traceparent };
    const receipt = lanes.submit({ ...rows, ...trace, chain: this.#chain });
    if (span !== null) span.queuedMs = this.#stages.clock();
    this.#handed += 1;
    this.#owed += 1;
    void receipt.then((outcome) => {
      if (outcome.kind === 'committed') {
        if (span !== null) span.committedMs = this.#stages.clock();
        // The engine has all of it, so none of its memory waits to be written any more.
        freeLarge(rows.documents.bytes, entry.batch.documents.bytes);
      }
      this.#settled(entry, outcome);
    });
    // A receipt that is already a refusal is handled before the next batch is handed over.
    await Promise.resolve();
  }

  /** The batch was not handed over, so it is certainly not stored; those before it are not affected. */
  async #notHanded(entry: WaitingBatch, error: unknown): Promise<void> {
    const failure: BatchFailure =
      error instanceof Refused ? { kind: 'aborted', refusal: error.refusal } : { kind: 'bug', error };
    if (this.#mayPass(entry, failure)) return this.#waitFor(entry, failure);
    entry.failure = failure;
    this.#become('broken');
  }

  #decode(target: Target, batch: StreamBatch): Rows | Promise<Rows> {
    const at = target.shape.key.length === 0 ? (batch.deletes?.indexOf(1) ?? -1) : -1;
    if (at !== -1)
      throw new Refused('row_refused', `item ${at + 1}: delete needs a PRIMARY KEY that requests fill`);
    const { method, target: requestTarget, rawHeaders, remoteAddress = '' } = this.#opening;
    const { span, ...items } = batch;
    const head = { method, target: requestTarget, rawHeaders, remoteAddress };
    return decodeItems(target, { ...items, ...head, traceparent: span?.traceparent });
  }

  #settled(entry: WaitingBatch, outcome: Outcome): void {
    this.#owed -= 1;
    this.decided += 1;
    if (outcome.kind !== 'committed') this.#failed(entry, outcome);
    else if (entry === this.#entries[0]) {
      this.#entries.shift();
      this.#handed -= 1;
      entry.answer.resolve(outcome);
      entry.passed?.resolve();
    } else {
      // It was committed although one before it was not: the lane did not keep the order. It must never be acknowledged,
      // and never retried.
      this.#failed(entry, { kind: 'unknown', refusal: refusal('internal') });
    }
    this.#breakOff();
  }

  #failed(entry: WaitingBatch, failure: BatchFailure): void {
    this.#chain.broken = true;
    entry.failure = failure;
    this.#become('broken');
  }

  /** Leaves a broken chain as soon as none of its receipts is outstanding. */
  #breakOff(): void {
    if (this.#state === 'broken' && this.#owed === 0 && !this.#looping) void this.#recover();
  }

  /** Ends the stream with the failure of the first batch, or starts a new chain with that batch. */
  async #recover(): Promise<void> {
    const first = this.#entries[0];
    if (first === undefined) return this.#become('idle');
    const failure = await this.#standing(first);
    const state: StreamState = this.#state;
    // The connection was closed meanwhile.
    if (state === 'ended') return;
    // Rows that may be stored are never sent a second time, whatever else has failed.
    const certain = this.#entries.every((entry) => entry.failure?.kind !== 'unknown');
    if (!certain || !this.#mayPass(first, failure)) {
      this.#become('ended');
      if (failure.kind === 'bug') first.answer.reject(failure.error);
      else first.answer.resolve(failure);
      if (failure.kind === 'aborted') this.#tellRejected(first.batch, failure);
      return;
    }
    this.#become('recovering');
    await this.#waitFor(first, failure);
    for (const entry of this.#entries) entry.failure = null;
    this.#handed = 0;
    this.#chain = { broken: false };
    if (this.#state === 'recovering') await this.#handOver();
  }

  /** The failure of a batch, if it may be told: what rests on the catalog, only if the table is still what the batch was decoded for. */
  async #standing({ failure, found, sinceMs }: WaitingBatch): Promise<BatchFailure> {
    if (failure === null) return { kind: 'bug', error: new Error('the failure is not the first one') };
    if (failure.kind !== 'aborted') return failure;
    const why = await standing(failure.refusal, this.#stages.catalog, found, sinceMs);
    return why === failure.refusal ? failure : { kind: 'aborted', refusal: why };
  }

  #tellRejected(batch: StreamBatch, { refusal: why, row }: Extract<Outcome, { kind: 'aborted' }>): void {
    const message = row === undefined ? why.message : `item ${row + 1}: ${why.message}`;
    tellRejected(this.#stages, this.#opening, this.#target, { ...why, message }, batch);
  }

  #mayPass(entry: WaitingBatch, failure: BatchFailure): boolean {
    if (failure.kind !== 'aborted' || failure.refusal.code === 'draining') return false;
    if (!refusals[failure.refusal.code].retryable) return false;
    const now = this.#stages.clock();
    entry.failedAtMs ??= now;
    return now - entry.failedAtMs < this.#stages.limits.streamPatienceMs;
  }

  /** Waits for what has to happen before a retry makes sense; if that fails, the retry will tell. */
  async #waitFor(entry: WaitingBatch, failure: BatchFailure): Promise<void> {
    const { streamRetryMinMs, streamRetryMs } = this.#stages.limits;
    const code = failure.kind === 'aborted' ? failure.refusal.code : null;
    entry.attempts += 1;
    if (code === 'table_changed') await this.#stages.catalog.refresh(this.#target).catch(() => {});
    if (code === 'table_changed' && entry.attempts === 1) return;
    // A lane has room again after its next group; other causes take longer.
    if (code === 'lane_full') return this.#pause(streamRetryMinMs);
    return this.#pause(backoffMs(entry.attempts, streamRetryMinMs, streamRetryMs, Math.random));
  }

  #become(state: StreamState): void {
    if (this.#state === 'ended') return;
    this.#state = state;
    if (state !== 'ended') return;
    this.#stages.fence?.streams.delete(this);
    for (const { passed } of this.#entries) passed?.resolve();
  }
}
