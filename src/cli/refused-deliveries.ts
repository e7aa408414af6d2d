/**
 * The deliveries of one table that were refused since a moment, as its owner may see them: takes a table, returns a line for each new reason.
 * Headgate writes them a little later than it answers, and several Headgates in any order.
 */
import { plain } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';
import type { CommandSession } from './session.ts';

/** Reasons that differ in numbers only, such as seconds, are one. */
const reasons = `SELECT min(status)::text AS status, code, min(reason) AS reason, max(id)::text AS id, count(*)::text AS n
FROM headgate.rejected_requests r
WHERE relation = $1::oid AND id > $2::bigint AND status >= 300 AND (body = decode($3, 'base64')) IS NOT TRUE
GROUP BY code, regexp_replace(reason, '[0-9]+', '#', 'g') ORDER BY min(id) LIMIT ${limits.refusedReasonsMax}`;

/** The table's oid, the last id before, and a body that does not count. */
type SinceRow = readonly [string | null, string, string | null];

export class RefusedDeliveries {
  readonly #session: CommandSession;
  readonly #since: SinceRow;
  readonly #told = new Set<string>();
  #count = 0;

  private constructor(session: CommandSession, since: SinceRow) {
    this.#session = session;
    this.#since = since;
  }

  /** `own`: the body of a request that is not the sender's; null: there was none. */
  static async since(session: CommandSession, table: string, own: Buffer | null): Promise<RefusedDeliveries> {
    const oid = await session.relation(table);
    const [last] = await session.rows(
      'SELECT coalesce(max(id), 0)::text AS id FROM headgate.rejected_requests WHERE relation = $1::oid',
      [oid],
    );
    return new RefusedDeliveries(session, [oid, last?.['id'] ?? '0', own?.toString('base64') ?? null]);
  }

  /** Of those that are kept. */
  get count(): number {
    return this.#count;
  }

  /** `setSecret`: the command that replaces the secret. */
  async look(setSecret: string): Promise<string[]> {
    const rows = await this.#session.rows(reasons, this.#since);
    this.#count = rows.reduce((sum, { n }) => sum + Number(n), 0);
    return rows.flatMap(({ status, code, reason, id }) => {
      const what = `${code ?? ''} (${plain(reason ?? '')})`;
      const key = what.replaceAll(/\d+/g, '#');
      if (this.#told.has(key) || this.#told.size >= limits.refusedReasonsMax) return [];
      this.#told.add(key);
      const another = status === '401' ? `; another secret: ${setSecret}` : '';
      return [`a delivery was refused: ${status ?? ''} ${what}: headgate explain ${id ?? ''}${another}`];
    });
  }
}
