/**
 * The baseline of the benchmarks: node:http that reads the body, computes the same HMAC, compares it and answers, and
 * stores nothing. Prints its port. Runs as a separate process.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const secret = process.argv[2] ?? '';
const accepted = Buffer.from('{"rows":1}');
const headers = ['Content-Type', 'application/json', 'Content-Length', String(accepted.length)];

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
    const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`);
    const given = Buffer.from(String(request.headers['x-hub-signature-256']));
    if (given.length === expected.length && timingSafeEqual(given, expected)) {
      response.writeHead(200, headers);
      response.end(accepted);
    } else {
      response.writeHead(401);
      response.end();
    }
  });
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
});
