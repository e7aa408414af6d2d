import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { targetOf } from '../../test/support/rows.ts';
import { deferred } from '../kit/promises.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { OwnerScheduler } from './owner-scheduler.ts';

const { ackDeadlineMs, commitStatementTimeoutMs, slowGroupMs, slowOwnerMs } = limits;
const spareMs = ackDeadlineMs - commitStatementTimeoutMs;

/** Groups are named by their owner's letter, a capital if its tables run code, and a number. The clock is moved by hand; `connections` may be changed. */
function room(t: TestContext, connections = 8) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const at = { now: 1, connections };
  const turns = new OwnerScheduler({ sizeOf: () => at.connections }, { clock: () => at.now, limits });
  const begun: string[] = [];
  const late: string[] = [];
  const ends = new Map<string, () => void>();
  const told = () => new Promise<void>((resolve) => setImmediate(resolve));
  const targetNamed = (name: string): Target => {
    const as = /^[A-Z]/.test(name) ? 'owner' : 'writer';
    return targetOf({ code: { ...targetOf().code, owner: name.charCodeAt(0), as } });
  };
  const send = (names: string, ackTimeoutMs: number = ackDeadlineMs) => {
    for (const name of names.split(' ')) {
      const target = targetNamed(name);
      turns.note(target);
      const run = async () => {
        if (!(await turns.turn(target, ackTimeoutMs))) return void late.push(name);
        const started = at.now;
        const end = deferred<void>();
        begun.push(name);
        ends.set(name, () => end.resolve());
        await end.promise;
        turns.end(target, at.now - started);
      };
      void run();
    }
  };
  return {
    at,
    turns,
    send,
    /** What has begun, or was too late, since it was asked last. */
    begun: async () => {
      await told();
      return begun.splice(0).join(' ');
    },
    late: async () => {
      await told();
      return late.splice(0).join(' ');
    },
    end: async (names: string) => {
      await told();
      for (const name of names.split(' ')) {
        ends.get(name)?.();
        await told();
      }
    },
    pass: async (ms: number) => {
      await told();
      at.now += ms;
      t.mock.timers.tick(ms);
    },
  };
}

suite('the owner scheduler gives owners their turns', () => {
  test('groups without code and groups of tables with code have separate turns and do not wait for each other', async (t) => {
    const { send, begun, end } = room(t, 2);
    send('A1 B1 C1 D1');
    assert.equal(await begun(), 'A1 B1');
    send('a1 a2 b1 b2');
    assert.equal(await begun(), 'a1 a2');
    await end('a1');
    assert.equal(await begun(), 'b1');
    await end('A1');
    assert.equal(await begun(), 'C1');
  });

  test('the owner scheduler gives a single owner all connections and starts its groups in order', async (t) => {
    const { send, begun, end } = room(t, 3);
    send('a1 a2 a3 a4 a5');
    assert.equal(await begun(), 'a1 a2 a3');
    await end('a2');
    assert.equal(await begun(), 'a4');
    await end('a1');
    assert.equal(await begun(), 'a5');
  });

  test('the owner scheduler reserves the last connections for owners without one', async (t) => {
    const { send, begun, end } = room(t);
    send('b1');
    await end('b1');
    send('a1 a2 a3 a4 a5 a6 a7 a8');
    assert.equal(await begun(), 'b1 a1 a2 a3 a4 a5 a6');
    send('b2 b3 c1 d1');
    assert.equal(await begun(), 'b2 c1');
    await end('b2');
    assert.equal(await begun(), 'b3');
    await end('c1');
    assert.equal(await begun(), 'd1');
    await end('d1 a1');
    assert.equal(await begun(), '', 'six are left');
    await end('b3');
    assert.equal(await begun(), 'a7');
  });

  test('the owner scheduler hands out connections to owners in turn', async (t) => {
    const { send, begun, end } = room(t, 2);
    send('c0');
    await end('c0');
    send('a1 b1 a2 a3 b2 c1 c2');
    assert.equal(await begun(), 'c0 a1 b1');
    for (const [ended, next] of ['a1 a2', 'b1 b2', 'a2 c1', 'b2 a3', 'c1 c2'].map((it) => it.split(' '))) {
      await end(ended ?? '');
      assert.equal(await begun(), next);
    }
  });

  test('the owner scheduler divides the connections for slow owners equally', async (t) => {
    const { send, begun, end, pass } = room(t);
    send('a0 b0 c0');
    await pass(slowGroupMs + 1);
    await end('a0 b0 c0');
    await begun();
    send('a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 e1');
    assert.equal(await begun(), 'a1 a2 b1 b2 c1 c2 d1 e1');
    await end('a1');
    assert.equal(await begun(), '', 'seven are at work');
    await end('d1 e1');
    assert.equal(await begun(), 'd2');
  });

  test('the owner scheduler treats an owner as slow for a while only, and gives it half of the unreserved connections', async (t) => {
    const { send, begun, end, pass } = room(t);
    send('b0 a0');
    await end('b0');
    await pass(slowGroupMs + 1);
    await end('a0');
    await begun();
    send('a1 a2 a3 a4 a5');
    assert.equal(await begun(), 'a1 a2 a3');
    await end('a1 a2 a3');
    assert.equal(await begun(), 'a4 a5');
    await end('a4 a5');
    await pass(slowOwnerMs);
    send('a6 a7 a8 a9 aa ab ac');
    assert.equal(await begun(), 'a6 a7 a8 a9 aa ab');
  });

  test("the owner scheduler refuses a quick owner's group late in its time, and a slow owner's group early", async (t) => {
    const { send, begun, late, end, pass } = room(t, 1);
    send('b0');
    await end('b0');
    send('a1');
    await pass(slowGroupMs + 1);
    await end('a1');
    send('b1');
    assert.equal(await begun(), 'b0 a1 b1');
    send('a2 c1');
    await pass(spareMs - 1);
    assert.equal(await late(), '');
    await pass(1);
    assert.equal(await late(), 'a2');
    await pass(commitStatementTimeoutMs - spareMs);
    assert.equal(await late(), 'c1');
    await end('b1');
    assert.equal(await begun(), '');
    send('c2');
    assert.equal(await begun(), 'c2', 'nobody is in its way any more');
  });

  test('the owner scheduler treats an owner of very large groups as slow from its first group', async (t) => {
    const { send, begun } = room(t);
    send('b1');
    send('a1 a2 a3 a4', 20_000);
    assert.equal(await begun(), 'b1 a1 a2 a3');
  });

  test('the owner scheduler gives each owner a connection even if there are few, and follows a falling number', async (t) => {
    const { at, send, begun, end } = room(t, 2);
    send('c0');
    await end('c0');
    send('a1 a2 b1 c1');
    assert.equal(await begun(), 'c0 a1 b1');
    at.connections = 1;
    await end('a1');
    assert.equal(await begun(), '');
    await end('b1');
    assert.equal(await begun(), 'a2');
    await end('a2');
    assert.equal(await begun(), 'c1');
  });

  test('the owner scheduler takes a connection back from a group that never had one', async (t) => {
    const { turns, send, begun } = room(t, 1);
    const target = targetOf();
    assert(await turns.turn(target, ackDeadlineMs));
    send('a1');
    assert.equal(await begun(), '');
    turns.end(target, null);
    assert.equal(await begun(), 'a1');
  });
});
