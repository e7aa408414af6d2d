/**
 * Requests whose delivery's id is that of another delivery, with another body: each is kept for the owner of its table before it is
 * answered, with its whole body, because its sender reads a 2xx and forgets it. Takes a request and its rows; returns whether it is certainly
 * on the disk, and never rejects. What has been kept is not kept again when its sender repeats it. Of a table one is written at a
 * time, and of a database one of all tables, in turn: many of them take one connection, and leave the others to the lanes.
 */
import { Semaphore } from '../kit/semaphore.ts';
import { within } from '../kit/timeout.ts';
import { derived } from '../types/delivery-id.ts';
import type { RejectedRequest } from '../types/journal.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import { keptValues } from './spool-refusals.ts';

export interface ApartOptions {
  /** Runs a statement in a transaction whose commit waits for the disk; returns its last row, or rejects. */
  readonly run: (
    database: string,
    statement: { readonly text: string; readonly values: unknown[] },
  ) => Promise<object | null>;
  readonly limits: Pick<Limits, 'apartWaitingMax' | 'ackDeadlineMs' | 'rejectedReasonCharsMax'>;
}

/**
 * $1 to $16: the request; $17: its id among those that are known, $18: for how many seconds it is. `standing` is false if the table is
 * being dropped, which is not waited for.
 */
const keepOnce = `
with standing as materialized (
  select w.relation from headgate.webhook_table w where w.relation = $2::oid::regclass for key share skip locked
), claimed as (
  insert into headgate.delivery as d (relation, id) select s.relation, $17::uuid from standing s
  on conflict on constraint delivery_pkey do update set stored_at = excluded.stored_at
    where d.stored_at < now() - make_interval(secs => $18::int8)
  returning d.relation
), kept as (
  insert into headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
    authenticated, remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error)
  select $1::timestamptz, c.relation, $3, $4, 'http', $5::int4, $6, $7, true, $8, $9, $10, $11::jsonb,
    array(select jsonb_array_elements_text($12::jsonb)), $13::jsonb, $14::bytea, $15::int8, $16::text
  from claimed c
)
select exists (select from standing) as standing`;

export function createKeepApart({ run, limits }: ApartOptions) {
  const ofTables = new WeakMap<Target, Semaphore>();
  const ofDatabases = new Map<string, Semaphore>();
  const write = async (request: RejectedRequest, rows: Rows, status: number): Promise<boolean> => {
    const { database, dedupe } = request.target;
    const { delivery = '', content = '' } = rows;
    const values = [
      ...keptValues(request, limits, status),
      derived('kept', delivery, content),
      String(dedupe?.windowS ?? 0),
    ];
    const found = await run(database, { text: keepOnce, values });
    return found !== null && 'standing' in found && found.standing === true;
  };
  return async (request: RejectedRequest, rows: Rows, status: number): Promise<boolean> => {
    const { target } = request;
    const table = ofTables.get(target) ?? new Semaphore(1);
    ofTables.set(target, table);
    if (table.waiting >= limits.apartWaitingMax) return false;
    const database = ofDatabases.get(target.database) ?? new Semaphore(1);
    ofDatabases.set(target.database, database);
    const { ackDeadlineMs: heldMs } = limits;
    const work = table.run(heldMs, () => database.run(heldMs, () => write(request, rows, status)));
    return within(limits.ackDeadlineMs, work, false).catch(() => false);
  };
}
