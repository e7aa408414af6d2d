/** An events gateway in this process, in front of one test database, with one-line functions for its requests. */
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { engineOf } from '../../src/gateway/engines.ts';
import { externalDatabases } from '../../src/gateway/external-databases.ts';
import { openGateway } from '../../src/gateway/door.ts';
import type { Gateway } from '../../src/gateway/door.ts';
import type { GatewayDatabases, GatewayOptions } from '../../src/gateway/gateway-options.ts';
import { Admission } from '../../src/access/admission.ts';
import type { AdmissionOptions } from '../../src/access/admission.ts';
import { Closer } from '../../src/kit/closer.ts';
import { limits } from '../../src/config/limits.ts';
import { asked } from './asked.ts';
import type { Answer as Plain, Question } from './asked.ts';
import { isFastPath } from './both-paths.ts';
import { onEnd } from './cleanup.ts';
import { Spy } from './postgres.ts';
import type { TestDatabase } from './postgres.ts';

export interface Answer extends Plain {
  /** The parsed body; numbers lose digits in it. */
  readonly json: Said;
}

export interface Said {
  readonly rows?: unknown;
  readonly error?: string;
  readonly code?: string;
  readonly [member: string]: unknown;
}

export class TestGateway {
  readonly url: string;
  readonly spy: Spy;
  readonly door: Gateway;

  constructor(url: string, spy: Spy, door: Gateway) {
    this.url = url;
    this.spy = spy;
    this.door = door;
  }

  sql(body: string, path = '/v1/sql', init: Question = {}): Promise<Answer> {
    return request(`${this.url}${path}`, { method: 'POST', body, ...init });
  }

  /** The rows of the last statement. */
  async rows(sql: string): Promise<readonly Record<string, unknown>[]> {
    const { status, text, json } = await this.sql(sql);
    if (status !== 200) throw new Error(`${sql}: ${status} ${text}`);
    return json.rows as Record<string, unknown>[];
  }

  events(
    query: string,
    body: string | Uint8Array<ArrayBuffer>,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    return request(`${this.url}/v1/events?${query}`, { method: 'POST', body, headers });
  }
}

export async function request(url: string, init: Question): Promise<Answer> {
  const plain = await asked(url, init);
  let json: Said = {};
  try {
    json = JSON.parse(plain.text) as Said;
  } catch {
    // A test that is interested reads the text.
  }
  return { ...plain, json };
}

/** Anybody may connect, and no proxy is trusted, unless `options` say otherwise. */
export function openGate(options: Partial<AdmissionOptions> = {}): Admission {
  const nobody = { trustedProxies: null, forwardedHeader: 'x-forwarded-for', allowed: null } as const;
  return new Admission({
    ...nobody,
    addressRate: null,
    tableRate: null,
    clock: () => performance.now(),
    ...options,
  });
}

export async function openTestGateway(
  t: TestContext,
  database: Pick<TestDatabase, 'engine'>,
  options: Partial<GatewayOptions> & {
    readonly clock?: () => number;
    /** Replaces its rooms. */
    readonly instead?: (databases: GatewayDatabases) => GatewayDatabases;
  } = {},
): Promise<TestGateway> {
  const closer = new Closer();
  onEnd(t, 'gateway', () => closer.close());
  const spy = new Spy();
  const engines = [{ name: 'test', env: 'EVENTS_API_TEST_DSN', engine: database.engine }];
  const { clock = () => performance.now(), instead = (deps) => deps, ...given } = options;
  const { sql, events } = externalDatabases(engines, { observe: spy.observe, clock, limits }, closer);
  const gateway = await openGateway({
    host: '127.0.0.1',
    port: 0,
    token: null,
    origins: [],
    hosts: [],
    tls: null,
    fastPath: isFastPath(),
    gate: openGate(),
    version: '0.0.0',
    clock,
    metrics: null,
    observe: spy.observe,
    databases: instead({
      database: (name) => engineOf(engines, name).name,
      unavailable: () => database.engine.unavailable,
      sql,
      events,
      tokens: null,
    }),
    ...given,
  });
  closer.add('door', () => gateway.close());
  return new TestGateway(`http://127.0.0.1:${gateway.address.port}`, spy, gateway);
}
