/** Stripe's stand-in for its API (stripe-mock) checks each request against Stripe's OpenAPI, and answers with Stripe's fixtures. `npm run test:stripe`. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { test } from 'node:test';
import { createApiCall } from '../../src/access/outgoing.ts';
import { limits } from '../../src/config/limits.ts';
import { parseLog } from '../../src/senders/delivery-logs.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { freePort } from '../support/proxy.ts';
import { until } from '../support/until.ts';

const { HEADGATE_STRIPE_MOCK: program = 'stripe-mock' } = process.env;
const token = 'sk_test_123';

test("reconcile's calls to Stripe are accepted by stripe-mock, and its answers are read", async (t) => {
  const port = await freePort();
  const mock = spawn(program, ['-http-addr', `127.0.0.1:${port}`], { stdio: 'ignore' });
  onEnd(t, 'stripe-mock', () => void mock.kill());
  const accepts = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
      socket.end();
    });
  await until(accepts);
  const api = `http://127.0.0.1:${port}`;
  const call = createApiCall({
    outgoingMs: limits.reconcileCallMs,
    outgoingBytesMax: limits.reconcileBytesMax,
  });
  const log = parseLog('stripe:we_1MtHbELkdIwHu7ix');
  assert.ok(log !== null && log.filter !== null && log.fetched !== null);
  const asked = async (path: string, bearer = token) =>
    call(new URL(api + path), { method: 'GET', headers: log.headers(bearer) });
  const endpoint = await asked(log.filter.call.path);
  assert.equal(endpoint.status, 200);
  const filter = log.filter.read(endpoint.body);
  assert.equal(typeof filter('invoice.paid'), 'boolean');
  const page = await asked(log.page(null, Date.now()).path);
  assert.equal(page.status, 200, page.body.toString());
  const { deliveries, cursor } = log.read(page.body, page.headers, null);
  assert.ok(deliveries.length > 0);
  const [event] = deliveries;
  assert.ok(event?.body !== undefined && page.body.includes(event.body));
  assert.equal((JSON.parse(event.body.toString()) as { id: string }).id, event.id);
  assert.equal(cursor, null);
  assert.equal((await asked(log.page(event.logId, Date.now()).path)).status, 200);
  const one = await asked(log.again(event.logId).path);
  assert.equal(one.status, 200);
  assert.match(log.fetched(one.body).id, /^evt_/);
  assert.equal((await asked(log.page(null, 0).path, 'no key')).status, 401);
  const headgate = await startHeadgate(t, { env: { HEADGATE_RECONCILE_APIS: `stripe=${api}` } });
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET token WITH (backend = 'meta') AS '${token}'; CREATE TABLE events (data JSONB)
    WITH (connector = 'webhook', dedupe = '$.id', reconcile = 'stripe:we_1MtHbELkdIwHu7ix', reconcile_secret = token)`);
  await until(async () => {
    const { rows } = await client.query('SELECT problem FROM headgate.gaps WHERE looked_at IS NOT NULL');
    if (rows.length > 0) assert.deepEqual(rows[0], { problem: null });
    return rows.length > 0;
  });
  // The fixture is of 2009: before the table.
  assert.equal((await client.query('SELECT FROM events')).rowCount, 0);
});
