/**
 * The APIs of two senders that show what they have delivered, as their documentation describes them (each answer cites it), for tests of the option
 * `reconcile`. It signs with the senders' own packages. Its clock may be ahead; it can refuse, hang, and let pages shift while they are read.
 *
 * GitHub: docs.github.com/en/rest/repos/webhooks (deliveries), /rest/using-the-rest-api/rate-limits-for-the-rest-api, /rest/using-the-rest-api/
 * using-pagination-in-the-rest-api. Stripe: docs.stripe.com/api/events/list, /api/pagination, /api/errors, /rate-limits. Read in November 2026. Paths, statuses and fields of GitHub's are those of
 * its OpenAPI document (@octokit/openapi 23.0.2, hook-delivery-item).
 */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sign } from '@octokit/webhooks-methods';
import Stripe from 'stripe';
import { asked } from './asked.ts';
import { onEnd } from './cleanup.ts';
import type { Scope } from './cleanup.ts';

export const githubToken = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz';
export const stripeToken = 'rk_test_0123456789abcdefghijklmnop';
const stripe = new Stripe('sk_test_unused');

interface GithubEntry {
  readonly id: number;
  readonly guid: string;
  readonly atMs: number;
  readonly redelivery: boolean;
  readonly body: string;
  status: number;
}

interface StripeEvent {
  readonly id: string;
  readonly createdS: number;
  readonly type: string;
  readonly text: string;
}

/** What a call is answered instead; null: as it should be. */
export type Fault = (
  request: IncomingMessage,
  path: string,
) => { status: number; headers?: Record<string, string>; body?: string } | null;

export class SenderLogs {
  /** By how much this clock is ahead, in ms. */
  aheadMs = 600_000;
  fault: Fault = () => null;
  /** Called after each page: a log grows while it is read. */
  onPage: () => void = () => undefined;
  /** Where deliveries go, and the secrets they are signed with. */
  githubHook: { url: string; secret: string } | null = null;
  enabledEvents: readonly string[] = ['*'];
  readonly github: GithubEntry[] = [];
  readonly stripe: StripeEvent[] = [];
  readonly calls: { readonly atMs: number; readonly what: string; readonly status: number }[] = [];
  /** Of GitHub's rate: what is left, of how many, until when (s). */
  rate = { limit: 5_000, windowS: 3_600, used: 0, resetS: Math.ceil(Date.now() / 1_000) + 3_600 };
  url = '';
  #lastId = 170_000_000_000_000_000;

  static async open(t: Scope): Promise<SenderLogs> {
    const logs = new SenderLogs();
    const server = createServer((request, response) => void logs.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    logs.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onEnd(t, 'logs of senders', () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    });
    return logs;
  }

  get apis(): string {
    return `github=${this.url},stripe=${this.url}`;
  }

  get nowMs(): number {
    return Date.now() + this.aheadMs;
  }

  /** Delivered by GitHub `agoMs` ago, by its clock. */
  addGithub(agoMs: number, note: string): GithubEntry {
    this.#lastId += 1_000;
    const body = JSON.stringify({ action: 'opened', note });
    const entry = {
      id: this.#lastId,
      guid: randomUUID(),
      atMs: this.nowMs - agoMs,
      redelivery: false,
      body,
      status: 502,
    };
    this.github.push(entry);
    return entry;
  }

  async deliverGithub(entry: GithubEntry): Promise<number> {
    if (this.githubHook === null) throw new Error('there is no hook');
    const { url, secret } = this.githubHook;
    const headers = {
      'content-type': 'application/json',
      'x-github-delivery': entry.guid,
      'x-github-event': 'issues',
      'x-hub-signature-256': await sign(secret, entry.body),
    };
    const { status } = await asked(url, { method: 'POST', body: entry.body, headers }).catch(() => ({
      status: 0,
    }));
    entry.status = status;
    return status;
  }

