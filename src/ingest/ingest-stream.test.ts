import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { testStreams, textsOf } from '../../test/support/streams.ts';
import type { TestStreams } from '../../test/support/streams.ts';
import { targetOf } from '../../test/support/rows.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { StreamBatch, Stream } from './ingest-stream.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';

const opening = {
  method: 'GET',
  target: '/ingest/dev/public/t',
  rawHeaders: ['Host', 'h'],
  arrivedAtMs: 0,
  body: Buffer.from('init'),
};
const hooks = { target: () => undefined };

function batch(text: string, deletes: readonly number[] = [0]): StreamBatch {
  const bytes = Buffer.from(text);
  const deleted = deletes.includes(1) ? Uint8Array.from(deletes) : null;
  return {
    documents: { bytes, spans: Uint32Array.from([0, bytes.length]) },
    deletes: deleted,
    arrivedAtMs: 1,
  };
}

const aborted = (code: RefusalCode): Outcome => ({ kind: 'aborted', refusal: refusal(code) });
const unknown: Outcome = { kind: 'unknown', refusal: refusal('commit_unknown') };
const committed: Outcome = { kind: 'committed', rows: 1 };
const someTarget = targetOf();
const say = (outcome: Outcome) =>
  outcome.kind === 'committed' ? 'committed' : `${outcome.kind} ${outcome.refusal.code}`;

interface Handed {
  readonly text: string;
  readonly rows: Rows;
  readonly receipt: Deferred<Outcome>;
}

/** A lane whose receipts the test settles. */
class Lane {
  readonly handed: Handed[] = [];
  #wake: () => void = () => undefined;

  submit = (rows: Rows): Promise<Outcome> => {
    const receipt = deferred<Outcome>();
    this.handed.push({ text: textsOf(rows).join(), rows, receipt });
    this.#wake();
    return receipt.promise;
  };

  async taken(count: number): Promise<readonly Handed[]> {
    while (this.handed.length < count) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.handed;
  }

  settle(...outcomes: readonly Outcome[]): void {
    outcomes.forEach((outcome, i) => this.handed[i]?.receipt.resolve(outcome));
  }
}

async function open(deps: Partial<TestStreams>): Promise<Stream> {
  return testStreams({ pause: () => Promise.resolve(), ...deps }).open(opening, hooks);
}

