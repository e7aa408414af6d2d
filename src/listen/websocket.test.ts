import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { streamRooms, textsOf } from '../../test/support/streams.ts';
import type { TestListener, TestListenerOptions } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { WsClient } from '../../test/support/ws-client.ts';
import type { WsOptions } from '../../test/support/ws-client.ts';
import type { Outcome, Rows } from '../flow.ts';
import { createStreams } from '../ingest-stream.ts';
import type { StreamRooms } from '../ingest-stream.ts';
import { deferred } from '../kit/deferred.ts';
import { refusal } from '../refusals.ts';

const committed: Outcome = { kind: 'committed', rows: 1 };
const one = [{ op: 'insert', data: 1 }] as const;

async function listen(
  t: TestContext,
  rooms: Partial<StreamRooms> = {},
  options: TestListenerOptions = {},
): Promise<TestListener> {
  const server = await startListener({
    openStream: createStreams(streamRooms(rooms)),
    ...options,
    limits: { lingerMs: 500, drainMs: 2_000, ...options.limits },
  });
  onEnd(t, 'listener', () => server.close());
  return server;
}

async function open(t: TestContext, server: TestListener, table = 't', options: WsOptions = {}) {
  const client = await WsClient.open(`ws://127.0.0.1:${server.port}/ingest/dev/public/${table}`, options);
  onEnd(t, 'client', async () => void (await client.kill()));
  return client;
}

test('batches are acknowledged in order, with ids beyond 2^53, an empty one too', async (t) => {
  const rows: Rows[] = [];
  const server = await listen(t, {
    submit: (it) => {
      rows.push(it);
      return Promise.resolve({ kind: 'committed', rows: it.count });
    },
  });
  const client = await open(t, server);
  const ids = ['0', '7', '9007199254740992', '9007199254740993', '18446744073709551615'];
  for (const id of ids) client.send(id, id === '7' ? [] : [{ op: 'upsert', data: { id } }, ...one]);
  await client.acked(ids.length);
  assert.deepEqual(client.acks, ids);
  assert.deepEqual(
    rows.map(textsOf),
    ['0', ...ids.slice(2)].map((id) => [`{"id":"${id}"}`, '1']),
  );
  const answered = server.observations.filter((o) => o.kind === 'batch.answered');
  assert.deepEqual(
    answered.map((o) => [o.code, o.rows, o.table?.table]),
    ids.map((id) => ['committed', id === '7' ? 0 : 2, 't']),
  );
  const { code, fatal } = await client.close();
  assert.deepEqual([code, fatal], [1005, null]);
  const closed = await server.observed((o) => o.kind === 'websocket.closed');
  assert.ok(closed.kind === 'websocket.closed');
  assert.deepEqual([closed.code, closed.batches, closed.rows], ['closed', 5, 8]);
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('acks wait for the commits before them, and a refusal is the last word', async (t) => {
  const gates = [1, 2, 3, 4].map(() => deferred<Outcome>());
  const taken: Rows[] = [];
  const server = await listen(t, {
    submit: (rows) => (gates[taken.push(rows) - 1] ?? deferred<Outcome>()).promise,
  });
  const client = await open(t, server);
  for (const id of [1, 2, 3, 4]) client.send(id, one);
  while (taken.length < 4) await new Promise(setImmediate);
  gates[0]?.resolve(committed);
  await client.acked(1);
  gates[1]?.resolve({ kind: 'aborted', refusal: refusal('row_refused'), row: 0 });
  gates[2]?.resolve({ kind: 'aborted', refusal: refusal('engine_unavailable') });
  gates[3]?.resolve({ kind: 'aborted', refusal: refusal('engine_unavailable') });
  assert.deepEqual(await client.ended, {
    code: 1008,
    fatal: 'dml_batch_id 2 item 1: the row does not fit the table',
    acks: ['1'],
  });
});
