/** An HTTP server for bench/listen.ts: `listener` with an ingest that only reads the body, or bare `node:http`. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { limits } from '../src/tables/limits.ts';
import { openListener } from '../src/listen/http.ts';
import { parseWebhookTarget } from '../src/listen/routes.ts';
import { Refused } from '../src/tables/refusals.ts';

const routes = new Map<string, { database: string; schema: string; table: string }>();

async function listen(kind: string | undefined): Promise<number> {
  if (kind === 'listener') {
    let answered = 0;
    const { address } = await openListener({
      host: '127.0.0.1',
      port: 0,
      bodyBytesMax: limits.bodyBytesMax,
      now: Date.now,
      observe: () => void (answered += 1),
      ingest: async (arrival, hooks) => {
        let table = routes.get(arrival.target);
        if (table === undefined) {
          const parsed = parseWebhookTarget(arrival.target);
          if ('code' in parsed) throw new Refused(parsed.code);
          table = parsed;
          routes.set(arrival.target, table);
        }
        hooks.target(table);
        await arrival.body();
        return { kind: 'committed', rows: 1 };
      },
    });
    return address.port;
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
      if (body === undefined) response.statusCode = 400;
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 10 });
      response.end('{"rows":1}');
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const port = await listen(process.argv[2]);
process.send?.(port);
process.on('disconnect', () => process.exit(0));
