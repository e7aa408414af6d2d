/**
 * One turn of one table with the option `reconcile`: reads the log of its sender from the newest delivery back to where it was read before, stores or asks
 * for what has not come, and says what is missing. Takes the table, which this turn holds; the outcome is in headgate.gaps. Throws the engine's errors.
 *
 * Nothing here is remembered beyond the turn: every page goes into the catalog together with the place of the next one, so that a Headgate that is
 * killed costs at most one page. Times are those of the sender's clock, as its API tells it.
 */
import { randomUUID } from 'node:crypto';
import type { HttpExchange } from '../access/outgoing.ts';
import type { Limits } from '../config/limits.ts';
import { deliveryOf } from '../decode/delivery.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { fetchedHeader } from '../http/headers.ts';
import type { RowSession } from '../keep/row-sessions.ts';
import { backoffMs } from '../kit/backoff.ts';
import { identities } from '../catalog/seals.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { LogUnreadable } from '../senders/delivery-log.ts';
import type { DeliveryLog, LoggedDelivery, LogKind } from '../senders/delivery-log.ts';
import { logKindOf, parseLog } from '../senders/delivery-logs.ts';
import { dedupeOf, parseWindow } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import type { RetryRejected } from '../types/journal.ts';
import { Api, ApiRefused, NotNow } from './api.ts';
import * as sql from './statements.ts';
import type { TakenTable } from './statements.ts';

export type TurnLimits = Pick<Limits, Extract<keyof Limits, `reconcile${string}`>>;

export interface TurnParts {
  readonly sealing: Pick<Sealing, 'open'>;
  /** By sender, the URL of its API. */
  readonly apis: ReadonlyMap<string, string>;
  readonly exchange: HttpExchange;
  /** Stores what was fetched. */
  readonly store: RetryRejected;
  readonly limits: TurnLimits;
  readonly observe: Observe;
  /** By oid of a table, its problem in the last turn; of one database, from the start of this process. Turns keep it. */
  readonly told: Map<string, string>;
}

/** The table cannot be compared; the message is for its owner. */
class NotComparable extends Error {}

/** From the options of the table. */
interface LogSource {
  readonly kind: LogKind;
  readonly log: DeliveryLog;
  readonly dedupe: Dedupe;
  readonly base: string;
  readonly token: string;
}

export class Turn {
  readonly #name: TableName;
  readonly #table: TakenTable;
  readonly #me: string;
  readonly #own: Pick<RowSession, 'rows'>;
  readonly #parts: TurnParts;
  readonly #signal: AbortSignal;
  readonly #untilMs: number;
  #asked = 0;

  /** `me`: as whom this turn holds the table. `own`: a session of Headgate's role. */
  constructor(
    database: string,
    table: TakenTable,
    me: string,
    own: Pick<RowSession, 'rows'>,
    parts: TurnParts,
    signal: AbortSignal,
  ) {
    this.#name = { database, schema: table.schema, table: table.table };
    this.#table = table;
    this.#me = me;
    this.#own = own;
    this.#parts = parts;
    this.#signal = signal;
    this.#untilMs = performance.now() + parts.limits.reconcileTurnMs;
  }

