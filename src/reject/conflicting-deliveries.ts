/**
 * Requests whose delivery's id is that of another delivery, with another body: each is kept for the owner of its table before it is
 * answered, with its whole body, because its sender reads a 2xx and forgets it. Takes a request and its rows; returns whether it is certainly
 * on the disk, and never rejects. What has been kept is not kept again when its sender repeats it. Of a table one is written at a
 * time, and of a database one of all tables, in turn: many of them take one connection, and leave the others to the lanes.
 */
import { Semaphore } from '../kit/semaphore.ts';
import { within } from '../kit/promises.ts';
import { derived } from '../types/table-options.ts';
import type { RejectedRequest, StoredRefusal } from '../types/journal.ts';
import type { Rows } from '../types/rows.ts';
import type { Limits } from '../config/limits.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import { runDurably } from '../commit/durable.ts';
import { keptValues } from './spool-refusals.ts';

/**
 * $1 to $17: the request; $18: its id among those that are known, $19: for how many seconds it is. `standing` is false if the table is
 * being dropped, which is not waited for.
 */
const keepOnce = `
with standing as materialized (
  select w.relation from headgate.webhook_table w where w.relation = $2::oid::regclass for key share skip locked
), claimed as (
  insert into headgate.delivery as d (relation, id) select s.relation, $18::uuid from standing s
  on conflict on constraint delivery_pkey do update set stored_at = excluded.stored_at
    where d.stored_at < now() - make_interval(secs => $19::int8)
  returning d.relation
), kept as (
  insert into headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
    authenticated, remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, traceparent)
  select $1::timestamptz, c.relation, $3, $4, 'http', $5::int4, $6, $7, true, $8, $9, $10, $11::jsonb,
    array(select jsonb_array_elements_text($12::jsonb)), $13::jsonb, $14::bytea, $15::int8, $16::text, $17::text
  from claimed c
  returning id
)
select exists (select from standing) as standing, (select id from kept)::text as id`;

export class ConflictingDeliveries {
  readonly #pools: Pick<CommitPools, 'connect'>;
  readonly #limits: Pick<
    Limits,
    'apartWaitingMax' | 'ackDeadlineMs' | 'rejectedReasonCharsMax' | 'rejectedStatementMs'
  >;
  /** By oid and database. */
  readonly #tables = new Map<string, { readonly turns: Semaphore; requests: number }>();
  readonly #databases = new Map<string, Semaphore>();

  readonly #stored: (rows: readonly StoredRefusal[]) => void;

  /** `stored`: is told what has been written. */
  constructor(
    pools: Pick<CommitPools, 'connect'>,
    limits: Limits,
    stored: (rows: readonly StoredRefusal[]) => void,
  ) {
    this.#pools = pools;
    this.#limits = limits;
    this.#stored = stored;
  }

  /** Resolves with whether it is certain that it is kept; never rejects. */
  async keep(request: RejectedRequest, rows: Rows, status: number): Promise<boolean> {
    const { database: name, oid } = request.target;
    const key = `${oid}/${name}`;
    const table = this.#tables.get(key) ?? { turns: new Semaphore(1), requests: 0 };
    if (table.turns.waiting >= this.#limits.apartWaitingMax) return false;
    this.#tables.set(key, table);
    table.requests += 1;
    const database = this.#databases.get(name) ?? new Semaphore(1);
    this.#databases.set(name, database);
    const { ackDeadlineMs: heldMs } = this.#limits;
    const work = table.turns
      .run(heldMs, () => database.run(heldMs, () => this.#write(request, rows, status)))
      .finally(() => {
        table.requests -= 1;
        if (table.requests === 0) this.#tables.delete(key);
      });
    return within(heldMs, work, false).catch(() => false);
  }

  async #write(request: RejectedRequest, rows: Rows, status: number): Promise<boolean> {
    const { database, dedupe, oid } = request.target;
    const { delivery = '', content = '' } = rows;
    const values = [
      ...keptValues(request, this.#limits, status),
      derived('kept', delivery, content),
      String(dedupe?.windowS ?? 0),
    ];
    const statement = { text: keepOnce, values };
    const found = await runDurably(this.#pools, database, [statement], this.#limits.rejectedStatementMs);
    if (found === null || !('standing' in found) || found.standing !== true) return false;
    const { refusal, arrivedAtMs, remoteAddress } = request;
    if ('id' in found && typeof found.id === 'string')
      this.#stored([{ id: found.id, database, oid, code: refusal.code, arrivedAtMs, remoteAddress }]);
    return true;
  }
}
