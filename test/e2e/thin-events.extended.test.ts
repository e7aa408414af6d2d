/** docs/thin-events.md: its tables and its worker as printed, against an API that fails now and then. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import Stripe from 'stripe';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const page = 'docs/thin-events.md';
const clientModule = fileURLToPath(new URL('../../src/client/client.js', import.meta.url));
const stripe = new Stripe('sk_test_unused');

test('the documented worker for thin events stores the newest state of each object despite an API failure', async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  const events = (await commandsOf(page, 'events')).replace('whsec_…', 'whsec_page');
  await root.query(events);
  await root.query(await commandsOf(page, 'objects'));
  let asked = 0;
  const api = createServer((request, response) => {
    asked += 1;
    const [, id = ''] = /\/v2\/core\/accounts\/(\w+)$/.exec(request.url ?? '') ?? [];
    response.writeHead(asked === 1 ? 500 : id === 'gone' ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id, asked, authorization: request.headers.authorization }));
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'API', () => void api.close());
  for (const [n, id] of ['a', 'b', 'a', 'gone'].entries()) {
    const payload = JSON.stringify({
      id: `evt_${n}`,
      related_object: { id, url: `/v2/core/accounts/${id}` },
    });
    const signature = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_page' });
    for (let again = 0; again < 2; again++) {
      const { status } = await headgate.post('dev/public/stripe_events', payload, {
        'stripe-signature': signature,
      });
      assert.equal(status, 200);
    }
  }
  const program = (await commandsOf(page, 'worker'))
    .replace('headgate/client', clientModule)
    .replace('http://localhost:8000', headgate.gatewayUrl)
    .replace('https://api.stripe.com', `http://127.0.0.1:${(api.address() as AddressInfo).port}`);
  const { code } = await transform(
    `const stop = new AbortController(); const stopping = stop.signal;
     const open = globalThis.setInterval(async () => {
       const { rows } = await headgate.sql\`SELECT count(*)::int AS n FROM stripe_events WHERE done_at IS NULL\`;
       if (rows[0].n === 0) { globalThis.clearInterval(open); stop.abort(); }
     }, 100);
     ${program}`,
    { loader: 'ts', format: 'esm' },
  );
  const file = join(await temporaryFolder(t), 'worker.mjs');
  await writeFile(file, code);
  const ran = await run(process.execPath, [file], { env: { ...process.env, STRIPE_KEY: 'rk_page' } });
  assert.equal(ran.code, 0, ran.stderr);
  const { rows } = await root.query<{ id: string; key: string }>(
    `SELECT id, object ->> 'authorization' AS key FROM customers ORDER BY id`,
  );
  assert.deepEqual(rows, [
    { id: 'a', key: 'Bearer rk_page' },
    { id: 'b', key: 'Bearer rk_page' },
  ]);
  assert.equal((await root.query('SELECT FROM stripe_events WHERE done_at IS NOT NULL')).rowCount, 4);
});
