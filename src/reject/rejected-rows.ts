/**
 * Refused requests that wait to be written, and their rows in headgate.rejected_requests. Takes requests into a bounded queue; finds out why VALIDATE
 * has refused them, writes those that fit into one statement at a time, removes old ones, and counts what cannot be written.
 */
import { RateLimit } from '../access/rate-limit.ts';
import type { Limits } from '../config/limits.ts';
import { longWork } from '../kit/time-slices.ts';
import type { RejectedRequest, StoredRefusal } from '../types/journal.ts';
import type { WhyNot } from '../types/request.ts';
import type { StageContext } from '../observe/context.ts';
import { describe, storable } from './redact.ts';
import type { Description } from './redact.ts';
import { standing } from './journal-session.ts';
import type { JournalSession } from './journal-session.ts';

/** What becomes of the rows. */
export interface RejectedRowsContext extends StageContext {
  /** Is told what has been written. */
  readonly stored: (rows: readonly StoredRefusal[]) => void;
  /** Rows and days that are kept; 0 rows: no refused requests, and no counts of answers. */
  readonly rowsMax: number;
  readonly days: number;
}

/** What is kept of a request, and the request without its body. */
export interface Kept {
  readonly request: RejectedRequest;
  readonly description: Description;
}

interface WaitingRefusal {
  readonly request: RejectedRequest;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
  readonly bytes: number;
  readonly of: string;
}

export class RejectedRows {
  readonly #database: string;
  readonly #context: RejectedRowsContext;
  readonly #why: RefusalReasons;
  readonly #waiting: WaitingRefusal[] = [];
  #waitingBytes = 0;
  /** Of each table, and in it of those that VALIDATE had accepted and of others. */
  readonly #bytesOf = new Map<string, number>();
  #insertedSinceTrim = 0;
  #bytesSinceTrim = 0;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;

  constructor(database: string, context: RejectedRowsContext) {
    this.#database = database;
    this.#context = context;
    this.#why = new RefusalReasons(context.limits, context.clock);
  }

  /**
   * Returns how many there is no room for: this one, or the last of those whose table has more bytes waiting. Copies the part of the body that is kept, and does
   * not hold the rest.
   */
  push(request: RejectedRequest): number {
    const { limits } = this.#context;
    // Whoever reaches a table without VALIDATE must not displace what is kept of other tables with a few large bodies.
    const isAccepted = request.authenticated && request.target.check !== null;
    const most = isAccepted ? limits.rejectedAuthenticBodyBytesMax : limits.rejectedBodyBytesMax;
    const keeps = Math.min(request.body?.length ?? 0, most);
    const bytes = limits.requestCostBytes + textBytes(request) + keeps;
    const of = `${request.target.oid}/${request.authenticated}`;
    const displaced = this.#displacedBy(of, bytes);
    if (displaced === null) return 1;
    for (const it of displaced) {
      this.#waiting.splice(this.#waiting.indexOf(it), 1);
      this.#count(it.of, -it.bytes);
    }
    // A slice would keep the whole body in memory as long as it waits.
    const body = request.body === null ? null : Buffer.from(request.body.subarray(0, keeps));
    const bodyBytes = request.body?.length ?? null;
    this.#waiting.push({ request: { ...request, body: null }, body, bodyBytes, bytes, of });
    this.#count(of, bytes);
    return displaced.size;
  }

  /** Which have to go: each the last one of the table that then has the most bytes waiting, and more than this one's will have. null: they make no room. */
  #displacedBy(of: string, bytes: number): ReadonlySet<WaitingRefusal> | null {
    const { rejectedWaitingMax, rejectedWaitingBytesMax } = this.#context.limits;
    const displaced = new Set<WaitingRefusal>();
    const left = new Map(this.#bytesOf);
    const least = (left.get(of) ?? 0) + bytes;
    let all = this.#waitingBytes + bytes;
    while (this.#waiting.length - displaced.size >= rejectedWaitingMax || all > rejectedWaitingBytesMax) {
      let [most, its] = ['', least];
      for (const [other, others] of left) if (others > its) [most, its] = [other, others];
      const last = this.#waiting.findLast((it) => it.of === most && !displaced.has(it));
      if (last === undefined) return null;
      displaced.add(last);
      left.set(most, its - last.bytes);
      all -= last.bytes;
    }
    return displaced;
  }

  #count(of: string, bytes: number): void {
    this.#waitingBytes += bytes;
    const all = (this.#bytesOf.get(of) ?? 0) + bytes;
    if (all === 0) this.#bytesOf.delete(of);
    else this.#bytesOf.set(of, all);
  }

