/**
 * The calls of one sender's API in one turn. Takes the API's URL, a token and a way out; returns answers of status 2xx. Paces itself, and keeps to what the
 * API says of its rate. Throws NotNow if it has to be left alone for a while, ApiRefused for any other answer, neither with the token.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { retryAfterMs } from '../access/outgoing.ts';
import type { HttpExchange, OutgoingResponse } from '../access/outgoing.ts';
import type { Limits } from '../config/limits.ts';
import { backoffMs } from '../kit/backoff.ts';
import type { LogCall } from '../senders/delivery-log.ts';

export type ApiLimits = Pick<
  Limits,
  'reconcileRestMinMs' | 'reconcileRestMaxMs' | 'reconcileEveryMaxS' | 'reconcileRateLeft' | 'reconcileSkewMs'
>;

/** The API wants to be left alone. */
export class NotNow extends Error {
  readonly restMs: number;

  constructor(message: string, restMs: number) {
    super(message);
    this.restMs = restMs;
  }
}

/** It answers, but not with a 2xx. */
export class ApiRefused extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the API answered ${status}${meanings[status] ?? ''}`);
    this.status = status;
  }
}

const meanings: Readonly<Record<number, string>> = {
  301: ': it is elsewhere now, name the new place',
  307: ': it is elsewhere now, name the new place',
  401: ': the token is wrong, or has expired',
  403: ': the token may not read this',
  404: ': there is no such hook or endpoint, or the token may not see it',
};

export interface ApiOptions {
  /** Without a slash at its end. */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly exchange: HttpExchange;
  readonly limits: ApiLimits;
  /** Turns in a row that have failed before this one. */
  readonly failures: number;
  readonly signal: AbortSignal;
  readonly pauses: { readonly GET: number; readonly POST: number };
}

export class Api {
  readonly #options: ApiOptions;
  #lastMs = -Infinity;
  /** By how much its clock is ahead, in ms. */
  #aheadMs = 0;
  /** The answer before has said that the rate is used up. */
  #rest: NotNow | null = null;
  calls = 0;

  constructor(options: ApiOptions) {
    this.#options = options;
  }

  /** By the API's clock, ms since 1970. */
  get nowMs(): number {
    return Date.now() + this.#aheadMs;
  }

  async call({ method, path }: LogCall): Promise<OutgoingResponse> {
    if (this.#rest !== null) throw this.#rest;
    const { base, headers, exchange, signal, pauses } = this.#options;
    const restMs = this.#lastMs + pauses[method] - performance.now();
    if (restMs > 0) await pause(restMs, undefined, { signal });
    this.#lastMs = performance.now();
    this.calls += 1;
    const url = new URL(base + path);
    // What a log puts into the path is escaped; the token goes nowhere else.
    if (url.origin !== new URL(base).origin) throw new ApiRefused(0);
    const answer = await exchange(url, { method, headers, signal }).catch((error: unknown) => {
      throw this.#later(error instanceof Error ? error.message : String(error));
    });
    this.#readClock(answer);
    return this.#judge(answer);
  }

  #judge(answer: OutgoingResponse): OutgoingResponse {
    const { status, headers } = answer;
    const number = (name: string) => numberOf(headers[name]);
    const [left, most] = [number('x-ratelimit-remaining'), number('x-ratelimit-limit')];
    const isUsedUp = left === 0 || headers['retry-after'] !== undefined;
    if (status === 429 || (status === 403 && isUsedUp))
      throw this.#later(`the API answered ${status}: too many calls`, this.#restOf(answer));
    if (status >= 500) throw this.#later(`the API answered ${status}`, this.#restOf(answer));
    if (status < 200 || status > 299) throw new ApiRefused(status);
    const { reconcileRateLeft } = this.#options.limits;
    if (left !== null && most !== null && left <= most * reconcileRateLeft)
      this.#rest = this.#later(
        'the rate of the API is used up but for what is left to others',
        this.#restOf(answer),
      );
    return answer;
  }

  /** As the API says; null: it does not. */
  #restOf(answer: OutgoingResponse): number | null {
    const restMs = retryAfterMs(answer, this.nowMs);
    if (restMs !== null) return restMs;
    const reset = numberOf(answer.headers['x-ratelimit-reset']);
    return reset === null ? null : reset * 1_000 - this.nowMs;
  }

  #later(message: string, saidMs: number | null = null): NotNow {
    const { limits, failures } = this.#options;
    const ownMs = backoffMs(failures + 1, limits.reconcileRestMinMs, limits.reconcileRestMaxMs, Math.random);
    const restMs = saidMs === null ? ownMs : Math.max(1_000, saidMs);
    return new NotNow(message, Math.min(restMs, limits.reconcileEveryMaxS * 1_000));
  }

  #readClock({ headers: { date } }: OutgoingResponse): void {
    const at = date === undefined ? NaN : Date.parse(date);
    if (Number.isNaN(at)) return;
    const aheadMs = at - Date.now();
    const { reconcileSkewMs } = this.#options.limits;
    if (Math.abs(aheadMs) > reconcileSkewMs)
      throw this.#later('its clock and the one here differ by more than an hour');
    this.#aheadMs = aheadMs;
  }
}

function numberOf(text: string | string[] | undefined): number | null {
  return typeof text === 'string' && /^\d{1,12}$/.test(text) ? Number(text) : null;
}