  async run(): Promise<void> {
    const { limits, observe } = this.#parts;
    const everyS = parseWindow(this.#table.every ?? '', limits.reconcileEveryMinS, limits.reconcileEveryMaxS);
    const everyMs = (everyS ?? limits.reconcileEveryS) * 1_000;
    let api: Api | null = null;
    let isLeft = false;
    let nextMs = everyMs;
    let problem: string | null = null;
    try {
      const opened = this.#open();
      api = this.#api(opened);
      isLeft = await this.#compare(opened, api);
    } catch (error) {
      if (this.#signal.aborted || isLost(error)) return;
      problem = problemOf(error);
      if (problem === null) throw error;
      nextMs = error instanceof NotNow ? error.restMs : this.#restMs();
    }
    if (isLeft) nextMs = 0;
    const values = [this.#table.oid, this.#me, nextMs, problem, limits.reconcileShownDays];
    const [ended] = await this.#own.rows<{ missing: number }>(sql.endTurn, values).catch((error: unknown) => {
      if (isLost(error)) return [];
      throw error;
    });
    const { missing = 0 } = ended ?? {};
    const [repeated, calls] = [this.#isTold(problem), api?.calls ?? 0];
    if (problem === null)
      observe({ kind: 'reconcile.read', table: this.#name, missing, asked: this.#asked, calls });
    else observe({ kind: 'reconcile.refused', table: this.#name, reason: problem, repeated });
  }

  /** Whether this problem of the table was observed before, and no other since; null: there is none. */
  #isTold(problem: string | null): boolean {
    const { told, limits } = this.#parts;
    const before = told.get(this.#table.oid);
    told.delete(this.#table.oid);
    if (problem !== null) told.set(this.#table.oid, problem);
    for (const oldest of told.keys()) if (told.size > limits.reconcileToldMax) told.delete(oldest);
    return before === problem;
  }

  /** After a failure, ms until the next turn, however often the log is to be read: what has failed is likely to fail again. */
  #restMs(): number {
    const { reconcileRestMinMs: min, reconcileRestMaxMs: max } = this.#parts.limits;
    return backoffMs(this.#table.failures + 1, min, max, Math.random);
  }

  #open(): LogSource {
    const { log: text, secret, sealId, sealed, allowed } = this.#table;
    const log = parseLog(text);
    const kind = log === null ? null : logKindOf(log.sender);
    if (log === null || kind === null)
      throw new NotComparable('its option reconcile names no log that this Headgate knows');
    const base = this.#parts.apis.get(kind.sender);
    if (base === undefined) throw new NotComparable(`HEADGATE_RECONCILE_APIS has no API of ${kind.sender}`);
    if (this.#table.dedupe !== kind.dedupe) throw new NotComparable(`it needs dedupe = '${kind.dedupe}'`);
    const dedupe = dedupeOf({ dedupe: kind.dedupe });
    if (dedupe === null || secret === null || sealId === null || sealed === null)
      throw new NotComparable('it has no secret: give it reconcile_secret');
    if (allowed !== true) throw new NotComparable(`its owner may not use the secret "${secret}"`);
    const token = this.#openToken(secret, sealId, sealed);
    if (!/^[\x21-\x7e]{1,4096}$/.test(token)) throw new NotComparable(`the secret "${secret}" is no token`);
    return { kind, log, dedupe, base, token };
  }

  #openToken(secret: string, sealId: string, sealed: string): string {
    try {
      return this.#parts.sealing.open(sealed, identities.secret(secret, sealId));
    } catch {
      throw new NotComparable(`the secret "${secret}" does not open`);
    }
  }

  #api({ kind, log, base, token }: LogSource): Api {
    const { exchange, limits } = this.#parts;
    const pauses = { GET: kind.readPauseMs, POST: kind.againPauseMs };
    const { failures } = this.#table;
    return new Api({
      base,
      headers: log.headers(token),
      exchange,
      limits,
      failures,
      signal: this.#signal,
      pauses,
    });
  }

  /** Whether there is more to do at once. */
  async #compare(opened: LogSource, api: Api): Promise<boolean> {
    if (await this.#read(opened, api)) return true;
    return this.#askForMissing(opened, api);
  }

  /** Whether the turn ended before the log. */
  async #read(opened: LogSource, api: Api): Promise<boolean> {
    const { log, kind } = opened;
    const { limits } = this.#parts;
    const { filter: asked } = log;
    const filter = asked === null ? null : asked.read((await api.call(asked.call)).body);
    const walk = await this.#walk();
    let { cursor } = walk;
    for (let pages = walk.pages; ; pages++) {
      if (pages > limits.reconcilePagesMax)
        throw new LogUnreadable(`it has more than ${limits.reconcilePagesMax} pages`);
      const answer = await this.#page(opened, api, cursor, walk.reachMs);
      const page = log.read(answer.body, answer.headers, filter);
      if (page.cursor !== null && page.cursor === cursor)
        throw new LogUnreadable('a page is its own next one');
      const last = page.deliveries.at(-1);
      const isEnd = page.cursor === null || (last !== undefined && last.atMs < walk.reachMs);
      walk.topMs ??= api.nowMs;
      const readToMs = Math.max(walk.topMs - limits.reconcileOverlapMs, walk.reachMs);
      const news = page.deliveries.filter(({ atMs }) => atMs >= walk.reachMs);
      const known = new Map(news.map((it) => [uuidOf(digestOf(opened.dedupe, it)), it]));
      const entries = [...known].map(([delivery, it]) => ({
        delivery,
        id: it.id,
        log: it.logId,
        at: it.atMs,
      }));
      const next = isEnd ? null : page.cursor;
      const settledMs = api.nowMs - limits.reconcileSettleMs;
      const missing = await this.#own.rows<{ delivery: string }>(sql.announce, [
        ...this.#held(),
        JSON.stringify(entries),
        walk.topMs,
        walk.reachMs,
        next,
        isEnd ? readToMs : null,
        settledMs,
      ]);
      await this.#store(
        missing.flatMap(({ delivery }) => {
          const it = known.get(delivery);
          return it?.body === undefined ? [] : [{ delivery, body: it.body, log: it.logId, asked: 0 }];
        }),
      );
      if (isEnd) {
        // What the API no longer shows is not known to have come.
        const forgottenMs = api.nowMs - kind.keptS * 1_000;
        if (page.cursor === null) await this.#unread(walk.reachMs, forgottenMs);
        return false;
      }
      cursor = page.cursor;
      if (performance.now() > this.#untilMs) return true;
    }
  }

  /** A place of an earlier turn may have been forgotten meanwhile: the log is then read from its beginning. */
  async #page({ log }: LogSource, api: Api, cursor: string | null, reachMs: number) {
    try {
      return await api.call(log.page(cursor, reachMs));
    } catch (error) {
      if (cursor === null || !(error instanceof ApiRefused) || ![400, 404, 422].includes(error.status))
        throw error;
      return api.call(log.page(null, reachMs));
    }
  }

  /** Where the reading goes on, or begins. */
  async #walk(): Promise<{ topMs: number | null; reachMs: number; cursor: string | null; pages: number }> {
    const { topMs, reachMs, cursor, pages, sinceMs, readToMs, windowS } = this.#table;
    if (topMs !== null && reachMs !== null && cursor !== null) return { topMs, reachMs, cursor, pages };
    const fromMs = readToMs ?? sinceMs;
    // What came before was forgotten, or soon is, and would be stored a second time.
    const rememberedMs = Date.now() - (windowS ?? 0) * 1_000 + this.#parts.limits.reconcileSkewMs;
    await this.#unread(fromMs, rememberedMs);
    return { topMs: null, reachMs: Math.max(fromMs, rememberedMs), cursor: null, pages: 0 };
  }

  async #unread(fromMs: number, toMs: number): Promise<void> {
    if (fromMs < toMs) await this.#own.rows(sql.leaveUnread, [this.#table.oid, fromMs, toMs]);
  }

