/** `headgate deliver`: a receiver that does what receivers do, judged by the package of Standard Webhooks. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { deliver, secret, secretFile } from '../support/deliver-command.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { times } from '../support/sample.ts';
import { within } from '../support/within.ts';

/** What the receiver does with the n-th request for a row; `true`: it takes it. */
type Behaviour = (response: ServerResponse, n: number) => boolean;

const behaviours: readonly Behaviour[] = [
  (response) => (response.end('ok'), true),
  (response, n) => (response.writeHead(n === 1 ? 500 : 204).end(), n > 1),
  (response, n) => (
    response.writeHead(n === 1 ? 429 : 200, n === 1 ? { 'retry-after': '1' } : {}).end(),
    n > 1
  ),
  (response, n) => (n === 1 ? response.destroy() : response.end(), n > 1),
  // It announces more than it sends, and resets.
  (response, n) => {
    if (n > 1) response.end();
    else response.writeHead(200, { 'content-length': '1000' }).write('x', () => response.destroy());
    return true;
  },
  (response, n) => (
    response.writeHead(n === 1 ? 302 : 200, { location: 'http://127.0.0.1:1/' }).end(),
    n > 1
  ),
  // It says no end of things.
  (response, n) => (response.writeHead(n === 1 ? 200 : 201).end('y'.repeat(n === 1 ? 100_000 : 1)), true),
];

test(
  'headgate deliver delivers each row, signed, despite receiver failures, and in order by key',
  { timeout: 180_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(await commandsOf('docs/workers.md', 'table'));
    await root.query(`ALTER TABLE orders ADD COLUMN key TEXT GENERATED ALWAYS AS (data->>'key') STORED`);
    const webhook = new Webhook(secret);
    const requests = new Map<string, number>();
    const taken = new Map<string, { key: string; n: number }>();
    const order: { key: string; n: number }[] = [];
    const host = await startReceiver(t, (request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (part: string) => (text += part));
      request.on('end', () => {
        const headers = request.headers as Record<string, string>;
        // Throws if the signature, or its time, is not right.
        const data = webhook.verify(text, headers) as { key: string; n: number };
        const id = headers['webhook-id'] ?? '';
        const n = (requests.get(id) ?? 0) + 1;
        requests.set(id, n);
        if (!(behaviours[data.n % behaviours.length] ?? behaviours[0])?.(response, n)) return;
        if (!taken.has(id)) order.push(data);
        taken.set(id, data);
      });
    });
    const count = times(35, 2_000);
    for (let n = 0; n < count; n++)
      assert.equal(
        (await headgate.post('dev/public/orders', JSON.stringify({ key: `k${n % 5}`, n, digits: 1 }))).status,
        200,
      );
    const to = `http://${host}/hook`;
    const file = await secretFile(t);
    let running = deliver(t, headgate, file, to, '--key', 'key', '--attempts', '1000');
    for (let kills = times(1, 20); kills > 0; kills--) {
      const before = taken.size;
      await within(60_000, async () => {
        await root.query(
          'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
        );
        assert(taken.size > before || taken.size === count, running.said());
      });
      running.child.kill('SIGKILL');
      // What it held is free at once.
      await root.query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
      running = deliver(t, headgate, file, to, '--key', 'key', '--attempts', '1000');
    }
    await within(120_000, async () => {
      await root.query(
        'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL',
      );
      const { rows } = await root.query('SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL');
      assert.deepEqual(rows, [{ n: 0 }], running.said());
    });
    assert.equal(taken.size, count);
    assert.match([...taken.keys()][0] ?? '', /^orders_\d+$/);
    for (let key = 0; key < 5; key++) {
      const numbers = order.filter((it) => it.key === `k${key}`).map(({ n }) => n);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
        `k${key}`,
      );
    }
  },
);
