/**
 * A sender that remembers every attempt: the ids it sent, and the answer to each. Each id is sent once, so the table must
 * contain every id that was answered 200 exactly once, no id that was refused, and any other at most once.
 */
import { createHmac } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent as TlsAgent, request as requestByTls } from 'node:https';
import type { Client } from 'pg';
import { isLong, times } from './sample.ts';
import { until } from './until.ts';

export interface Tally {
  readonly sent: number;
  readonly committed: number;
  /** Answered 202: kept on Headgate's disk. */
  readonly kept: number;
  readonly refused: number;
  readonly unanswered: number;
  /** Answered 200 or 202, but not in the table. */
  readonly lost: readonly string[];
  /** In the table more than once, or although refused. */
  readonly surplus: readonly string[];
}

const pauseMs = times(20, 3);

/**
 * Longer than Headgate takes for any answer, including 503: after that no answer would come, and the load would not end.
 */
export const answerMsMax = 60_000;

export class Ledger {
  readonly #secret: string;
  readonly #agent: Agent;
  readonly #request: typeof request;
  readonly #host: { host?: string };
  /** Status by id; 0: no answer was read. */
  readonly #answers = new Map<string, number>();
  /** The first few answers other than 200, as read. */
  readonly oddities: string[] = [];
  #next = 0;
  #committed = 0;
  #stopped = false;

  /** `tls`: uses https, with `ca` as the authority and `servername` as the name. */
  constructor(secret: string, tls?: { readonly ca: string; readonly servername: string }) {
    this.#secret = secret;
    const options = { keepAlive: true, maxSockets: 64 };
    this.#agent = tls === undefined ? new Agent(options) : new TlsAgent({ ...options, ...tls });
    this.#request = tls === undefined ? request : requestByTls;
    this.#host = tls === undefined ? {} : { host: tls.servername };
  }

  get committed(): number {
    return this.#committed;
  }

  get refused(): number {
    return this.#count((status) => !isTaken(status) && status !== 0);
  }

  get kept(): number {
    return this.#count((status) => status === 202);
  }

  /** Statuses that no sender should ever get: neither 200 nor 503. */
  get odd(): readonly number[] {
    return [...this.#answers.values()].filter((status) => ![0, 200, 503].includes(status));
  }

  #count(wanted: (status: number) => boolean): number {
    let n = 0;
    for (const status of this.#answers.values()) if (wanted(status)) n++;
    return n;
  }

  /**
   * Sends requests one after the other on `senders` connections until `stop`, each to the present value of `url`: some
   * hundreds or thousands per second, and in the long run as fast as the machine can.
   */
  async run(url: () => string | null, senders: number): Promise<void> {
    this.#stopped = false;
    await Promise.all(
      Array.from({ length: senders }, async () => {
        while (!this.#stopped) {
          const to = url();
          if (to === null || (await this.send(to)) === 0 || !isLong) await delay(pauseMs);
        }
      }),
    );
  }

  stop(): void {
    this.#stopped = true;
  }

  close(): void {
    this.#stopped = true;
    this.#agent.destroy();
  }

  async tally(client: Client, table: string): Promise<Tally> {
    const { rows } = await client.query<{ id: string; n: number }>(
      `select data->>'id' as id, count(*)::int as n from ${table} group by 1`,
    );
    const stored = new Map(rows.map((row) => [row.id, row.n]));
    const answers = [...this.#answers];
    const count = (wanted: (status: number) => boolean) =>
      answers.filter(([, status]) => wanted(status)).length;
    return {
      sent: answers.length,
      committed: count((status) => status === 200),
      kept: count((status) => status === 202),
      refused: count((status) => !isTaken(status) && status !== 0),
      unanswered: count((status) => status === 0),
      lost: answers.filter(([id, status]) => isTaken(status) && !stored.has(id)).map(([id]) => id),
      surplus: [...stored].filter(([id, n]) => n > 1 || isRefusal(this.#answers.get(id))).map(([id]) => id),
    };
  }

  /** Sends until a request is answered 200. */
  async accepted(url: string): Promise<void> {
    await until(async () => (await this.send(url)) === 200);
  }

  /** Sends one request; returns its status, 0 if no answer was read. */
  send(url: string): Promise<number> {
    const id = String(this.#next++);
    this.#answers.set(id, 0);
    const body = JSON.stringify({ id, text: 'x'.repeat(this.#next % 300) });
    const signature = `sha256=${createHmac('sha256', this.#secret).update(body).digest('hex')}`;
    return new Promise((resolve) => {
      const headers = {
        ...this.#host,
        'content-length': Buffer.byteLength(body),
        'x-hub-signature-256': signature,
      };
      const options = { method: 'POST', agent: this.#agent, headers, timeout: answerMsMax };
      const sent = this.#request(url, options, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('error', () => resolve(0));
        response.on('end', () => {
          const status = response.statusCode ?? 0;
          if (!isTaken(status) && this.oddities.length < 5) this.oddities.push(`${id}: ${status} ${text}`);
          this.#answers.set(id, status);
          if (status === 200) this.#committed++;
          resolve(status);
        });
        response.on('close', () => resolve(0));
      });
      sent.on('error', (error) => {
        if (this.oddities.length < 5) this.oddities.push(`${id}: ${error.message}`);
        resolve(0);
      });
      sent.on('timeout', () => sent.destroy(new Error(`no answer within ${answerMsMax} ms`)));
      sent.end(body);
    });
  }
}

function isTaken(status: number): boolean {
  return status === 200 || status === 202;
}

/** A 4xx means that nothing was stored, as for an id that was never sent. A 503 leaves that open. */
function isRefusal(status: number | undefined): boolean {
  return status === undefined || (status >= 400 && status < 500);
}
