/** Spans on their way, with receivers that are slow, away, overwhelmed or refuse: what is sent, what is dropped, and that nothing else is held. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { limits } from '../config/limits.ts';
import type { Observation } from '../observe/observations.ts';
import { deferred } from '../kit/promises.ts';
import { SpanQueue } from './span-queue.ts';
import type { Sent } from './otlp.ts';
import { until } from '../../test/support/until.ts';

type Post = (spans: readonly number[], signal: AbortSignal) => Promise<Sent>;

const accepted: Sent = { kind: 'accepted', rejected: 0 };

function queueOf(
  t: TestContext,
  post: Post,
  more: { readonly scheduleMs?: number; readonly farewellMs?: number } = {},
) {
  const said: Observation[] = [];
  const messages: (readonly number[])[] = [];
  const queue = new SpanQueue({
    receiver: {
      post: (text, signal) => {
        const read = JSON.parse(text) as { resourceSpans: [{ scopeSpans: [{ spans: number[] }] }] };
        const { spans } = read.resourceSpans[0].scopeSpans[0];
        messages.push(spans);
        return post(spans, signal);
      },
      resource: '{}',
      scope: '{}',
    },
    scheduleMs: more.scheduleMs ?? 1,
    observe: (it) => said.push(it),
    clock: () => performance.now(),
    random: () => 0,
    limits: {
      ...limits,
      telemetryRetryMinMs: 1,
      telemetryRetryMs: 2,
      telemetryFarewellMs: more.farewellMs ?? 2_000,
    },
  });
  t.after(() => queue.close());
  const count = (kind: 'spans.sent' | 'spans.dropped', why?: string) =>
    said.reduce(
      (sum, it) =>
        sum + (it.kind === kind && (why === undefined || ('why' in it && it.why === why)) ? it.spans : 0),
      0,
    );
  return { queue, messages, count };
}

const fill = (queue: SpanQueue, count: number, first = 0): void => {
  for (let i = 0; i < count; i++) queue.push(String(first + i));
};

suite('the span queue sends spans to the OTLP receiver', () => {
  test('the span queue sends spans after a while, or 512 at once', async (t) => {
    const { queue, messages, count } = queueOf(t, async () => accepted, { scheduleMs: 3_600_000 });
    fill(queue, 511);
    assert.equal(messages.length, 0);
    fill(queue, 1, 511);
    await until(() => count('spans.sent') === 512);
    assert.deepEqual(
      messages.map((it) => it.length),
      [512],
    );
    const soon = queueOf(t, async () => accepted);
    fill(soon.queue, 3);
    await until(() => soon.count('spans.sent') === 3);
  });

  test('the span queue holds 2,048 spans for a hanging receiver, drops and counts the rest, and closes in time', async (t) => {
    const hangs = queueOf(
      t,
      (_, signal) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => resolve({ kind: 'later', afterMs: null })),
        ),
      { farewellMs: 20 },
    );
    fill(hangs.queue, 10_000);
    assert.equal(hangs.queue.size, 2_048);
    const beganMs = performance.now();
    await hangs.queue.close();
    assert.ok(performance.now() - beganMs < 2_000);
    assert.equal(hangs.count('spans.dropped', 'queue'), 10_000 - 2_048);
    assert.equal(hangs.count('spans.dropped', 'stopped'), 2_048);
    assert.equal(hangs.queue.size, 0);
    assert.equal(hangs.messages.length, 1, 'one message at a time');
  });

  test('the span queue sends spans again later, in order, if the receiver is away or asks for a pause', async (t) => {
    let tries = 0;
    const later = queueOf(t, async () =>
      ++tries < 5 ? { kind: 'later', afterMs: tries === 3 ? 0 : null } : accepted,
    );
    fill(later.queue, 600);
    await until(() => tries >= 5);
    fill(later.queue, 500, 600);
    await until(() => later.count('spans.sent') === 1_100);
    assert.deepEqual(
      later.messages.slice(4).flat(),
      Array.from({ length: 1_100 }, (_, i) => i),
    );
    assert.equal(later.count('spans.dropped'), 0);
  });

  test('a 413 of the OTLP receiver halves the message, down to one span that is too large, which is counted', async (t) => {
    const small = queueOf(t, async (spans) =>
      spans.length > 100 || spans.includes(7) ? { kind: 'too large' } : accepted,
    );
    fill(small.queue, 512);
    await until(() => small.count('spans.sent') + small.count('spans.dropped') === 512);
    assert.equal(small.count('spans.dropped', 'refused'), 1);
    const refuses = queueOf(t, async () => ({ kind: 'refused' }));
    fill(refuses.queue, 512);
    await until(() => refuses.count('spans.dropped', 'refused') === 512);
    assert.equal(refuses.messages.length, 1);
    const partly = queueOf(t, async () => ({ kind: 'accepted', rejected: 12 }));
    fill(partly.queue, 512);
    await until(() => partly.count('spans.sent') === 500 && partly.count('spans.dropped', 'refused') === 12);
  });

  test('the span queue sends its remaining spans when it closes, also those added during a send', async (t) => {
    const first = deferred<Sent>();
    let messages = 0;
    const { queue, count } = queueOf(
      t,
      () => (++messages === 1 ? first.promise : Promise.resolve(accepted)),
      { scheduleMs: 3_600_000 },
    );
    fill(queue, 700);
    const closed = queue.close();
    fill(queue, 20, 700);
    first.resolve(accepted);
    await closed;
    assert.equal(count('spans.sent'), 720);
    queue.push('0');
    assert.equal(count('spans.dropped', 'queue'), 1, 'nothing is held after the end');
  });
});
