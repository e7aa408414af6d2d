/** A door before a PostgreSQL that takes only the start-up parameters which PgBouncer takes, and refuses others as it does. */
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Endpoint } from '../../src/engine/engine.ts';
import { onEnd } from './cleanup.ts';

const known = new Set(['user', 'database', 'client_encoding', 'application_name', 'DateStyle', 'TimeZone']);

export async function openPooler(t: TestContext, to: Endpoint): Promise<{ readonly port: number }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (startup) => {
      const words = startup.toString('utf8', 8).split('\0');
      const unknown = words.find((word, i) => i % 2 === 0 && word !== '' && !known.has(word));
      if (unknown !== undefined) {
        const text = `SFATAL\0C08P01\0Munsupported startup parameter: ${unknown}\0\0`;
        const head = Buffer.from([0x45, 0, 0, 0, 4 + text.length]);
        return socket.end(Buffer.concat([head, Buffer.from(text)]));
      }
      const upstream = to.kind === 'unix' ? connect(to.path) : connect(to.port, to.host);
      upstream.on('error', () => {});
      socket.on('close', () => upstream.destroy());
      upstream.write(startup);
      socket.pipe(upstream).pipe(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'pooler', () => void server.close());
  return { port: (server.address() as AddressInfo).port };
}
