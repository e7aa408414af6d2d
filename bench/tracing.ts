/**
 * Signed, durable single events with traces for OpenTelemetry: of one request in a hundred, which is the default, and of each, beside none. The receiver
 * is in this process, which does nothing else meanwhile.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { figure, measure, startService } from './service.ts';
import type { Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connections = 64;
const headers = signedHeaders(body);
const samplers = { none: null, hundredth: 'parentbased_traceidratio', each: 'always_on' } as const;
type Which = keyof typeof samplers;

export const tracing: Bench = {
  name: 'tracing',
  run: async ({ rounds, seconds }) => {
    const receiver = createServer((request, response) => {
      request.resume();
      request.on('end', () => response.end('{}'));
    }).listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    const services = new Map<Which, Service>();
    try {
      for (const [name, sampler] of Object.entries(samplers) as [Which, string | null][]) {
        const env =
          sampler === null ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_TRACES_SAMPLER: sampler };
        const service = await startService({ env });
        services.set(name, service);
        await createSigned(service.client, 'events');
      }
      const load = (name: Which) => {
        const service = services.get(name) as Service;
        const job = { connections, seconds, headers, bodies: [body], url: service.url('events') };
        return measure(job, service.pid);
      };
      const turns = await inTurns(rounds, 'tracing', {
        none: () => load('none'),
        hundredth: () => load('hundredth'),
        each: () => load('each'),
      });
      const lines: (string | number)[][] = [];
      for (const [name, what] of [
        ['none', 'none'],
        ['hundredth', 'one in a hundred'],
        ['each', 'each'],
      ] as const) {
        const of = services.get(name) as Service;
        const sent = await figure(of, 'headgate_spans_sent_total');
        const dropped = await figure(of, 'headgate_spans_dropped_total');
        lines.push([
          what,
          median(turns.map((turn) => turn[name].perSecond)).toFixed(0),
          spread(turns.map((turn) => turn[name].perSecond / turn.none.perSecond)),
          median(turns.map((turn) => turn[name].nodeCpuUs)).toFixed(1),
          `${sent} / ${dropped}`,
        ]);
      }
      const head = [
        'traced',
        'req/s',
        'beside none (min–max)',
        'CPU of Node a request, µs',
        'spans sent / dropped',
      ];
      const rule = `${stamp()}; ${connections} connections, ${rounds} rounds of ${seconds} s in turns after one to warm up; medians.`;
      return [rule, '', table(head, lines, 1)].join('\n');
    } finally {
      for (const service of services.values()) await service.stop();
      receiver.closeAllConnections();
      receiver.close();
    }
  },
};
