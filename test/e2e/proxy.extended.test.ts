/** nginx and Caddy in front, by the files in deploy/: what senders wrote must reach Headgate as they wrote it. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { startCaddy, startNginx } from '../support/proxy.ts';
import { sampleOf } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';

const proxies = { nginx: startNginx, caddy: startCaddy };

/** Stands where Headgate does and shows what arrives there, byte for byte. */
async function witness(t: TestContext) {
  const seen: IncomingMessage[] = [];
  const arrivals: ((request: IncomingMessage) => void)[] = [];
  const upgrades: { request: IncomingMessage; socket: Duplex }[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    for (const told of arrivals.splice(0)) told(request);
    request.resume().on('end', () => response.end('{"rows":1}'));
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    upgrades.push({ request, socket });
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n',
    );
    socket.on('error', () => socket.destroy()).pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onEnd(t, 'witness', () => {
    server.closeAllConnections();
    for (const { socket } of upgrades) socket.destroy();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    upgrades,
    arrival: () => new Promise<IncomingMessage>((resolve) => arrivals.push(resolve)),
  };
}

const paths = [
  '/webhook/dev/public/t',
  "/webhook/dev/public/a%2Fb%2f%2Fc%20d%25%C3%A9+~%7E!$&'()*,;=:@",
  '/webhook/dev//t',
  '/webhook/dev/public/t/',
  '/webhook/dev/./public/t',
  '/webhook/dev/public/t?x=%2F..&y=a//b&&z=%zz&ü=1'.replace('ü', '%FC'),
];

for (const [name, start] of sampleOf(Object.entries(proxies), 1)) {
  suite(`${name} works as a reverse proxy`, () => {
    test("a TLS proxy passes the sender's address to VALIDATE and Headgate's refusals to the sender", async (t) => {
      const program = requireTool(t, name);
      if (program === null) return;
      const headgate = await startHeadgate(t);
      const proxy = await start(t, program, [headgate.ports.listen.port]);
      const client = await headgate.client(t);
      await client.query(`
        CREATE SECRET token WITH (backend = 'meta') AS 'k';
        CREATE TABLE inbox (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET token AS
          secure_compare(headers->>'authorization', token) AND headers->>'x-forwarded-for' = '127.0.0.9'
          AND headers->>'x-forwarded-proto' = 'https' AND headers->>'x_under_score' = 'kept'`);
      const headers = { authorization: 'k', x_under_score: 'kept' };
      const from = (localAddress: string, forged?: string) =>
        proxy.post('/webhook/dev/public/inbox', '{"a":1}', {
          localAddress,
          headers: { ...headers, ...(forged === undefined ? {} : { 'x-forwarded-for': forged }) },
        });
      assert.equal((await from('127.0.0.9')).text, '{"rows":1}');
      // An address that the sender made up does not get through, neither instead of its own nor beside it.
      assert.equal((await from('127.0.0.9', '10.0.0.1')).status, 200);
      const forged = await from('127.0.0.8', '127.0.0.9');
      assert.equal(
        `${forged.status} ${forged.text}`,
        '401 {"error":"Signature verification failed","code":"signature_failed"}',
      );
      const large = Buffer.alloc(26 * 1024 * 1024, ' ');
      const refused = await proxy.post('/webhook/dev/public/inbox', large).catch(() => null);
      // The proxy may close on a sender that is still writing; an answer, where one is read, is Headgate's.
      if (refused !== null) assert.match(refused.text, /"code":"body_too_large"/);
      for (const path of ['/', '/metrics', '/healthz', '/v1/sql', '/webhookx']) {
        assert.equal((await proxy.post(path, '{}')).status, 404, path);
      }
      const { rows } = await client.query<{ n: number }>('select count(*)::int as n from inbox');
      assert.equal(rows[0]?.n, 2);
    });

    test('a TLS proxy passes on paths byte for byte, and headers with Host as they were sent', async (t) => {
      const program = requireTool(t, name);
      if (program === null) return;
      const backend = await witness(t);
      const proxy = await start(t, program, [backend.port]);
      for (const path of paths) {
        const answer = await proxy.post(path, '{}', {
          headers: { X_Signature_256: 'a  b', 'x-multi': 'é'.normalize('NFC') },
        });
        assert.equal(answer.text, '{"rows":1}', path);
        const arrived = backend.seen.at(-1);
        assert.equal(arrived?.url, path);
        assert.equal(arrived?.headers['x_signature_256'], 'a  b');
        assert.equal(arrived?.headers['x-multi'], 'é');
        assert.equal(arrived?.headers.host, 'hooks.example.com');
        assert.equal(arrived?.headers['accept-encoding'], undefined);
      }
    });

    test('a TLS proxy streams a large body without buffering it in a file', async (t) => {
      const program = requireTool(t, name);
      if (program === null) return;
      const backend = await witness(t);
      const proxy = await start(t, program, [backend.port]);
      const socket = await proxy.open(t);
      const half = 'x'.repeat(5 * 1024 * 1024);
      const arrival = backend.arrival();
      socket.write(
        `POST /webhook/dev/public/t HTTP/1.1\r\nHost: hooks.example.com\r\nContent-Length: ${2 * half.length}\r\n\r\n${half}`,
      );
      // The second half is sent only after the request has reached the other side.
      await arrival;
      socket.write(half);
      const [answer] = (await new Promise<Buffer[]>((resolve) =>
        socket.once('data', (data: Buffer) => resolve([data])),
      )) as [Buffer];
      assert.match(answer.toString('latin1'), /^HTTP\/1\.1 200 /);
      if (name === 'nginx') assert.doesNotMatch(await proxy.log(), /buffered to a temporary file/);
    });

    test('a WebSocket works through a TLS proxy in both directions', async (t) => {
      const program = requireTool(t, name);
      if (program === null) return;
      const backend = await witness(t);
      const proxy = await start(t, program, [backend.port]);
      const socket = await proxy.open(t);
      let read = '';
      const until = (wanted: string) =>
        new Promise<void>((resolve) => {
          const look = () => {
            if (read.includes(wanted)) resolve();
          };
          socket.on('data', look);
          look();
        });
      socket.on('data', (data: Buffer) => (read += data.toString('latin1')));
      socket.write(
        'GET /ingest/dev/public/t HTTP/1.1\r\nHost: hooks.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
      await until('\r\n\r\n');
      assert.match(read, /^HTTP\/1\.1 101 /);
      assert.equal(backend.upgrades[0]?.request.headers.upgrade?.toLowerCase(), 'websocket');
      socket.write('one frame');
      await until('one frame');
    });
  });
}
