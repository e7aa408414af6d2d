/** Alerts on a clock of the test, with a receiver. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { createPost } from '../../src/access/outgoing.ts';
import { limits } from '../../src/config/limits.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { Alerts, ObservedConditions } from '../../src/alerts/alerts.ts';
import type { AlertDeps } from '../../src/alerts/alerts.ts';
import type { SavedCondition } from '../../src/alerts/state-file.ts';
import type { OpenGap, SilentTable, ReplicationSlot, AlertInput } from '../../src/alerts/rules.ts';
import { SharedAlerts } from '../../src/alerts/claims.ts';

export interface Told {
  readonly alerts: readonly {
    alert: string;
    state: string;
    labels: Record<string, string>;
    summary: string;
  }[];
  readonly more: number;
}

export const table = { database: 'dev', schema: 'public', table: 'gh' };
export const minute = 60_000;

export class Stage {
  nowMs = 1_000_000;
  readonly counts = new Map<string, number>();
  notReady: string | null = null;
  disk: AlertInput['disk'] = { freeBytes: 2 ** 40, totalBytes: 2 ** 41 };
  silent: readonly SilentTable[] = [];
  slots: readonly ReplicationSlot[] = [];
  gaps: readonly OpenGap[] = [];
  readonly signs = new ObservedConditions();
  readonly bodies: string[] = [];
  kept: readonly SavedCondition[] = [];
  looks = 0;
  readonly said: Observation[] = [];
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.end('ok');
  readonly alerts: Alerts;

  constructor(url: URL, deps: Partial<AlertDeps> = {}) {
    this.alerts = new Alerts({
      url,
      form: 'auto',
      version: '0.0.0',
      everyMs: 3_600_000,
      // On a busy machine an answer may take long, and what is not answered in time is sent again.
      post: createPost({ ...limits, outgoingMs: 60_000 }),
      file: { read: async () => this.kept, write: async (kept) => void (this.kept = kept) },
      signs: this.signs,
      metrics: async () => {
        this.looks += 1;
        return [...this.counts].map(([name, value]) => `${name} ${value}`).join('\n');
      },
      ready: () => this.notReady,
      disk: async () => this.disk,
      silent: async () => this.silent,
      slots: async () => this.slots,
      gaps: async () => this.gaps,
      sharing: new SharedAlerts({ asked: async () => null }),
      observe: (observation) => void this.said.push(observation),
      nowMs: () => this.nowMs,
      clock: () => this.nowMs,
      ...deps,
    });
  }

  /** Checks every half minute. */
  async pass(ms: number): Promise<void> {
    for (const end = this.nowMs + ms; this.nowMs < end;) {
      this.nowMs += 30_000;
      await this.alerts.look();
    }
  }

  add(name: string, labels: Record<string, string> = {}, more = 1): void {
    const text = Object.entries(labels)
      .map(([key, value]) => `${key}="${value}"`)
      .join();
    const sample = text === '' ? name : `${name}{${text}}`;
    this.counts.set(sample, (this.counts.get(sample) ?? 0) + more);
  }

  /** What was reported since the last call: `alert state`. */
  told(): string[] {
    return this.bodies
      .splice(0)
      .flatMap((body) => (JSON.parse(body) as Told).alerts.map(({ alert, state }) => `${alert} ${state}`));
  }
}

export async function stage(t: TestContext, deps: Partial<AlertDeps> = {}): Promise<Stage> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('end', () => {
      it.bodies.push(body);
      it.answer(request, response);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'receiver', () => {
    server.closeAllConnections();
    server.close();
  });
  const it = new Stage(
    new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?key=x`),
    deps,
  );
  onEnd(t, 'alerts', () => it.alerts.close());
  return it;
}
