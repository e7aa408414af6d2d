/**
 * A worker that a test kills, or stops: `node worker-child.js <gateway> <file> [plain]`. Its effect is in the transaction of the mark, or `plain`, there is none;
 * the file gets a line for each attempt. It asks by Node's own client, which takes a third of the processor time of `fetch`.
 */
import { appendFileSync } from 'node:fs';
import { createClient } from '../../src/client/client.ts';
import { asked } from './asked.ts';

const [url = '', file = '', kind = 'effect'] = process.argv.slice(2);
const ask: typeof fetch = async (to, init) => {
  const { body, headers: given } = init ?? {};
  if (typeof to !== 'string' || typeof body !== 'string') throw new TypeError('a statement is a text');
  const { status, headers, text } = await asked(to, {
    method: 'POST',
    body,
    headers: Object.fromEntries(new Headers(given)),
  });
  return new Response(text, { status, headers });
};
const client = createClient({ url, retries: 1_000, retryMs: 5_000, fetch: ask });
await client.work<{ id: number }>(
  'orders',
  ({ id }, { attempt }) => {
    if (kind === 'plain') return;
    appendFileSync(file, `${id} ${attempt}\n`);
    return { sql: 'INSERT INTO shipped (order_id, attempt) SELECT id, $1 FROM done', params: [attempt] };
  },
  { lease: 3, concurrency: 20, attempts: 1_000, idle: 50 },
);
