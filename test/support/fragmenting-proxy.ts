/** A TCP proxy that passes on every byte in pieces of one to three bytes, so that no message arrives whole. */
import { createServer, connect, type NetConnectOpts, type Socket } from 'node:net';
import { pipeline, Transform } from 'node:stream';

export interface FragmentingProxy {
  readonly port: number;
  close(): Promise<void>;
}

/** Each piece is sent in its own turn of the event loop; `random` returns numbers from 0 to below 1. */
function fragments(random: () => number): Transform {
  return new Transform({
    transform(chunk: Buffer, _, done) {
      let at = 0;
      const next = (): void => {
        if (at >= chunk.length) {
          done();
          return;
        }
        const end = at + 1 + Math.floor(random() * 3);
        this.push(chunk.subarray(at, end));
        at = end;
        setImmediate(next);
      };
      next();
    },
  });
}

export function openFragmentingProxy(to: NetConnectOpts, random: () => number): Promise<FragmentingProxy> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ noDelay: true, ...to } as NetConnectOpts);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    }
    const ended = (): void => {};
    pipeline(client, fragments(random), upstream, ended);
    pipeline(upstream, fragments(random), client, ended);
  });
  const close = (): Promise<void> =>
    new Promise((done) => {
      server.close(() => done());
      for (const socket of sockets) socket.destroy();
    });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port: 0 }, () => {
      const address = server.address();
      resolve({ port: typeof address === 'object' && address !== null ? address.port : 0, close });
    });
  });
}