  /** Whether there is more to be asked for at once. */
  async #askForMissing(opened: LogSource, api: Api): Promise<boolean> {
    const { limits } = this.#parts;
    const settledMs = api.nowMs - limits.reconcileSettleMs;
    const forgottenMs = api.nowMs - opened.kind.keptS * 1_000;
    const values = [...this.#held(), settledMs, forgottenMs, limits.reconcileAskedMax];
    const missing = await this.#own.rows<sql.MissingDelivery>(sql.missing, values);
    for (const it of missing) {
      if (performance.now() > this.#untilMs) return true;
      await this.#askFor(opened, api, it);
    }
    return missing.length === limits.reconcileAskedMax;
  }

  async #askFor({ log }: LogSource, api: Api, it: sql.MissingDelivery): Promise<void> {
    try {
      // Before the call: a delivery that comes while the API answers was asked for.
      if (log.fetched === null) await this.#noteAsked([it]);
      const { body } = await api.call(log.again(it.log));
      if (log.fetched !== null) await this.#store([{ ...it, body: log.fetched(body).body ?? body }]);
    } catch (error) {
      if (!(error instanceof ApiRefused) || error.status === 401) throw error;
      if (log.fetched !== null) await this.#noteAsked([it]);
      await this.#noteFailed([{ delivery: it.delivery, reason: error.message }]);
    }
  }

