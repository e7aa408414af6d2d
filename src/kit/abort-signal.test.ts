import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { abortAfter, abortWith } from './abort-signal.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('a signal that aborts after a time does so although garbage is collected meanwhile', async () => {
  const never = new AbortController().signal;
  const aborted = Array.from(
    { length: 20 },
    () =>
      new Promise<string>((resolve) => {
        const signal = abortAfter(300, never);
        signal.addEventListener('abort', () => resolve((signal.reason as Error).name), { once: true });
      }),
  );
  for (let round = 0; round < 5; round++) {
    await delay(10);
    collectGarbage();
  }
  // The timers of signals do not keep the process alive, and those that are lost never come.
  const late = delay(5_000, ['late']);
  assert.deepEqual(new Set(await Promise.race([Promise.all(aborted), late])), new Set(['TimeoutError']));
});

test('a signal that aborts after a time aborts sooner with another one', () => {
  const sooner = new AbortController();
  const signal = abortAfter(60_000, sooner.signal);
  assert.equal(signal.aborted, false);
  sooner.abort();
  assert.equal(signal.aborted, true);
});

test('a signal of several controllers aborts with the first of them', () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const signal = abortWith(one.signal, other.signal);
  assert.equal(signal.aborted, false);
  other.abort('enough');
  assert.equal(signal.reason, 'enough');
});
