import assert from 'node:assert/strict';
import { test } from '../../test/support/both-paths.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { deferred } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';

test('pipelined requests answered at once count against the bound on pipelined requests', async (t) => {
  const server = await startListener({ limits: { lingerMs: 200 } });
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(post('/webhook/nothing', '').repeat(500));
  const statuses: (number | undefined)[] = [];
  for (let answer = await client.answer(); answer !== null; answer = await client.answer())
    statuses.push(answer.status);
  assert.deepEqual(statuses, [...Array<number>(limits.pipelinedRequestsMax).fill(404), 503]);
  await client.closed;
});

const path = '/webhook/dev/public/t';

test('pipelined requests up to the bound are answered, the next gets 503, and the rest is not read', async (t) => {
  const go = deferred<void>();
  const server = await startListener({
    limits: { lingerMs: 200 },
    commit: () => go.promise.then(() => ({ kind: 'committed', rows: 1 })),
  });
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}').repeat(500));
  await server.observed((o) => o.kind === 'request.answered' && o.code === 'overloaded');
  go.resolve();
  const statuses: (number | undefined)[] = [];
  for (let answer = await client.answer(); answer !== null; answer = await client.answer())
    statuses.push(answer.status);
  const many = limits.pipelinedRequestsMax;
  assert.deepEqual(statuses, [...Array<number>(many).fill(200), 503]);
  await client.closed;
  // Its parser serves others again.
  const next = await RawClient.connect(server.port);
  next.send(post(path, '1') + post(path, '2'));
  assert.equal((await next.answer())?.status, 200);
  assert.equal((await next.answer())?.status, 200);
  next.destroy();
});
