import assert from 'node:assert/strict';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { targetOf } from '../../../test/support/rows.ts';
import type { FencedStream } from '../../ingest/stream-fence.ts';
import { deferred } from '../../kit/promises.ts';
import { limits } from '../../config/limits.ts';
import type { ListenerChild } from './child.ts';
import { Fence, Fences } from './fence.ts';

const target = targetOf();
const turns = async () => {
  for (let i = 0; i < 10; i++) await endOfTurn();
};

/** Whether a promise is resolved when everything that is ready has run. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => (done = true));
  await turns();
  return done;
}

suite('a fence of one process waits for its streams and lanes', () => {
  test('a fence of one process asks once for all waiting streams, and once more for later ones', async () => {
    const asked: number[] = [];
    const fence = new Fence((id) => asked.push(id));
    const first = fence.pass(target, null);
    const second = fence.pass(target, null);
    const third = fence.pass(target, null);
    await turns();
    assert.deepEqual(asked, [1]);
    fence.answered(1, true);
    await first;
    assert.equal(await isDone(second), false);
    assert.deepEqual(asked, [1, 2]);
    fence.answered(2, true);
    await Promise.all([second, third]);
    const fourth = fence.pass(target, null);
    assert.deepEqual(asked, [1, 2, 3]);
    fence.answered(3, false);
    await assert.rejects(fourth, /rows of an earlier connection are still being stored/);
  });

  test('a fence of one process settles after the streams and then the lane of its table', async () => {
    const fence = new Fence(() => undefined);
    const [ofStream, ofLane] = [deferred<void>(), deferred<void>()];
    const stream = (oid: number, settled: Promise<void>): FencedStream => ({
      target: { ...target, oid },
      client: null,
      decided: 0,
      settled: () => settled,
    });
    fence.streams.add(stream(target.oid, ofStream.promise));
    fence.streams.add(stream(target.oid + 1, deferred<void>().promise));
    let lanes = 0;
    const lane = {
      settled: () => {
        lanes += 1;
        return ofLane.promise;
      },
    };
    const settled = fence.settle({ ...target, client: null }, lane, () => undefined);
    assert.deepEqual([await isDone(settled), lanes], [false, 0]);
    ofStream.resolve();
    assert.deepEqual([await isDone(settled), lanes], [false, 1]);
    ofLane.resolve();
    await settled;
  });

  test('a fence of one process asks per client and waits for the streams of that client', async () => {
    const asked: (string | null)[] = [];
    const fence = new Fence((_id, { client }) => asked.push(client));
    for (const client of ['a', 'b', null, 'a']) void fence.pass(target, client);
    await turns();
    assert.deepEqual(asked, ['a', 'b', null]);
    const ofB = deferred<void>();
    for (const [client, settled] of [
      ['a', Promise.resolve()],
      ['b', ofB.promise],
    ] as const)
      fence.streams.add({ target, client, decided: 0, settled: () => settled });
    const lane = { settled: () => Promise.resolve() };
    await fence.settle({ ...target, client: 'a' }, lane, () => undefined);
    const settled = fence.settle({ ...target, client: null }, lane, () => undefined);
    assert.equal(await isDone(settled), false);
    ofB.resolve();
    await settled;
  });

  test('a fence of one process reports progress as long as there is some', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const fence = new Fence(() => undefined);
    const end = deferred<void>();
    const stream = { target, client: null, decided: 3, settled: () => end.promise };
    fence.streams.add(stream);
    let told = 0;
    const settled = fence.settle(
      { ...target, client: null },
      { settled: () => Promise.resolve() },
      () => told++,
    );
    await turns();
    t.mock.timers.tick(limits.fenceTellMs);
    assert.equal(told, 0);
    stream.decided = 4;
    t.mock.timers.tick(limits.fenceTellMs);
    t.mock.timers.tick(limits.fenceTellMs);
    assert.equal(told, 1);
    end.resolve();
    await settled;
  });
});

suite('a fence of all processes waits for each listener process', () => {
  const child = (settle: ListenerChild['settle'], commitName = 'x') =>
    ({ settle, commitName }) as unknown as ListenerChild;

  test('fences of all processes settle when the others have, and after rows of dead processes are stored', async () => {
    const left = new Map<string, ReturnType<typeof deferred<void>>>();
    const fences = new Fences((name) => {
      const ended = deferred<void>();
      left.set(name, ended);
      return ended.promise;
    });
    const gone = child(() => Promise.resolve('gone'), 'gone');
    const here = child(() => Promise.resolve('settled'), 'here');
    void fences.gone(child(() => Promise.resolve('gone'), 'before'));
    const settled = fences.settle({ ...target, client: null }, [here, gone]);
    assert.equal(await isDone(settled), false);
    left.get('gone')?.resolve();
    assert.equal(await isDone(settled), false);
    left.get('before')?.resolve();
    assert.equal(await settled, true);
    assert.deepEqual([...left.keys()], ['before', 'gone']);
  });

  test('fences of all processes do not settle while one process is late', async () => {
    const fences = new Fences(() => Promise.resolve());
    const late = child(() => Promise.resolve('late'));
    assert.equal(
      await fences.settle({ ...target, client: null }, [late, child(() => Promise.resolve('settled'))]),
      false,
    );
  });
});
