/**
 * Refused requests that wait to be written, and their rows in headgate.rejected_requests. Takes requests into a bounded queue; writes those that fit
 * into one statement at a time, removes old ones, and counts what cannot be written.
 */
import type { RejectedRequest, StoredRefusal } from '../types/journal.ts';
import type { Limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import { describe } from './redact.ts';
import type { Description } from './redact.ts';
import { RefusalReasons } from './refusal-reason.ts';
import type { Kept } from './refusal-reason.ts';
import { standing } from './journal-session.ts';
import type { JournalSession } from './journal-session.ts';

type WaitingLimits = Pick<
  Limits,
  | 'rejectedBodyBytesMax'
  | 'rejectedReasonCharsMax'
  | 'rejectedWaitingMax'
  | 'rejectedWaitingBytesMax'
  | 'rejectedBatchRowsMax'
  | 'rejectedBatchBytesMax'
  | 'requestCostBytes'
>;

interface WaitingEntry {
  readonly request: RejectedRequest;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
  readonly bytes: number;
}

export class Waiting {
  readonly #limits: WaitingLimits;
  readonly #entries: WaitingEntry[] = [];
  #bytes = 0;

  constructor(limits: WaitingLimits) {
    this.#limits = limits;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** False: there is no room. Copies the part of the body that is kept, and does not hold the rest. */
  push(request: RejectedRequest): boolean {
    const limits = this.#limits;
    const keeps = Math.min(request.body?.length ?? 0, limits.rejectedBodyBytesMax);
    const bytes = limits.requestCostBytes + textBytes(request) + keeps;
    if (this.#entries.length >= limits.rejectedWaitingMax) return false;
    if (this.#bytes + bytes > limits.rejectedWaitingBytesMax) return false;
    // A slice would keep the whole body in memory as long as it waits.
    const body = request.body === null ? null : Buffer.from(request.body.subarray(0, keeps));
    const bodyBytes = request.body?.length ?? null;
    this.#entries.push({ request: { ...request, body: null }, body, bodyBytes, bytes });
    this.#bytes += bytes;
    return true;
  }

  /** Removes and returns the next ones for one statement, the oldest first. */
  takeBatch(): readonly Kept[] {
    const { rejectedBatchRowsMax, rejectedBatchBytesMax } = this.#limits;
    const batch: Kept[] = [];
    let bytes = 0;
    for (const entry of this.#entries) {
      bytes += entry.bytes;
      if (batch.length > 0 && (batch.length >= rejectedBatchRowsMax || bytes > rejectedBatchBytesMax)) break;
      const { request } = entry;
      batch.push({ request, description: describe(request, entry.body, entry.bodyBytes, this.#limits) });
    }
    for (const entry of this.#entries.splice(0, batch.length)) this.#bytes -= entry.bytes;
    return batch;
  }
}

function textBytes({ requestTarget, rawHeaders }: RejectedRequest): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
}

/** What becomes of the rows. */
export interface RejectedRowsContext extends StageContext {
  /** Is told what has been written. */
  readonly stored: (rows: readonly StoredRefusal[]) => void;
  /** Rows and days that are kept; 0 rows: no refused requests, and no counts of answers. */
  readonly rowsMax: number;
  readonly days: number;
}

export class RejectedRows {
  readonly #database: string;
  readonly #context: RejectedRowsContext;
  readonly #waiting: Waiting;
  readonly #why: RefusalReasons;
  #insertedSinceTrim = 0;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;

  constructor(database: string, context: RejectedRowsContext) {
    this.#database = database;
    this.#context = context;
    this.#waiting = new Waiting(context.limits);
    this.#why = new RefusalReasons(context.limits, context.clock);
  }

  /** False: there is no room for it. */
  push(request: RejectedRequest): boolean {
    return this.#waiting.push(request);
  }

  /** Those that wait. A batch whose statement fails is counted and dropped; `signal`: reasons are no longer looked for. */
  async write(session: JournalSession, signal: AbortSignal): Promise<void> {
    const database = this.#database;
    const { observe, stored } = this.#context;
    for (let batch = this.#waiting.takeBatch(); batch.length > 0; batch = this.#waiting.takeBatch()) {
      try {
        const values = insertValues(await this.#why.tell(batch, signal));
        const { rows } = await session.query<WrittenRow>(insertRejected, values);
        this.#insertedSinceTrim += rows.length;
        observe({ kind: 'rejected.stored', database, rows: rows.length });
        stored(rows.map((row) => refusalOf(database, row)));
        this.#forget(batch.length - rows.length);
      } catch (error) {
        this.#forget(batch.length);
        throw error;
      }
    }
  }

  /** Now and then, and after a number of new rows. */
  async trimIfDue(session: JournalSession): Promise<void> {
    const { rowsMax, days, limits, clock } = this.#context;
    const many = this.#insertedSinceTrim > 0 && this.#insertedSinceTrim * 20 >= rowsMax;
    if (!many && clock() - this.#trimmedAtMs < limits.rejectedTrimMs) return;
    this.#trimmedAtMs = clock();
    this.#insertedSinceTrim = 0;
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

function refusalOf(
  database: string,
  { id, oid, code, received_at: at, remote_address: remoteAddress }: WrittenRow,
): StoredRefusal {
  return { id, database, oid: Number(oid), code, arrivedAtMs: at.getTime(), remoteAddress };
}

/**
 * Without waiting for the disk: what a crash takes away was refused anyway. Requests of a table that has been dropped meanwhile, or is being
 * dropped, are not stored.
 */
const insertRejected = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$2')})
insert into headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
  authenticated, remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, cause, sender, event, traceparent)
select r.received_at, w.relation, r.schema_name, r.table_name, r.door, r.status, r.code, r.reason,
  r.authenticated, r.remote_address, r.method, r.target, r.headers,
  array(select pg_catalog.jsonb_array_elements_text(r.headers_left_out)), r.headers_masked, r.body, r.body_bytes,
  r.engine_error, r.cause, r.sender, r.event, r.traceparent
from unhurried, unnest($1::timestamptz[], $2::oid[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[],
    $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::jsonb[], $14::jsonb[], $15::jsonb[], $16::bytea[],
    $17::bigint[], $18::text[], $19::jsonb[], $20::text[], $21::text[], $22::text[])
  with ordinality as r (received_at, relation, schema_name, table_name, door, status, code, reason, authenticated,
    remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, cause, sender, event, traceparent, place)
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

function insertValues(rows: readonly Description[]): unknown[] {
  return [
    rows.map((row) => row.receivedAt.toISOString()),
    rows.map((row) => row.relation),
    rows.map((row) => row.schema),
    rows.map((row) => row.table),
    rows.map((row) => row.door),
    rows.map((row) => row.status),
    rows.map((row) => row.code),
    rows.map((row) => row.reason),
    rows.map((row) => row.authenticated),
    rows.map((row) => row.remoteAddress),
    rows.map((row) => row.method),
    rows.map((row) => row.target),
    rows.map((row) => JSON.stringify(row.headers)),
    rows.map((row) => JSON.stringify(row.leftOut)),
    rows.map((row) => JSON.stringify(row.masked)),
    rows.map((row) => row.body),
    rows.map((row) => row.bodyBytes),
    rows.map((row) => row.engineError),
    rows.map(({ cause }) => (cause === undefined ? null : JSON.stringify(cause))),
    rows.map(({ sender }) => sender),
    rows.map(({ event }) => event),
    rows.map(({ traceparent }) => traceparent),
  ];
}

/**
 * $1 rows, $2 bytes, $3 days. Requests that had been accepted (spooled, or kept apart) stay until their owner deletes them: no sender has them any more. Of the
 * others the newest stay; half of the rows is for those that VALIDATE had accepted, so that a flood of forged requests does
 * not displace them. One Headgate at a time does it, and none waits for another, or for an owner who is deleting one.
 */
const trimRejected = `
with mine as materialized (select from headgate.trimming for update skip locked), ranked as (
  select r.id, r.received_at, r.authenticated, coalesce(pg_catalog.octet_length(r.body), 0) as bytes,
    pg_catalog.row_number() over (partition by r.authenticated order by r.id desc) as place
  from headgate.rejected_requests r where r.door <> 'spool' and r.status >= 300
), ordered as (
  select k.id, k.received_at, pg_catalog.row_number() over newest as place, pg_catalog.sum(k.bytes) over newest as bytes
  from ranked k
  window newest as (order by (k.authenticated and k.place <= ($1::bigint + 1) / 2) desc, k.id desc)
)
delete from headgate.rejected_requests r where r.id in (
  select q.id from headgate.rejected_requests q where q.id in (
    select o.id from ordered o, mine
    where o.place > $1::bigint or o.bytes > $2::bigint or o.received_at < pg_catalog.now() - pg_catalog.make_interval(days => $3))
  for update skip locked)`;
