/**
 * What happens to the batches of one WebSocket, as one sentence. A stream is opened once and then takes batches:
 *
 *   route → find the table → VALIDATE over the first frame ┆ find → admit → decode → the lane's receipt, in order
 *
 * Takes an Opening, and then batches; gives one Outcome for each, or throws Refused with the codes of those stages.
 * Batches are pipelined: the next is submitted before the one before it is committed, in one Chain, so that once a
 * batch was not committed none after it takes effect. Where trying again can help and nothing was stored (the table was
 * changed, the lane is full, the engine is away), the stream begins a new chain with the first that was not committed,
 * for at most `streamPatienceMs`. An outcome that is not known is never tried again. Touches nothing itself.
 */
import type {
  Chain,
  CheckRequest,
  DecodeHead,
  Documents,
  Outcome,
  RejectedRequest,
  Rows,
  Target,
} from '../tables/flow.ts';
import { backoffMs } from '../kit/backoff.ts';
import { deferred } from '../kit/deferred.ts';
import type { Deferred } from '../kit/deferred.ts';
import { freeMade } from '../kit/free-buffer.ts';
import type { Limits } from '../tables/limits.ts';
import type { TableName } from '../tables/observations.ts';
import { refusal, Refused, refusals } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';

/** The items of one batch, as they came, with the head of the upgrade: it names the decoder's options, and fills INCLUDE columns. */
export interface ItemsRequest extends DecodeHead {
  /** The `data` of each item. */
  readonly documents: Documents & { readonly spans: Uint32Array };
  /** 1 where an item deletes; null: none does. */
  readonly deletes: Uint8Array | null;
}

export type Batch = Omit<ItemsRequest, Exclude<keyof DecodeHead, 'arrivedAtMs'>>;

export interface StreamDeps {
  /** The table that a request target names; throws `malformed_path`, `not_found`. */
  route(target: string): TableName;
  /** The table as the catalog knows it now; throws `not_found`, `engine_unavailable`. */
  find(name: TableName): Target | Promise<Target>;
  /** Throws `lane_full`, `draining`; `bytes`: how large the batch is. */
  admit(target: Target, bytes: number): void;
  /** Throws Refused, its message beginning with `item N: ` (from 1). */
  decode(target: Target, items: ItemsRequest): Rows | Promise<Rows>;
  submit(rows: Rows): Promise<Outcome>;
  /** Reads the catalog again, because the engine says that a table is not what it was. */
  refresh(table: Pick<Target, 'database' | 'oid'>): Promise<void>;
  /** Told of every stream and batch that was refused. Never throws, takes no time. */
  rejected?(request: RejectedRequest): void;
  /** Resolves after that long. */
  pause(ms: number): Promise<void>;
  /** A monotonic clock, ms. */
  clock(): number;
  /** 0 ≤ random() < 1 */
  random(): number;
  readonly limits: Pick<Limits, 'streamPatienceMs' | 'streamRetryMs' | 'streamRetryMinMs'>;
  /** Absent: all streams of a table come to this process, and its lane keeps their order. */
  readonly fence?: StreamFence;
}

/** Keeps what a connection has left behind in one process before what its client sends again in another one. */
export interface StreamFence {
  /**
   * Resolves when the other processes hold nothing more of what they held for this table, of streams of this client alone
   * where it has said who it is; throws `deadline`.
   */
  pass(table: Target, client: string | null): Promise<void>;
  /** The streams of this process, for when another one asks. */
  readonly streams: Set<FencedStream>;
}

export interface FencedStream {
  readonly target: Target;
  /** Who its client says that it is; null: it does not. */
  readonly client: string | null;
  /** Batches of it that were decided. */
  readonly decided: number;
  /** Resolves when every batch that it has now is committed, or is with the lane and the stream has ended. */
  settled(): Promise<void>;
}

/** The upgrade as it arrived, with the first frame in the place of a body. */
export interface Opening extends CheckRequest {
  readonly remoteAddress?: string;
}

export interface Stream {
  /** Takes the batch that comes next; never rejects. After one that is not committed no other is. */
  submit(batch: Batch): Promise<Outcome>;
  /** Its connection is gone: what was not submitted yet never will be. */
  end(): void;
}

/** Rejects with Refused or with a bug. */
export type OpenStream = (opening: Opening, hooks: StreamHooks) => Promise<Stream>;

export interface StreamHooks {
  /** Told which table the stream is for, as soon as that is known. */
  target(name: TableName): void;
}

