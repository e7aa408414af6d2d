/**
 * Sends the rows of one table to one receiver, signed as Standard Webhooks specifies, by the lease of docs/workers.md. Takes a plan, and a way to run
 * SQL at a time; tells of each attempt. Returns when it is interrupted, or the receiver answers 410; throws the errors of the database.
 *
 *   claiming ──rows──► sending ──2xx──► done
 *      ▲ │                └──else──► later again, or dead after the last attempt
 *      │ └─ 5 failures in a row, or Retry-After ──► resting ──► one row as a probe ──┐
 *      └───────────────────────────────────────────────────────────────────────────┘
 *
 * It calls the receiver of its plan and no other: redirects are not followed, and a row chooses nothing but its body.
 */
import { createHmac } from 'node:crypto';
import { createDelivery, retryAfterMs } from '../access/outgoing.ts';
import type { OutgoingResponse } from '../access/outgoing.ts';
import { leaseOn } from '../client/lease.ts';
import type { Lease } from '../client/lease.ts';
import { ClaimPace, Marks } from '../client/lease-rows.ts';
import { limits } from '../config/limits.ts';
import { deferred } from '../kit/promises.ts';
import { PlainError } from '../kit/plain-error.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import type { DeliveryPlan } from './plan.ts';

/** Seconds before the next attempt, as Standard Webhooks recommends; up to half less, by chance. */
const pausesS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

type RowTexts = Readonly<Record<string, string | null>>;
export type RunStatement = (text: string, values: readonly unknown[]) => Promise<readonly RowTexts[]>;

export interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly outcome: 'delivered' | 'failed' | 'dead';
  /** Why not; null: it was delivered. */
  readonly why: string | null;
  /** Seconds until the next attempt may begin; null: there is none. */
  readonly againS: number | null;
}

interface DeliveringOptions {
  readonly told: (attempt: Attempt) => void;
  /** Of a host that several tables are delivered to; absent: this table has it to itself. */
  readonly slots?: Semaphore;
  /** Called whenever it may have become true or false that the receiver is down. */
  readonly down?: (why: string | null) => void;
  /** Aborted: what is on its way is given up. */
  readonly cut?: AbortSignal;
}

export class Delivering {
  /** The receiver has said that it wants no more. */
  gone = false;
  readonly #plan: DeliveryPlan;
  readonly #options: DeliveringOptions;
  readonly #slots: Semaphore;
  #lease: Lease;
  readonly #leaseIf: (meant: string | null) => Lease;
  readonly #post: ReturnType<typeof createDelivery>;
  /** The connection runs one statement at a time. */
  readonly #turn = new Semaphore(1);
  #failures = 0;
  /** Rests since the last success; each is twice as long as the one before. */
  #rests = 0;
  #restUntilMs = 0;

  /** `from`: the table as SQL names it, if not as the plan does. Throws PlainError. */
  constructor(plan: DeliveryPlan, options: DeliveringOptions, from: string = plan.table) {
    this.#plan = plan;
    this.#options = options;
    this.#slots = options.slots ?? new Semaphore(plan.concurrency);
    const { deliverMs: outgoingMs, deliverAnswerBytesMax: outgoingBytesMax } = limits;
    this.#post = createDelivery(plan.network, { outgoingMs, outgoingBytesMax });
    const prefix = plan.table.replaceAll(/[^A-Za-z0-9_-]/g, '_');
    const id = plan.idColumn === null ? `pg_catalog.concat('${prefix}_', id)` : quote(plan.idColumn);
    const body = `${quote(plan.column)}::text`;
    const returning = `id::text AS id, attempts::text AS attempts, (${id})::text AS delivery, CASE WHEN pg_catalog.octet_length(${body}) <= ${limits.deliverBodyBytesMax} THEN ${body} END AS body, (${body} IS NOT NULL)::text AS has_body`;
    const only = plan.key === null ? 'true' : first(from, plan.key);
    this.#leaseIf = (meant) => leaseOn(from, {}, only, returning, meant);
    try {
      this.#lease = this.#leaseIf(null);
    } catch (error) {
      throw new PlainError((error as Error).message);
    }
  }

