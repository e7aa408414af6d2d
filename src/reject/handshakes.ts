/**
 * Handshakes of senders, for headgate.handshakes. Takes them into a bounded queue; writes those that wait with one statement, and keeps the newest. What
 * cannot be written is counted and dropped.
 */
import { limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { AskedHandshake } from '../types/journal.ts';
import { standing } from './journal-session.ts';
import type { JournalSession } from './journal-session.ts';

export class HandshakeRows {
  readonly #database: string;
  readonly #context: StageContext;
  readonly #waiting: AskedHandshake[] = [];

  constructor(database: string, context: StageContext) {
    this.#database = database;
    this.#context = context;
  }

  /** False: there is no room for it. */
  push(handshake: AskedHandshake): boolean {
    if (this.#waiting.length >= this.#context.limits.handshakesWaitingMax) return false;
    this.#waiting.push(handshake);
    return true;
  }

  /** Those that wait, and removes old ones. */
  async write(session: JournalSession): Promise<void> {
    const batch = this.#waiting.splice(0);
    if (batch.length === 0) return;
    try {
      const { rowCount } = await session.query(insertHandshakes, handshakeValues(batch));
      this.#forget(batch.length - (rowCount ?? 0));
      await session.query(trimHandshakes, []);
    } catch (error) {
      this.#forget(batch.length);
      throw error;
    }
  }

  /** Nothing is written any more. */
  close(): void {
    this.#forget(this.#waiting.length);
  }

  #forget(rows: number): void {
    const { observe } = this.#context;
    if (rows > 0) observe({ kind: 'handshakes.dropped', database: this.#database, why: 'engine', rows });
  }
}

/** For tables that still exist; the newest `handshakesKeptMax` of the database stay. */
const insertHandshakes = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$2')})
insert into headgate.handshake_log (asked_at, relation, schema_name, table_name, method, remote_address, rule, status, outcome)
select h.asked_at, w.relation, h.schema_name, h.table_name, h.method, h.remote_address, h.rule, h.status, h.outcome
from unhurried, unnest($1::timestamptz[], $2::oid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::text[])
  with ordinality as h (asked_at, relation, schema_name, table_name, method, remote_address, rule, status, outcome, place)
join standing w on w.relation = h.relation
order by h.place`;

function handshakeValues(rows: readonly AskedHandshake[]): unknown[] {
  return [
    rows.map(({ askedAtMs }) => new Date(askedAtMs).toISOString()),
    rows.map(({ target }) => target.oid),
    rows.map(({ target }) => target.schema),
    rows.map(({ target }) => target.table),
    rows.map(({ method }) => method),
    rows.map(({ remoteAddress }) => remoteAddress),
    rows.map(({ place }) => place),
    rows.map(({ status }) => status),
    rows.map(({ outcome }) => outcome),
  ];
}

const trimHandshakes = `
delete from headgate.handshake_log h where h.id in (
  select q.id from headgate.handshake_log q
  where q.id <= (select pg_catalog.max(m.id) from headgate.handshake_log m) - ${limits.handshakesKeptMax} for update skip locked)`;