  /** Removes and returns the next ones for one statement, the oldest first. */
  takeBatch(): readonly Kept[] {
    const { limits } = this.#context;
    const { rejectedBatchRowsMax, rejectedBatchBytesMax } = limits;
    const batch: Kept[] = [];
    let bytes = 0;
    for (const entry of this.#waiting) {
      bytes += entry.bytes;
      if (batch.length > 0 && (batch.length >= rejectedBatchRowsMax || bytes > rejectedBatchBytesMax)) break;
      const { request } = entry;
      batch.push({ request, description: describe(request, entry.body, entry.bodyBytes, limits) });
    }
    for (const { of, bytes: its } of this.#waiting.splice(0, batch.length)) this.#count(of, -its);
    return batch;
  }

  /** Those that wait. A batch whose statement fails is counted and dropped; `signal`: reasons are no longer looked for. */
  async write(session: JournalSession, signal: AbortSignal): Promise<void> {
    const database = this.#database;
    const { observe, stored } = this.#context;
    for (let batch = this.takeBatch(); batch.length > 0; batch = this.takeBatch()) {
      try {
        const told = await this.#why.tell(batch, signal);
        const values = columns.map(([, , value]) => told.map(value));
        const { rows } = await session.query<WrittenRow>(insertRejected, values);
        this.#insertedSinceTrim += rows.length;
        for (const { description } of batch) this.#bytesSinceTrim += description.body?.length ?? 0;
        observe({ kind: 'rejected.stored', database, rows: rows.length });
        stored(rows.map((row) => refusalOf(database, row)));
        this.#forget(batch.length - rows.length);
      } catch (error) {
        this.#forget(batch.length);
        throw error;
      }
    }
  }

  /** Now and then, and after a twentieth of the rows, or bytes of bodies, that may be there. */
  async trimIfDue(session: JournalSession): Promise<void> {
    const { rowsMax, days, limits, clock } = this.#context;
    const many =
      (this.#insertedSinceTrim > 0 && this.#insertedSinceTrim * 20 >= rowsMax) ||
      this.#bytesSinceTrim * 20 >= limits.rejectedBytesMax;
    if (!many && clock() - this.#trimmedAtMs < limits.rejectedTrimMs) return;
    this.#trimmedAtMs = clock();
    this.#insertedSinceTrim = 0;
    this.#bytesSinceTrim = 0;
    await session.query(trimRejected, [rowsMax, limits.rejectedBytesMax, days]);
  }

  /** Nothing is written any more. */
  close(): void {
    this.#forget(this.#waiting.length);
  }

  #forget(rows: number): void {
    const { observe } = this.#context;
    if (rows > 0) observe({ kind: 'rejected.dropped', database: this.#database, why: 'engine', rows });
  }
}

function textBytes({ requestTarget, rawHeaders }: RejectedRequest): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
}

function refusalOf(
  database: string,
  { id, oid, code, received_at: at, remote_address: remoteAddress }: WrittenRow,
): StoredRefusal {
  return { id, database, oid: Number(oid), code, arrivedAtMs: at.getTime(), remoteAddress };
}

type WhyLimits = Pick<
  Limits,
  'rejectedExplainedBurst' | 'rejectedExplainedPerSecond' | 'rejectedReasonCharsMax'
>;

/**
 * Why VALIDATE has refused a request, for the owner of its table. The check is evaluated once more, after the answer, in the
 * turns of long work, and a bounded number of times per second, however large a flood is. A body that was cut is not checked: it
 * would be refused for that alone.
 */
export class RefusalReasons {
  readonly #limits: WhyLimits;
  readonly #clock: () => number;
  readonly #rate: RateLimit;

  constructor(limits: WhyLimits, clock: () => number) {
    this.#limits = limits;
    this.#clock = clock;
    const { rejectedExplainedPerSecond: count, rejectedExplainedBurst: burst } = limits;
    this.#rate = new RateLimit({ count, perMs: 1_000, burst }, 1);
  }

  /** The same descriptions, with a more detailed reason if there is one. */
  async tell(batch: readonly Kept[], signal: AbortSignal): Promise<readonly Description[]> {
    const bytes = batch.reduce((sum, { description }) => sum + (description.body?.length ?? 0), 0);
    return longWork.slices(bytes, this.#inSlices(batch, signal));
  }

  *#inSlices(batch: readonly Kept[], signal: AbortSignal): Generator<void, readonly Description[]> {
    const told: Description[] = [];
    for (const { request, description } of batch) {
      const why = signal.aborted ? null : this.#whyOf(request, description);
      const event = signal.aborted ? null : eventOf(request, description);
      const named = { ...description, event };
      told.push(
        why === null
          ? named
          : { ...named, reason: this.#joined(description.reason, why.reason), cause: why.cause },
      );
      if (why !== null || event !== null) yield;
    }
    return told;
  }

  #whyOf(request: RejectedRequest, { code, body, bodyBytes }: Description): WhyNot | null {
    const { whyRefused } = request.target;
    if (code !== 'signature_failed' || whyRefused === undefined) return null;
    if (body === null || body.length !== bodyBytes) return null;
    if (this.#rate.take('', this.#clock()) > 0) return null;
    const { method, requestTarget: target, rawHeaders, arrivedAtMs } = request;
    try {
      return whyRefused({ method, target, rawHeaders, arrivedAtMs, body });
    } catch {
      // A failure to explain one request must not keep others from being kept.
      return null;
    }
  }

  #joined(reason: string, why: string): string {
    return storable(`${reason}: ${why}`.slice(0, this.#limits.rejectedReasonCharsMax));
  }
}

/** As the table's sender writes it: in a header, or in a body that was kept as a whole. */
function eventOf({ target, rawHeaders }: RejectedRequest, { body, bodyBytes }: Description): string | null {
  const event = target.sender?.event(rawHeaders, body?.length === bodyBytes ? body : null) ?? null;
  return event === null ? null : storable(event);
}

/** Of a row: their names and types, and their values. */
const columns: readonly (readonly [name: string, type: string, value: (row: Description) => unknown])[] = [
  ['received_at', 'timestamptz', ({ receivedAt }) => receivedAt.toISOString()],
  ['relation', 'oid', ({ relation }) => relation],
  ['schema_name', 'text', ({ schema }) => schema],
  ['table_name', 'text', ({ table }) => table],
  ['door', 'text', ({ door }) => door],
  ['status', 'int', ({ status }) => status],
  ['code', 'text', ({ code }) => code],
  ['reason', 'text', ({ reason }) => reason],
  ['authenticated', 'boolean', ({ authenticated }) => authenticated],
  ['remote_address', 'text', ({ remoteAddress }) => remoteAddress],
  ['method', 'text', ({ method }) => method],
  ['target', 'text', ({ target }) => target],
  ['headers', 'jsonb', ({ headers }) => JSON.stringify(headers)],
  ['headers_left_out', 'jsonb', ({ leftOut }) => JSON.stringify(leftOut)],
  ['headers_masked', 'jsonb', ({ masked }) => JSON.stringify(masked)],
  ['body', 'bytea', ({ body }) => body],
  ['body_bytes', 'bigint', ({ bodyBytes }) => bodyBytes],
  ['engine_error', 'text', ({ engineError }) => engineError],
  ['cause', 'jsonb', ({ cause }) => (cause === undefined ? null : JSON.stringify(cause))],
  ['sender', 'text', ({ sender }) => sender],
  ['event', 'text', ({ event }) => event],
  ['traceparent', 'text', ({ traceparent }) => traceparent],
];
const names = columns.map(([name]) => name).join(', ');
const read: Readonly<Record<string, string>> = {
  relation: 'w.relation',
  headers_left_out: 'array(select pg_catalog.jsonb_array_elements_text(r.headers_left_out))',
};

/**
 * Without waiting for the disk: what a crash takes away was refused anyway. Requests of a table that has been dropped meanwhile, or is being
 * dropped, are not stored. `unnest` of several arrays is syntax, and means PostgreSQL's own.
 */
const insertRejected = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$2')})
insert into headgate.rejected_requests (${names})
select ${columns.map(([name]) => read[name] ?? `r.${name}`).join(', ')}
from unhurried, unnest(${columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')})
  with ordinality as r (${names}, place)
join standing w on w.relation = r.relation
order by r.place
returning id::text as id, relation::oid::text as oid, code, received_at, remote_address`;

interface WrittenRow {
  readonly id: string;
  readonly oid: string;
  readonly code: string;
  readonly received_at: Date;
  readonly remote_address: string;
}

/**
 * $1 rows, $2 bytes, $3 days. Requests that had been accepted (spooled, or kept apart) stay until their owner deletes them: no sender has them any more. Of the
 * others the newest stay. Rows, and bytes, are divided among tables, and in each between requests that VALIDATE had accepted and others: what one of these
 * does not use is for the rest. Half of all is for those that VALIDATE had accepted, whatever number of tables gets forged requests.
 * One Headgate at a time does it, and none waits for another, or for an owner who is deleting one.
 */
const trimRejected = `
with mine as materialized (select from headgate.trimming for update skip locked), ranked as (
  select r.id, r.received_at, r.authenticated, coalesce(pg_catalog.octet_length(r.body), 0) as bytes,
    pg_catalog.row_number() over newest as place, pg_catalog.sum(coalesce(pg_catalog.octet_length(r.body), 0)) over newest as size
  from headgate.rejected_requests r where r.door <> 'spool' and r.status >= 300
  window newest as (partition by r.relation, r.authenticated order by r.id desc)
), shared as (
  select k.*, pg_catalog.row_number() over (partition by k.authenticated order by k.place, k.id desc) as places,
    pg_catalog.sum(k.bytes) over (partition by k.authenticated order by k.size, k.id desc) as sizes
  from ranked k
), ordered as (
  select s.id, s.received_at,
    pg_catalog.row_number() over (order by (s.authenticated and s.places <= ($1::bigint + 1) / 2) desc, s.place, s.id desc) as place,
    pg_catalog.sum(s.bytes) over (order by (s.authenticated and s.sizes <= $2::bigint / 2) desc, s.size, s.id desc) as bytes
  from shared s
)
delete from headgate.rejected_requests r where r.id in (
  select q.id from headgate.rejected_requests q where q.id in (
    select o.id from ordered o, mine
    where o.place > $1::bigint or o.bytes > $2::bigint or o.received_at < pg_catalog.now() - pg_catalog.make_interval(days => $3))
  for update skip locked)`;
