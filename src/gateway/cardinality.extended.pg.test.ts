/** No request creates a new series: names chosen by strangers appear in no label, however many there are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { times } from '../../test/support/sample.ts';
import { within } from '../../test/support/within.ts';
import { createMetrics } from '../admin/metrics.ts';
import { limits } from '../config/limits.ts';

const token = 'open-sesame';
const authorized = `Authorization: Bearer ${token}\r\n`;

/** What strangers may ask for, by how often; each is answered with the same status every time. */
const kinds: readonly (readonly [count: number, status: number, request: (n: number) => string])[] = [
  [times(1_000, 40_000), 401, (n) => post(`/v1/events?name=t${n}&database=d${n}`, '{}')],
  [times(1_000, 47_000), 404, (n) => post(`/v1/${n}/nothing`, '{}', authorized)],
  [times(500, 10_000), 404, (n) => post(`/v1/sql?database=d${n}`, 'SELECT 1', authorized)],
  [times(150, 2_000), 404, (n) => post(`/v1/events?name=t${n}`, '{}', authorized)],
  [times(100, 1_000), 400, (n) => post('/v1/sql', `SELECT * FROM t${n}`, authorized)],
];

const total = kinds.reduce((sum, [count]) => sum + count, 0);

test(`${total} gateway requests with unknown paths, databases and tables add no metric series`, async (t) => {
  const metrics = createMetrics({ lanes: () => [], load: () => ({ connections: 0, bytesInFlight: 0 }) });
  const gateway = await openTestGateway(t, await testDatabase(t), {
    token,
    hosts: ['h'],
    metrics,
    observe: metrics.observe,
  });
  const port = Number(new URL(gateway.url).port);
  const clients = await Promise.all(Array.from({ length: 4 }, () => RawClient.connect(port)));
  t.after(() => clients.forEach((client) => client.destroy()));
  // Node's own come with what happens to the process: the first collection of a kind adds nine.
  const series = async () =>
    (await metrics.text()).split('\n').filter((line) => line !== '' && !/^(#|nodejs_|process_)/.test(line))
      .length;

  const ask = async (
    client: RawClient,
    first: number,
    count: number,
    [, status, request]: (typeof kinds)[number],
  ) => {
    client.send(Array.from({ length: count }, (_, i) => request(first + i)).join(''));
    for (let i = 0; i < count; i++) assert.equal((await client.answer())?.status, status);
  };
  for (const kind of kinds) await ask(clients[0] as RawClient, 0, 1, kind);
  const before = await series();
  const step = limits.pipelinedRequestsMax;
  for (const kind of kinds) {
    let next = 1;
    await Promise.all(
      clients.map(async (client) => {
        while (next < kind[0]) {
          const first = next;
          next += step;
          await ask(client, first, Math.min(step, kind[0] - first), kind);
        }
      }),
    );
  }
  assert.equal(await series(), before);
  // An answer is counted when it was written, which may be after it was read.
  await within(2_000, async () => {
    const counts = [...(await metrics.text()).matchAll(/^headgate_gateway_requests_total\{.*\} (\d+)$/gm)];
    assert.equal(
      counts.reduce((sum, [, count]) => sum + Number(count), 0),
      total,
    );
  });
});