suite('an ingest stream submits the batches of one WebSocket', () => {
  test('an ingest stream submits batches before the earlier ones are committed, in one chain', async () => {
    const lane = new Lane();
    const stream = await open({ submit: lane.submit });
    const answers = ['1', '2', '3'].map((text) => stream.submit(batch(text)));
    const handed = await lane.taken(3);
    assert.deepEqual(
      handed.map(({ text }) => text),
      ['1', '2', '3'],
    );
    assert.ok(handed[0]?.rows.chain !== null);
    assert.ok(handed.every(({ rows }) => rows.chain === handed[0]?.rows.chain));
    lane.settle(committed, committed, committed);
    assert.deepEqual((await Promise.all(answers)).map(say), ['committed', 'committed', 'committed']);
    const late = stream.submit(batch('4'));
    (await lane.taken(4))[3]?.receipt.resolve(committed);
    assert.equal(say(await late), 'committed');
  });

  test('an ingest stream starts a new chain with the first uncommitted batch once no receipt is owed', async () => {
    for (const code of ['table_changed', 'lane_full', 'engine_unavailable', 'deadline'] as const) {
      const lane = new Lane();
      const refreshed: string[] = [];
      const stream = await open({
        submit: lane.submit,
        refresh: async ({ database }) => void refreshed.push(database),
      });
      const answers = ['1', '2', '3'].map((text) => stream.submit(batch(text)));
      await lane.taken(3);
      lane.settle(committed, aborted(code));
      await new Promise(setImmediate);
      assert.equal(lane.handed.length, 3, 'a receipt is owed');
      assert.equal(lane.handed[2]?.rows.chain?.broken, true);
      lane.settle(committed, aborted(code), aborted('engine_unavailable'));
      const handed = await lane.taken(5);
      assert.deepEqual(
        handed.slice(3).map(({ text }) => text),
        ['2', '3'],
      );
      assert.deepEqual(refreshed, code === 'table_changed' ? ['dev'] : []);
      assert.equal(handed[3]?.rows.chain?.broken, false);
      handed.slice(3).forEach(({ receipt }) => receipt.resolve(committed));
      assert.deepEqual((await Promise.all(answers)).map(say), ['committed', 'committed', 'committed']);
    }
  });

  test('an ingest stream ends with the first batch refused for good, after the earlier answers', async () => {
    for (const failure of [aborted('row_refused'), aborted('draining'), aborted('body_not_json'), unknown]) {
      const lane = new Lane();
      const stream = await open({ submit: lane.submit });
      const answers = ['1', '2', '3'].map((text) => stream.submit(batch(text)));
      await lane.taken(3);
      lane.settle(committed, failure, aborted('engine_unavailable'));
      assert.equal(say((await answers[0]) ?? unknown), 'committed');
      assert.deepEqual(await answers[1], failure);
      void stream.submit(batch('4'));
      await new Promise(setImmediate);
      assert.equal(lane.handed.length, 3);
    }
  });

  test('an undecodable WebSocket batch is refused in its turn and does not affect earlier batches', async () => {
    const lane = new Lane();
    const stream = await open({ submit: lane.submit });
    const answers = ['1', '2', '{', '4'].map((text) => stream.submit(batch(text)));
    await lane.taken(2);
    await new Promise(setImmediate);
    assert.equal(lane.handed[0]?.rows.chain?.broken, false, 'those before it go their way');
    // The one before it fails, and is tried again with it.
    lane.settle(committed, aborted('engine_unavailable'));
    const handed = await lane.taken(3);
    assert.equal(handed[2]?.text, '2');
    handed[2]?.receipt.resolve(committed);
    assert.equal(say((await answers[1]) ?? unknown), 'committed');
    const refused = await answers[2];
    assert.ok(refused?.kind === 'aborted');
    assert.match(refused.refusal.message, /^item 1: failed to decode webhook JSON payload: /);
    assert.equal(lane.handed.length, 3);
  });

  test('an ingest stream rejects on an internal error and submits nothing after it', async () => {
    const stream = await open({
      admit: () => {
        throw new TypeError('a bug');
      },
    });
    await assert.rejects(stream.submit(batch('1')), /a bug/);
  });

  test('an ingest stream refuses a delete without a key', async () => {
    const stream = await open({});
    const refused = await stream.submit(batch('1', [1]));
    assert.ok(refused.kind === 'aborted');
    assert.equal(refused.refusal.message, 'item 1: delete needs a PRIMARY KEY that requests fill');
    const keyed = await testStreams().open({ ...opening, target: '/ingest/a/b/keyed' }, hooks);
    assert.equal(say(await keyed.submit(batch('1', [1]))), 'committed');
  });

  test('an ingest stream waits for a bounded time while nothing can be submitted', async (t) => {
    t.mock.method(Math, 'random', () => 0);
    let now = 0;
    const pauses: number[] = [];
    let full = 5;
    const stream = await open({
      clock: () => now,
      pause: async (ms) => {
        pauses.push(ms);
        now += ms;
      },
      admit: () => {
        if (full-- > 0) throw new Refused('lane_full');
      },
    });
    assert.equal(say(await stream.submit(batch('1'))), 'committed');
    assert.deepEqual(pauses, [10, 10, 10, 10, 10]);
    const away = await open({
      clock: () => now,
      pause: async (ms) => void (now += ms),
      submit: () => Promise.resolve(aborted('engine_unavailable')),
    });
    const started = now;
    assert.equal(say(await away.submit(batch('1'))), 'aborted engine_unavailable');
    assert.ok(now - started >= 30_000 && now - started < 31_000);
  });

  test('an ingest stream checks its first frame again for a changed table', async () => {
    const seen: string[] = [];
    const accepting = targetOf({ check: ({ body }) => seen.push(String(body)) > 0 });
    let target: Target = accepting;
    const stream = await open({ find: () => target });
    assert.equal(say(await stream.submit(batch('1'))), 'committed');
    target = targetOf({
      check: (request) => accepting.check !== 'unusable' && seen.push(request.method) > 0,
    });
    assert.equal(say(await stream.submit(batch('2'))), 'committed');
    assert.equal(say(await stream.submit(batch('3'))), 'committed');
    assert.deepEqual(seen, ['init', 'GET']);
    target = targetOf({ check: () => false });
    assert.equal(say(await stream.submit(batch('4'))), 'aborted signature_failed');
    await assert.rejects(
      open({ find: () => targetOf({ check: () => false }) }),
      /Signature verification failed/,
    );
    await assert.rejects(open({ find: () => targetOf({ check: 'unusable' }) }), /cannot accept/);
  });

  test('an ended ingest stream submits nothing', async () => {
    const lane = new Lane();
    const gate = deferred<void>();
    const stream = await open({ submit: lane.submit, pause: () => gate.promise });
    void stream.submit(batch('1'));
    await lane.taken(1);
    lane.settle(aborted('engine_unavailable'));
    await new Promise(setImmediate);
    stream.end();
    gate.resolve();
    await new Promise(setImmediate);
    assert.equal(lane.handed.length, 1);
  });

  test('an ingest stream on any lane that keeps chain order stores each batch once, in order', async () => {
    const step = fc.constantFrom('commit', 'commit', 'commit', 'abort', 'full', 'away', 'lose');
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.boolean(), { maxLength: 30 }),
        async (steps, count, gaps) => {
          const stored: string[] = [];
          const told: string[] = [];
          const perhaps: string[] = [];
          let turn = 0;
          const queue: { rows: Rows; receipt: Deferred<Outcome> }[] = [];
          let scheduled = false;
          const run = () => {
            scheduled = false;
            const next = queue.shift();
            if (next === undefined) return;
            const what = steps[turn++ % steps.length];
            const { rows, receipt } = next;
            const chain = rows.chain ?? { broken: true };
            const fail = (outcome: Outcome) => {
              chain.broken = true;
              receipt.resolve(outcome);
            };
            if (chain.broken) fail(aborted('engine_unavailable'));
            else if (what === 'commit') {
              stored.push(...textsOf(rows));
              receipt.resolve(committed);
            } else if (what === 'lose') {
              perhaps.push(...textsOf(rows));
              fail(unknown);
            } else if (what === 'abort') fail(aborted('row_refused'));
            else fail(aborted(what === 'full' ? 'lane_full' : 'table_changed'));
            if (queue.length > 0) schedule();
          };
          const schedule = () => {
            if (scheduled) return;
            scheduled = true;
            setImmediate(run);
          };
          let now = 0;
          const stream = await open({
            clock: () => (now += 500),
            find: gaps.length > 5 ? async () => someTarget : () => someTarget,
            submit: (rows) => {
              if (rows.chain?.broken === true) return Promise.resolve(aborted('engine_unavailable'));
              const receipt = deferred<Outcome>();
              queue.push({ rows, receipt });
              schedule();
              return receipt.promise;
            },
          });
          let ended = false;
          const end = deferred<void>();
          for (let i = 0; i < count; i++) {
            const last = i === count - 1;
            void stream.submit(batch(String(i))).then((outcome) => {
              assert.equal(ended, false, 'nothing is answered behind a refusal');
              if (outcome.kind === 'committed') told.push(String(i));
              else ended = true;
              if (ended || last) end.resolve();
            });
            if (gaps[i] === true) await new Promise(setImmediate);
          }
          await end.promise;
          const all = Array.from({ length: count }, (_, i) => String(i));
          assert.deepEqual(stored, all.slice(0, stored.length));
          assert.deepEqual(told, stored);
          assert.ok(perhaps.length <= 1 && !stored.includes(perhaps[0] ?? ''));
        },
      ),
      { numRuns: 300 },
    );
  });
});
