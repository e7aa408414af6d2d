/** Work that thousands of connections have at one time is done in several turns of the event loop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { PerTurn } from './event-loop.ts';

test('work of many connections runs in order, each once, a bounded number in one turn', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.record({ burst: fc.nat(20), follow: fc.boolean() }), { maxLength: 20 }),
      (perTurnMax, turns) => {
        const nextTurn: (() => void)[] = [];
        const perTurn = new PerTurn(perTurnMax, (run) => void nextTurn.push(run));
        const ran: number[] = [];
        let given = 0;
        let inThisTurn = 0;
        const add = (follow: boolean) => {
          const n = given++;
          perTurn.run(() => {
            ran.push(n);
            inThisTurn += 1;
            if (follow) add(false);
          });
        };
        const turn = () => {
          inThisTurn = 0;
          assert.ok(nextTurn.length <= 1, 'one turn is asked for at a time');
          nextTurn.shift()?.();
        };
        for (const { burst, follow } of turns) {
          turn();
          for (let i = 0; i < burst; i++) add(follow);
          assert.ok(inThisTurn <= perTurnMax);
          if (burst > 0) assert.equal(nextTurn.length, 1);
        }
        while (nextTurn.length > 0) {
          turn();
          assert.ok(inThisTurn <= perTurnMax);
        }
        assert.deepEqual(ran, [...Array(given).keys()]);
      },
    ),
  );
});