  addStripe(agoMs: number, note: string, type = 'invoice.paid'): StripeEvent {
    const id = `evt_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
    const createdS = Math.floor((this.nowMs - agoMs) / 1_000);
    // A number that JavaScript would round.
    const text = `{"id":"${id}","object":"event","api_version":"2026-09-30","created":${createdS},"type":"${type}","data":{"object":{"note":${JSON.stringify(note)},"amount":12345678901234567890}},"livemode":false}`;
    const event = { id, createdS, type, text };
    this.stripe.push(event);
    return event;
  }

  async deliverStripe({ text }: StripeEvent, url: string, secret: string): Promise<number> {
    const signature = stripe.webhooks.generateTestHeaderString({ payload: text, secret });
    const headers = { 'content-type': 'application/json', 'stripe-signature': signature };
    return (await asked(url, { method: 'POST', body: text, headers }).catch(() => ({ status: 0 }))).status;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    const url = new URL(path, this.url);
    const { status, headers = {}, body = '' } = this.fault(request, path) ?? this.#route(request, url);
    this.calls.push({ atMs: Date.now(), what: `${request.method} ${path}`, status });
    response.writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      date: new Date(this.nowMs).toUTCString(),
      ...headers,
    });
    response.end(body);
    this.onPage();
  }

  #route(request: IncomingMessage, url: URL): ReturnType<Fault> & {} {
    const { authorization } = request.headers;
    if (url.pathname.startsWith('/v1/'))
      return authorization === `Bearer ${stripeToken}`
        ? this.#stripe(url)
        : {
            status: 401,
            body: JSON.stringify({
              error: { type: 'invalid_request_error', message: 'Invalid API Key provided' },
            }),
          };
    if (authorization !== `Bearer ${githubToken}`)
      return { status: 401, body: '{"message":"Bad credentials"}' };
    if (this.rate.resetS * 1_000 < this.nowMs)
      this.rate = { ...this.rate, used: 0, resetS: Math.ceil(this.nowMs / 1_000) + this.rate.windowS };
    this.rate.used += 1;
    const { limit, used, resetS } = this.rate;
    const rate = {
      'x-ratelimit-limit': `${limit}`,
      'x-ratelimit-remaining': `${Math.max(0, limit - used)}`,
      'x-ratelimit-used': `${used}`,
      'x-ratelimit-reset': `${resetS}`,
    };
    if (used > limit) return { status: 403, headers: rate, body: '{"message":"API rate limit exceeded"}' };
    const answer = this.#github(request, url);
    return { ...answer, headers: { ...rate, ...answer.headers } };
  }

  #github({ method }: IncomingMessage, url: URL): ReturnType<Fault> & {} {
    const hook = '/repos/octo-org/hello.world/hooks/42/deliveries';
    const [, again] = new RegExp(`^${hook}/(\\d+)/attempts$`).exec(url.pathname) ?? [];
    if (method === 'POST' && again !== undefined) return this.#redeliver(Number(again));
    if (method !== 'GET' || url.pathname !== hook) return { status: 404, body: '{"message":"Not Found"}' };
    const size = Math.min(100, Number(url.searchParams.get('per_page') ?? 30));
    const cursor = url.searchParams.get('cursor');
    const from =
      cursor === null ? this.github.length : this.github.findIndex(({ id }) => `v1_${id}` === cursor) + 1;
    if (from === 0 && cursor !== null) return { status: 422, body: '{"message":"Validation Failed"}' };
    const items = this.github.slice(Math.max(0, from - size), from).toReversed();
    const next = this.github[from - size - 1];
    const link = `<https://api.github.com/repositories/1${hook}?per_page=${size}&cursor=v1_${next?.id}>; rel="next"`;
    const list = items.map(({ id, guid, atMs, redelivery, status }) => ({
      id,
      guid,
      delivered_at: new Date(atMs).toISOString(),
      redelivery,
      duration: 0.27,
      status: status === 200 ? 'OK' : 'Bad Gateway',
      status_code: status,
      event: 'issues',
      action: 'opened',
      installation_id: null,
      repository_id: 1,
      throttled_at: null,
    }));
    return { status: 200, headers: next === undefined ? {} : { link }, body: JSON.stringify(list) };
  }

  #redeliver(id: number): ReturnType<Fault> & {} {
    const entry = this.github.find((it) => it.id === id);
    if (entry === undefined) return { status: 404, body: '{"message":"Not Found"}' };
    this.#lastId += 1_000;
    const again = { ...entry, id: this.#lastId, atMs: this.nowMs, redelivery: true };
    this.github.push(again);
    // After the answer, as GitHub does.
    setImmediate(() => void this.deliverGithub(again));
    return { status: 202, body: '{}' };
  }

  #stripe(url: URL): ReturnType<Fault> & {} {
    const failed = (status: number, message: string) => ({
      status,
      body: JSON.stringify({ error: { type: 'invalid_request_error', message } }),
    });
    const [, one] = /^\/v1\/events\/(evt_\w+)$/.exec(url.pathname) ?? [];
    if (one !== undefined) {
      const event = this.stripe.find(({ id }) => id === one);
      return event === undefined ? failed(404, `No such event: '${one}'`) : { status: 200, body: event.text };
    }
    if (url.pathname === '/v1/webhook_endpoints/we_1')
      return {
        status: 200,
        body: JSON.stringify({ id: 'we_1', object: 'webhook_endpoint', enabled_events: this.enabledEvents }),
      };
    if (url.pathname !== '/v1/events') return failed(404, 'Unrecognized request URL');
    const size = Math.min(100, Number(url.searchParams.get('limit') ?? 10));
    const after = url.searchParams.get('starting_after');
    const fromS = Number(url.searchParams.get('created[gte]') ?? 0);
    const kept = this.stripe.filter(({ createdS }) => createdS >= fromS);
    const at = after === null ? kept.length : kept.findIndex(({ id }) => id === after);
    if (at < 0) return failed(400, `No such event: '${after}'`);
    const items = kept.slice(Math.max(0, at - size), at).toReversed();
    const data = items.map(({ text }) => text).join(',');
    return {
      status: 200,
      body: `{"object":"list","url":"/v1/events","has_more":${at > size},"data":[${data}]}`,
    };
  }
}
