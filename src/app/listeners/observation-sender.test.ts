import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Observation } from '../../observe/observations.ts';
import type { FromListener } from './messages.ts';
import { ObservationSender } from './service.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const started = (pid: number): Observation => ({ kind: 'listener.started', pid, seconds: 0 });

function sent(waitingMax: number) {
  const messages: FromListener[] = [];
  const written: (() => void)[] = [];
  const saying = new ObservationSender((message, done) => {
    messages.push(JSON.parse(JSON.stringify(message)) as FromListener);
    written.push(done);
  }, waitingMax);
  return { saying, messages, written };
}

test('observations of one event-loop turn are sent as one message, in order, as plain values', async () => {
  const { saying, messages } = sent(10);
  const table = { database: 'd', schema: 's', table: 't', check: () => true, oid: 1n };
  saying.say({ kind: 'values.nulled', table, values: 2 });
  saying.say({ kind: 'request.failed', requestId: 'r', error: new Error('a', { cause: 'b' }) });
  await turn();
  const [message, ...more] = messages;
  assert.deepEqual(more, []);
  assert.ok(message?.kind === 'said');
  const [nulled, failed] = message.observations;
  const name = { database: 'd', schema: 's', table: 't' };
  assert.deepEqual(nulled, { kind: 'values.nulled', table: name, values: 2 });
  assert.ok(failed?.kind === 'request.failed');
  assert.match(String(failed.error), /^Error: a\n[^]*caused by b$/);
});

test('observations wait in a bounded queue while the channel is full, and dropped ones are counted', async () => {
  const { saying, messages, written } = sent(3);
  saying.say(started(0));
  await turn();
  for (let pid = 1; pid <= 5; pid++) saying.say(started(pid));
  await turn();
  assert.equal(messages.length, 1);
  written[0]?.();
  await turn();
  assert.deepEqual(messages[1], {
    kind: 'said',
    observations: [
      started(1),
      started(2),
      started(3),
      { kind: 'listener.said', line: '2 observations were left out' },
    ],
  });
  written[1]?.();
  saying.say(started(6));
  await turn();
  assert.equal(messages.length, 3);
});
