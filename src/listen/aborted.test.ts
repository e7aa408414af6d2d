import assert from 'node:assert/strict';
import { test } from '../../test/support/both-paths.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { deferred } from '../kit/promises.ts';

const path = '/webhook/dev/public/t';

test('requests whose senders disconnect during the table lookup are ended, with whole and partial bodies', async (t) => {
  const found = deferred<void>();
  let asked = 0;
  const server = await startListener({
    found: () => {
      asked += 1;
      return found.promise;
    },
  });
  t.after(() => server.close());
  const requests = [post(path, '{"n":1}'), post(path, 'x'.repeat(1000)).slice(0, -500)];
  const senders = await Promise.all(requests.map(() => RawClient.connect(server.port)));
  for (const [i, sender] of senders.entries()) sender.send(requests[i] ?? '');
  while (asked < senders.length) await new Promise(setImmediate);
  for (const sender of senders) sender.reset();
  while (server.listener.load.connections > 0) await new Promise(setImmediate);
  found.resolve();
  const answered = () => server.observations.filter((it) => it.kind === 'request.answered');
  while (answered().length < senders.length) await new Promise(setImmediate);
  assert.deepEqual(
    answered().map((it) => it.kind === 'request.answered' && it.code),
    ['request_aborted', 'request_aborted'],
  );
  assert.equal(server.listener.load.bytesInFlight, 0);
  assert.deepEqual(server.bodies, []);
});
