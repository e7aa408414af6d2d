/** A webhook listener whose ingest keeps the bodies it receives. */
import type { Arrival } from '../../src/types/request.ts';
import type { Outcome } from '../../src/types/rows.ts';
import type { TlsSource } from '../../src/access/tls-source.ts';
import type { Listener } from '../../src/listen/http.ts';
import { openListener } from '../../src/listen/http.ts';
import { webhookRoute } from '../../src/ingest/routes.ts';
import type { RequestStreams } from '../../src/ingest/ingest-stream.ts';
import type { Limits } from '../../src/config/limits.ts';
import { limits } from '../../src/config/limits.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { refusal, Refused } from '../../src/errors/refusals.ts';
import { isFastPath } from './both-paths.ts';

export interface TestListener {
  readonly listener: Listener;
  readonly port: number;
  readonly bodies: Buffer[];
  readonly observations: Observation[];
  /** Resolves with the next matching observation, or an earlier one. */
  observed(fits: (observation: Observation) => boolean): Promise<Observation>;
  close(): Promise<void>;
}

export interface TestListenerOptions {
  readonly limits?: Partial<Limits>;
  readonly bodyBytesMax?: number;
  /** Opens the WebSocket door. */
  readonly streams?: Pick<RequestStreams, 'open'>;
  readonly websocketOrigins?: string;
  /** Awaited before the body is requested, as for a table that is looked up. */
  readonly found?: () => Promise<void>;
  /** Runs between the body and the outcome. */
  readonly commit?: (body: Buffer, arrival: Arrival) => Promise<Outcome>;
  /** Once it resolves, requests are refused with `deadline`, whether their bodies have come or not. */
  readonly early?: Promise<void>;
  readonly tls?: TlsSource;
  /** Default: as the test specifies (both-paths.ts). */
  readonly fastPath?: boolean;
}

/** Tables: `none` does not exist, `broken` hits a bug, `away` has no engine; every other one stores. */
export async function startListener(options: TestListenerOptions = {}): Promise<TestListener> {
  const bodies: Buffer[] = [];
  const observations: Observation[] = [];
  const waiting = new Set<() => void>();
  const commit = options.commit ?? (() => Promise.resolve<Outcome>({ kind: 'committed', rows: 1 }));
  const listener = await openListener({
    host: '127.0.0.1',
    port: 0,
    tls: options.tls ?? null,
    fastPath: options.fastPath ?? isFastPath(),
    bodyBytesMax: options.bodyBytesMax ?? 1024,
    ...(options.streams === undefined ? {} : { streams: options.streams }),
    websocketOrigins: options.websocketOrigins ?? null,
    limits: { ...limits, ...options.limits },
    now: Date.now,
    random: () => 0,
    observe: (observation) => {
      observations.push(observation);
      for (const wake of waiting) wake();
    },
    ingest: {
      submit: async (arrival) => {
        const table = webhookRoute(arrival.target);
        if (table.table === 'none') throw new Refused('not_found');
        arrival.found?.(table);
        if (table.table === 'broken') throw new TypeError('a bug with /a/path in it');
        if (table.table === 'away') return { kind: 'aborted', refusal: refusal('engine_unavailable') };
        await options.found?.();
        const early = options.early?.then(() => Promise.reject(new Refused('deadline')));
        const body = await Promise.race([arrival.body(), ...(early === undefined ? [] : [early])]);
        bodies.push(body);
        return commit(body, arrival);
      },
    },
  });
  return {
    listener,
    port: listener.address.port,
    bodies,
    observations,
    observed: (fits) =>
      new Promise((resolve) => {
        const look = () => {
          const found = observations.find(fits);
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    close: () => listener.close(),
  };
}