  /** `begun`: the first claim has succeeded. `meant`: a condition of each statement (leaseOn); null: none. On one connection at a time. */
  async work(
    statement: RunStatement,
    signal: AbortSignal,
    begun: () => void,
    meant: string | null = null,
  ): Promise<void> {
    this.#lease = this.#leaseIf(meant);
    const { concurrency, attempts, key } = this.#plan;
    const running = new Set<Promise<void>>();
    const run: RunStatement = (text, values) =>
      this.#turn.run(limits.commandConnectMs, () => statement(text, values));
    const lost: unknown[] = [];
    let isFirst = true;
    const pace = new ClaimPace(concurrency, limits.deliverClaimMs);
    // What the database refuses ends the work.
    const marks = new Marks(
      (ids, attempt) => run(this.#lease.doneAll, [ids, attempt]),
      () => false,
    );
    try {
      while (!signal.aborted && !this.gone && lost.length === 0) {
        // After a rest one row shows whether the receiver is back.
        const most = (this.#failures >= limits.deliverFailuresMax ? 1 : concurrency) - running.size;
        const earlyMs = running.size > 0 ? pace.earlyMs(most) : 0;
        const restMs = Math.max(this.#restUntilMs - Date.now(), earlyMs);
        const slots = restMs > 0 ? [] : this.#slotsFor(most);
        const isFull = restMs <= 0 && slots.length === 0;
        let rows: readonly RowTexts[] = [];
        try {
          const values = [slots.length, limits.deliverLeaseMs / 1_000, attempts];
          if (slots.length > 0 || isFirst)
            rows = await pace.claim(slots.length, () => run(this.#lease.claim, values));
        } finally {
          for (const give of slots.splice(rows.length)) give();
        }
        if (isFirst) begun();
        isFirst = false;
        for (const [at, row] of rows.entries()) {
          const one = this.#one(row, run, marks)
            .catch((error: unknown) => void lost.push(error))
            .finally(() => {
              running.delete(one);
              slots[at]?.();
            });
          running.add(one);
        }
        if (rows.length > 0) continue;
        const pauseMs = Math.max(1, Math.min(limits.deliverPauseMs, restMs > 0 ? restMs : Infinity));
        // The row behind one with the same key can be claimed as soon as that has ended.
        const frees = most <= 0 || isFull || (key !== null && restMs <= 0);
        await rest(pauseMs, signal, frees ? running : []);
      }
    } finally {
      await Promise.all(running);
    }
    if (lost.length > 0) throw lost[0];
  }

  #slotsFor(most: number): (() => void)[] {
    const slots: (() => void)[] = [];
    while (slots.length < most) {
      const give = this.#slots.takeNow();
      if (give === null) break;
      slots.push(give);
    }
    return slots;
  }

  async #one(row: RowTexts, run: RunStatement, marks: Marks): Promise<void> {
    const { attempts: most } = this.#plan;
    const { id, delivery, body, has_body: hasBody } = row;
    const attempt = Number(row['attempts']);
    const mine = [id, attempt];
    const tell = (outcome: Attempt['outcome'], why: string | null, againS: number | null = null): void =>
      this.#options.told({ id: id ?? '', attempt, outcome, why, againS });
    const problem = problemOf(delivery ?? '', body ?? null, hasBody === 'true');
    if (problem !== null) {
      await run(this.#lease.dead, [...mine, problem, most]);
      return tell('dead', problem);
    }
    const { why, retryAfterS } = await this.#send(delivery ?? '', body ?? '');
    if (why === null) {
      if (this.#failures >= limits.deliverFailuresMax) this.#options.down?.(null);
      this.#failures = 0;
      this.#rests = 0;
      await marks.add(id ?? '', attempt);
      return tell('delivered', null);
    }
    this.#failures += 1;
    if (this.gone || this.#failures === limits.deliverFailuresMax) this.#options.down?.(why);
    this.#restAfter(retryAfterS);
    const pauseS = (pausesS[Math.min(attempt, pausesS.length) - 1] ?? 5) * (0.5 + Math.random() / 2);
    const isLast = attempt >= most;
    const againS = Math.max(pauseS, retryAfterS);
    await run(this.#lease.failed, [...mine, why, isLast ? 0 : againS]);
    if (isLast) tell('dead', why);
    else tell('failed', why, againS);
  }

  async #send(
    id: string,
    body: string,
  ): Promise<{ readonly why: string | null; readonly retryAfterS: number }> {
    const time = String(Math.floor(Date.now() / 1_000));
    const { secret, to } = this.#plan;
    const signature = createHmac('sha256', secret).update(`${id}.${time}.${body}`).digest('base64');
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': time,
      'webhook-signature': `v1,${signature}`,
    };
    try {
      const { cut } = this.#options;
      const content = { type: 'application/json', text: body };
      const sent = { method: 'POST', headers, body: content, ...(cut && { signal: cut }) } as const;
      const answer = await this.#post(to, sent);
      const { status } = answer;
      if (status === 410) this.gone = true;
      return status >= 200 && status < 300
        ? { why: null, retryAfterS: 0 }
        : { why: `it answered ${status}`, retryAfterS: retryAfterOf(answer) };
    } catch (error) {
      const why = (error as Error).message.slice(0, limits.reasonCharsMax).replaceAll('\0', '');
      return { why, retryAfterS: 0 };
    }
  }

  /** Deliveries that were on their way when a rest began do not make it longer. */
  #restAfter(retryAfterS: number): void {
    const { deliverRestMinMs, deliverRestMs, deliverFailuresMax } = limits;
    const nowMs = Date.now();
    let restMs = Math.min(deliverRestMs, retryAfterS * 1_000);
    if (this.#failures >= deliverFailuresMax && nowMs >= this.#restUntilMs) {
      restMs = Math.max(restMs, Math.min(deliverRestMs, deliverRestMinMs * 2 ** Math.min(this.#rests, 20)));
      this.#rests += 1;
    }
    if (restMs > 0) this.#restUntilMs = Math.max(this.#restUntilMs, nowMs + restMs);
  }
}

/**
 * Why a row can never be sent; null: it can. The signed text is `id.time.body`: an id with a full stop, which a sender may have chosen, could be read as
 * another id with another body.
 */
export function problemOf(id: string, body: string | null, hasBody = body !== null): string | null {
  if (body === null)
    return hasBody ? `its body has more than ${limits.deliverBodyBytesMax} bytes` : 'it has no body';
  return /^[!-~]{1,256}$/.test(id) && !id.includes('.')
    ? null
    : 'its id is not up to 256 printable ASCII characters without a full stop';
}

/**
 * No earlier row with the same key is open; the dead keep nobody waiting. $3: as of the claim. IS NOT DISTINCT FROM would use no index: rows without a key
 * are one group, looked for apart.
 */
function first(table: string, key: string): string {
  const noneBefore = (same: string): string => `NOT EXISTS (SELECT FROM ${table} e
      WHERE ${same} AND e.id < o.id AND e.done_at IS NULL AND NOT (e.attempts >= $3 AND e.run_after <= now()))`;
  const [own, others] = [`o.${quote(key)}`, `e.${quote(key)}`];
  return `CASE WHEN ${own} IS NULL THEN ${noneBefore(`${others} IS NULL`)} ELSE ${noneBefore(`${others} = ${own}`)} END`;
}

/** Until `ms` have passed, one of the others has ended, or the signal is aborted; leaves no timer and no listener behind. */
async function rest(ms: number, signal: AbortSignal, others: Iterable<Promise<void>>): Promise<void> {
  const over = deferred<void>();
  const end = (): void => over.resolve();
  const timer = setTimeout(end, ms);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  try {
    await Promise.race([over.promise, ...others]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}

/** In seconds, up to a day. */
export function retryAfterOf(answer: Pick<OutgoingResponse, 'headers'>, nowMs = Date.now()): number {
  return Math.min(limits.deliverRetryAfterMaxS, Math.max(0, (retryAfterMs(answer, nowMs) ?? 0) / 1_000));
}