export function createStreams(deps: StreamDeps): OpenStream {
  return async (opening, hooks) => {
    const target = await deps.find(deps.route(opening.target));
    hooks.target(target);
    try {
      authenticate(target, opening);
      refuseUnfit(target);
    } catch (error) {
      if (error instanceof Refused) tellRejected(deps, opening, target, error.refusal, null);
      throw error;
    }
    const client = clientOf(opening.target);
    if (deps.fence !== undefined) await deps.fence.pass(target, client);
    return new IngestStream(deps, opening, target, client);
  };
}

/** Who a client says that it is: `?client=…`; null: it does not. */
function clientOf(target: string): string | null {
  const at = target.indexOf('?');
  const client = at === -1 ? null : new URLSearchParams(target.slice(at + 1)).get('client');
  if (client !== null && (client === '' || client.length > clientCharsMax))
    throw new Refused('malformed_path', `client must have 1 to ${clientCharsMax} characters`);
  return client;
}

const clientCharsMax = 128;

/** `batch` null: the first frame was refused, and with it the stream. */
function tellRejected(
  deps: StreamDeps,
  opening: Opening,
  target: Target,
  why: Refusal,
  batch: Batch | null,
): void {
  deps.rejected?.({
    target,
    refusal: why,
    door: 'websocket',
    authenticated: batch !== null,
    method: opening.method,
    requestTarget: opening.target,
    rawHeaders: opening.rawHeaders,
    arrivedAtMs: batch?.arrivedAtMs ?? opening.arrivedAtMs,
    remoteAddress: opening.remoteAddress ?? '',
    body: batch?.documents.bytes ?? opening.body,
  });
}

/** Nothing keeps rows that go elsewhere in order; and a header of the upgrade would make one delivery of all batches. */
function refuseUnfit({ dedupe, into }: Target): void {
  if (into !== undefined) throw new Refused('websocket_unsupported');
  if (dedupe?.parts.every((part) => 'header' in part) !== true) return;
  throw new Refused(
    'delivery_id_missing',
    `dedupe is ${dedupe.shown}, and the items of a WebSocket have no headers`,
  );
}

function authenticate({ check }: Target, opening: Opening): void {
  if (check === null) return;
  if (check === 'unusable') throw new Refused('table_unusable');
  if (!check(opening)) throw new Refused('signature_failed');
}

interface Entry {
  readonly batch: Batch;
  readonly answer: Deferred<Outcome>;
  /** Why it was not committed; null: it waits, or its receipt is owed. */
  failure: Failure | null;
  /** When it first failed, for a reason that may pass. */
  failedAtMs: number | null;
  attempts: number;
  /** For who waits until it is committed or the stream has ended; null: nobody does. */
  passed: Deferred<void> | null;
}

type Failure = Exclude<Outcome, { kind: 'committed' }> | { readonly kind: 'bug'; readonly error: unknown };

/**
 * States, `#state`, moved by `#become` alone:
 *   idle        every batch that came is with the lane, or none is there.
 *   handing     batches are being handed to the lane, one after the other.
 *   broken      one has failed; receipts are still owed, and nothing more is handed over.
 *   recovering  nothing is under way; waits for what made the first one fail to pass.
 *   ended       the first one has failed for good, or the connection is gone.
 *
 *   idle ──batch──► handing ──none left──► idle ──a failure──► broken ──none owed──► recovering ──► handing
 *                      └────────────a failure────────────────────┘                        └──► ended
 */
type State = 'idle' | 'handing' | 'broken' | 'recovering' | 'ended';

class IngestStream implements Stream, FencedStream {
  readonly #deps: StreamDeps;
  readonly #opening: Opening;
  readonly client: string | null;
  decided = 0;
  #target: Target;
  #chain: Chain = { broken: false };
  #state: State = 'idle';
  /** What is not committed yet, in order; the first `#handed` of them are with the lane. */
  readonly #entries: Entry[] = [];
  #handed = 0;
  /** Receipts that are owed. */
  #owed = 0;
  /** The loop of `#handOver` has not come to its end yet. */
  #looping = false;

