/**
 * GET /console/api/tail: outcomes as server-sent events, as they occur, and once a second whether requests can be accepted, to
 * so many watchers at a time. Takes requests whose Host and origin were checked; writes until the reader leaves, the session ends or its role may no longer log in. A reader that cannot keep up gets fewer, and the number of those
 * skipped.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { TailSource } from '../observe/tail.ts';
import type { TailEvent } from './api.ts';
import { noStore } from './headers.ts';
import type { Asked, RequestSessions, SqlRunner } from './request-sessions.ts';
import { tableKey, watchTail } from './tail.ts';
import type { TailRights } from './tail.ts';

/** Whether the role is a superuser, which sees all, and which webhook tables it may look at otherwise: one row for any number of them. */
const readRights = `
  SELECT r.rolsuper, CASE WHEN NOT r.rolsuper THEN (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_array(n.nspname, c.relname, c.oid::text)) FROM headgate.webhook_table w
    JOIN pg_catalog.pg_class c ON c.oid = w.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE pg_catalog.pg_has_role(c.relowner, 'USAGE') OR (w.options ? 'readers' AND headgate.sees_table(c.oid))
  ) END, CASE WHEN r.rolsuper THEN (
    SELECT pg_catalog.json_agg(d.datname) FROM pg_catalog.pg_database d WHERE d.datname <> pg_catalog.current_database()
  ) END
  FROM pg_catalog.pg_roles r
  WHERE r.rolname = current_user`;

interface TailParts {
  readonly tail: TailSource;
  readonly clock: () => number;
  readonly answers: {
    /** Why no request can be accepted; null: they can. */
    ready(): string | null;
  };
}

/** The tails that are open. Refuses with `login_required` and `overloaded`. */
export class TailStreams {
  readonly #parts: TailParts;
  readonly #requests: RequestSessions;
  /** Watchers by role; '': of the owner of the data directory. */
  readonly #watching = new Map<string, number>();

  constructor(parts: TailParts, requests: RequestSessions) {
    this.#parts = parts;
    this.#requests = requests;
  }

  async open({ request, response }: Asked): Promise<void> {
    const { who, held, ended } = this.#requests.session(request);
    this.#count(who.kind === 'role' ? who.user : '', response);
    const { tail, clock, answers } = this.#parts;
    response.writeHead(200, { ...noStore, 'content-type': 'text/event-stream; charset=utf-8' });
    const write = (event: TailEvent): void => void response.write(`data: ${JSON.stringify(event)}\n\n`);
    const over = (): void => void response.end();
    const beat = (): void => {
      if (response.writableLength < limits.tailWaitingBytesMax)
        write({ lines: [], skipped: 0, notReady: answers.ready() });
    };
    beat();
    const beating = setInterval(beat, limits.tailBeatMs);
    const end = watchTail(tail, {
      clock,
      rights: async () =>
        who.kind === 'owner' || held === null
          ? 'all'
          : rightsOf(held, who.database, ended.signal).catch((error: unknown) => {
              if (!(error instanceof Refused && error.refusal.code === 'login_required')) return null;
              over();
              throw error;
            }),
      write: (event) => {
        if (response.writableLength > limits.tailWaitingBytesMax) return false;
        write(event);
        return true;
      },
    });
    ended.signal.addEventListener('abort', over, { once: true });
    response.once('close', () => {
      clearInterval(beating);
      ended.signal.removeEventListener('abort', over);
      end();
    });
  }

  #count(role: string, response: ServerResponse): void {
    const own = this.#watching.get(role) ?? 0;
    const all = [...this.#watching.values()].reduce((sum, count) => sum + count, 0);
    if (own >= limits.tailRoleWatchersMax)
      throw new Refused('overloaded', `${own} pages of this role watch already: close one`);
    if (all >= limits.tailWatchersMax) throw new Refused('overloaded', 'too many watch at present');
    this.#watching.set(role, own + 1);
    response.once('close', () => {
      const left = (this.#watching.get(role) ?? 1) - 1;
      if (left === 0) this.#watching.delete(role);
      else this.#watching.set(role, left);
    });
  }
}

/** What each session may see: read again after `tailRightsMs`; the last known rights hold for a while if the database does not answer. */
export class KnownRights {
  readonly #clock: () => number;
  readonly #known = new WeakMap<SqlRunner, { readonly rights: TailRights; readonly atMs: number }>();

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** null: not known. Refuses with `login_required`. */
  async of(
    runner: SqlRunner,
    database: string,
    signal: AbortSignal,
    isAway: boolean,
  ): Promise<TailRights | null> {
    const now = this.#clock();
    const known = this.#known.get(runner);
    if (known !== undefined && now - known.atMs < limits.tailRightsMs) return known.rights;
    const last = known !== undefined && now - known.atMs < limits.tailLastRightsMs ? known.rights : null;
    if (isAway) return last;
    try {
      const rights = await rightsOf(runner, database, signal);
      this.#known.set(runner, { rights, atMs: now });
      return rights;
    } catch (error) {
      if (!(error instanceof Refused && error.refusal.code === 'engine_unavailable')) throw error;
      return last;
    }
  }
}

async function rightsOf(runner: SqlRunner, database: string, signal: AbortSignal): Promise<TailRights> {
  const { tables } = await runner.run({ sql: readRights, write: false, own: true }, signal);
  const [superuser, owned, others] = tables[0]?.rows[0] ?? [];
  const names = JSON.parse(owned ?? '[]') as readonly (readonly [string, string, string])[];
  return {
    database,
    tables: new Map(names.map(([schema, table, oid]) => [tableKey(schema, table), Number(oid)])),
    strays: superuser === 't',
    others: new Set(JSON.parse(others ?? '[]') as readonly string[]),
  };
}
