/** Counts the answers of the events gateway as plain numbers, which are formatted for Prometheus when they are read. */
import { Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Readers } from '../observe/context.ts';
import type { Observation } from '../observe/observations.ts';
import { answerBuckets, PlainHistogram } from './plain-histogram.ts';
import { readCounter } from './read-metrics.ts';

type GatewayAnswered = Extract<Observation, { kind: 'gateway.answered' }>;

interface Route {
  rows: number;
  /** By code, then by status: one of the engine's own errors may have several. */
  readonly answers: Map<string, Map<number, number>>;
}

/** Returns what counts answers and streams. */
export function registerGateway(registry: Registry): Readers {
  const routes = new Map<string, Route>();
  readCounter(
    registry,
    'headgate_gateway_requests_total',
    'Requests of the events gateway, by route, status and code',
    ['route', 'status', 'code'],
    (add) => {
      for (const [route, { answers }] of routes)
        for (const [code, counts] of answers)
          for (const [status, count] of counts) add({ route, status, code }, count);
    },
  );
  readCounter(
    registry,
    'headgate_gateway_rows_total',
    'Rows that the events gateway has committed (events), that statements have touched (sql), or that were sent (stream)',
    ['route'],
    (add) => {
      for (const [route, it] of routes) if (it.rows > 0) add({ route }, it.rows);
    },
  );
  const seconds = new PlainHistogram({
    name: 'headgate_gateway_request_seconds',
    help: 'From the end of the headers to the end of the answer of the events gateway, in seconds',
    labelNames: ['route'],
    buckets: answerBuckets,
    registers: [registry],
  });
  const streams = new Gauge({
    name: 'headgate_gateway_streams',
    help: 'Streams of rows that the events gateway has open',
    registers: [registry],
  });
  const count = (answered: GatewayAnswered): void => {
    const { route, status, code } = answered;
    if (route === 'stream' && code === 'ok') streams.dec();
    let of = routes.get(route);
    if (of === undefined) routes.set(route, (of = { rows: 0, answers: new Map() }));
    let counts = of.answers.get(code);
    if (counts === undefined) of.answers.set(code, (counts = new Map()));
    of.rows += answered.rows;
    counts.set(status, (counts.get(status) ?? 0) + 1);
    seconds.add(answered.seconds, route);
  };
  return { 'stream.opened': () => streams.inc(), 'gateway.answered': count };
}