  constructor(deps: StreamDeps, opening: Opening, target: Target, client: string | null) {
    this.client = client;
    this.#deps = deps;
    this.#opening = opening;
    this.#target = target;
    deps.fence?.streams.add(this);
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

  submit(batch: Batch): Promise<Outcome> {
    const answer = deferred<Outcome>();
    this.#entries.push({ batch, answer, failure: null, failedAtMs: null, attempts: 0, passed: null });
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

  async #hand(entry: Entry): Promise<void> {
    const deps = this.#deps;
    const found = deps.find(this.#target);
    const target = found instanceof Promise ? await found : found;
    // Another version of the table may have another check, or another secret: who is not accepted by it may not write.
    if (target !== this.#target) {
      authenticate(target, this.#opening);
      refuseUnfit(target);
    }
    this.#target = target;
    // Before it is read: it comes again every few ms for as long as there is no room.
    deps.admit(target, entry.batch.documents.bytes.length);
    const decoded = this.#decode(target, entry.batch);
    const rows = decoded instanceof Promise ? await decoded : decoded;
    if (this.#state !== 'handing') return;
    const receipt = deps.submit({ ...rows, chain: this.#chain });
    this.#handed += 1;
    this.#owed += 1;
    void receipt.then((outcome) => {
      if (outcome.kind === 'committed') {
        // The engine has all of it, so nothing of it waits to be written any more.
        freeMade(rows.documents.bytes, entry.batch.documents.bytes);
      }
      this.#settled(entry, outcome);
    });
    // A receipt that is a refusal already is read before the next batch is handed over.
    await Promise.resolve();
  }

  /** Nothing of it was handed over, so it is certainly not stored, and those before it go their way. */
  async #notHanded(entry: Entry, error: unknown): Promise<void> {
    const failure: Failure =
      error instanceof Refused ? { kind: 'aborted', refusal: error.refusal } : { kind: 'bug', error };
    if (this.#mayPass(entry, failure)) return this.#waitFor(entry, failure);
    entry.failure = failure;
    this.#become('broken');
  }

  #decode(target: Target, batch: Batch): Rows | Promise<Rows> {
    const at = target.shape.key.length === 0 ? (batch.deletes?.indexOf(1) ?? -1) : -1;
    if (at !== -1)
      throw new Refused('row_refused', `item ${at + 1}: delete needs a table with a PRIMARY KEY`);
    const { method, target: requestTarget, rawHeaders, remoteAddress = '' } = this.#opening;
    return this.#deps.decode(target, { ...batch, method, target: requestTarget, rawHeaders, remoteAddress });
  }

  #settled(entry: Entry, outcome: Outcome): void {
    this.#owed -= 1;
    this.decided += 1;
    if (outcome.kind !== 'committed') this.#failed(entry, outcome);
    else if (entry === this.#entries[0]) {
      this.#entries.shift();
      this.#handed -= 1;
      entry.answer.resolve(outcome);
      entry.passed?.resolve();
    } else {
      // It was committed although one before it was not: the lane did not keep the order. Never to be told as stored,
      // and never to be tried again.
      this.#failed(entry, { kind: 'unknown', refusal: refusal('internal') });
    }
    this.#breakOff();
  }

  #failed(entry: Entry, failure: Failure): void {
    this.#chain.broken = true;
    entry.failure = failure;
    this.#become('broken');
  }

  /** A chain that is broken is left behind as soon as none of its receipts is owed. */
  #breakOff(): void {
    if (this.#state === 'broken' && this.#owed === 0 && !this.#looping) void this.#recover();
  }

  /** Ends the stream with the failure of the first, or begins a new chain with it. */
  async #recover(): Promise<void> {
    const first = this.#entries[0];
    if (first === undefined) return this.#become('idle');
    const failure = first.failure ?? { kind: 'bug', error: new Error('the failure is not the first one') };
    // Whatever else is behind it, rows that may be stored are never sent a second time.
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

  #tellRejected(batch: Batch, { refusal: why, row }: Extract<Outcome, { kind: 'aborted' }>): void {
    const message = row === undefined ? why.message : `item ${row + 1}: ${why.message}`;
    tellRejected(this.#deps, this.#opening, this.#target, { ...why, message }, batch);
  }

  #mayPass(entry: Entry, failure: Failure): boolean {
    if (failure.kind !== 'aborted' || failure.refusal.code === 'draining') return false;
    if (!refusals[failure.refusal.code].retryable) return false;
    const now = this.#deps.clock();
    entry.failedAtMs ??= now;
    return now - entry.failedAtMs < this.#deps.limits.streamPatienceMs;
  }

  /** What has to happen before trying again makes sense; where that fails, trying again will tell. */
  async #waitFor(entry: Entry, failure: Failure): Promise<void> {
    const deps = this.#deps;
    const { streamRetryMinMs, streamRetryMs } = deps.limits;
    const code = failure.kind === 'aborted' ? failure.refusal.code : null;
    entry.attempts += 1;
    if (code === 'table_changed') await deps.refresh(this.#target).catch(() => {});
    if (code === 'table_changed' && entry.attempts === 1) return;
    // A lane has room again after its next group; anything else takes its time.
    if (code === 'lane_full') return deps.pause(streamRetryMinMs);
    return deps.pause(backoffMs(entry.attempts, streamRetryMinMs, streamRetryMs, () => deps.random()));
  }

  #become(state: State): void {
    if (this.#state === 'ended') return;
    this.#state = state;
    if (state !== 'ended') return;
    this.#deps.fence?.streams.delete(this);
    for (const { passed } of this.#entries) passed?.resolve();
  }
}
