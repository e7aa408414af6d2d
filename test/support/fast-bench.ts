/**
 * Connections of the fast path on a real listening socket; records the requests that begin on them and those handed to
 * Node.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { Connection } from '../../src/http/connection.ts';
import { PerTurn } from '../../src/kit/event-loop.ts';
import { FastConnections } from '../../src/http/fast-connections.ts';
import type { FastAnswer } from '../../src/http/plain-answer.ts';
import type { WholeRequest } from '../../src/http/plain-request.ts';
import { limits } from '../../src/config/limits.ts';
import type { Limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';

export const path = '/webhook/dev/public/t';
export const ok = { status: 200, headers: ['Content-Length', '1'], body: '1' };

interface Begun {
  readonly body: string;
  readonly request: WholeRequest;
  readonly answer: FastAnswer;
}

export class FastBench {
  readonly begun: Begun[] = [];
  /** What Node's parser would have read, by connection. */
  readonly handed: string[] = [];
  expired = 0;
  all!: FastConnections;
  port = 0;

  static async open(t: TestContext, own: Partial<Limits> = {}, answersHalfClosed = true): Promise<FastBench> {
    const bench = new FastBench();
    bench.all = new FastConnections({
      prefixes: ['/webhook/'],
      limits: { ...limits, ...own },
      silenceMs: null,
      answersHalfClosed,
      requests: {
        receive: (_connection, request, answer) => {
          bench.begun.push({ body: request.body.toString(), request, answer });
        },
      },
      handOver: (socket) => bench.#take(socket),
      expired: (socket) => {
        bench.expired += 1;
        socket.destroy();
      },
    });
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      onEnd(t, 'socket', () => void socket.destroy());
      bench.all.add(socket, new Connection(socket, limits, new PerTurn(100, setImmediate)));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onEnd(t, 'server', () => void server.close());
    bench.port = (server.address() as AddressInfo).port;
    return bench;
  }

  async until(fits: () => boolean): Promise<void> {
    while (!fits()) await new Promise(setImmediate);
  }

  #take(socket: Socket): void {
    const at = this.handed.push('') - 1;
    socket.on('data', (piece: Buffer) => {
      this.handed[at] += piece.toString('latin1');
    });
    socket.on('end', () => {
      this.handed[at] += '<end>';
    });
    // Like Node's server.
    socket.on('error', () => undefined);
  }
}