  async #noteAsked(asked: readonly Pick<sql.MissingDelivery, 'delivery' | 'asked'>[]): Promise<void> {
    const { reconcileAgainMinMs: min, reconcileAgainMaxMs: max } = this.#parts.limits;
    const restMs = backoffMs((asked[0]?.asked ?? 0) + 1, min, max, Math.random);
    const ids = asked.map(({ delivery }) => delivery);
    await this.#own.rows(sql.noteAsked, [...this.#held(), ids, restMs]);
    this.#asked += ids.length;
  }

  async #noteFailed(
    failed: readonly { readonly delivery: string; readonly reason: string }[],
  ): Promise<void> {
    if (failed.length > 0) await this.#own.rows(sql.noteFailed, [this.#table.oid, JSON.stringify(failed)]);
  }

  /** Through the lane of the table, as a retry: in the session in which its rows are always stored. */
  async #store(fetched: readonly (sql.MissingDelivery & { readonly body: Buffer })[]): Promise<void> {
    if (fetched.length === 0) return;
    await this.#noteAsked(fetched);
    const ended = await Promise.all(
      fetched.map(async ({ delivery, log, body }) => ({ delivery, reason: await this.#storeOne(log, body) })),
    );
    await this.#noteFailed(
      ended.flatMap(({ delivery, reason }) => (reason === null ? [] : [{ delivery, reason }])),
    );
  }

  /** Why it was not stored; null: it was. */
  async #storeOne(logId: string, body: Buffer): Promise<string | null> {
    const outcome = await this.#parts.store({
      ...this.#name,
      oid: Number(this.#table.oid),
      method: 'POST',
      requestTarget: `/${encodeURIComponent(logId)}`,
      rawHeaders: ['Content-Type', 'application/json', fetchedHeader, this.#table.log],
      leftOut: new Set(),
      arrivedAtMs: Date.now(),
      remoteAddress: '::',
      body,
      apart: false,
      fetched: true,
    });
    return outcome.kind === 'committed' ? null : `${outcome.refusal.code}: ${outcome.refusal.message}`;
  }

  #held(): readonly [string, string, number] {
    return [this.#table.oid, this.#me, this.#parts.limits.reconcileHoldS];
  }
}

/** As whom a turn holds its tables: nobody else has been, or will be. */
export const newHolder = (): string => randomUUID();

/** As the table's own requests have it. */
function digestOf(dedupe: Dedupe, { id }: Pick<LoggedDelivery, 'id'>): string {
  const [part] = dedupe.parts;
  if (part !== undefined && 'header' in part)
    return deliveryOf(dedupe, 'json', { body: Buffer.from('{}'), rawHeaders: [part.header, id] }).delivery;
  return deliveryOf(dedupe, 'json', { body: Buffer.from(JSON.stringify({ id })), rawHeaders: [] }).delivery;
}

function uuidOf(digest: string): string {
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function isLost(error: unknown): boolean {
  return sqlstateOf(error) === sql.notHeld;
}

/** What the table's owner is told; null: it is no matter of the table. */
function problemOf(error: unknown): string | null {
  if (error instanceof LogUnreadable) return `the log of the sender cannot be read: ${error.message}`;
  if (error instanceof NotNow || error instanceof ApiRefused || error instanceof NotComparable)
    return error.message;
  return sqlstateOf(error) === '54000' ? (error as Error).message : null;
}
