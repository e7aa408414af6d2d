import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../tables/limits.ts';
import { PreparedStatements, toStatement } from './prepared.ts';

const statement = (i: number) => toStatement(`select ${i}`, []);

test('what can be done without is prepared while there is room, then only what comes again soon', () => {
  const prepared = new PreparedStatements();
  const prepare = (i: number) => {
    prepared.prepare([statement(i)]);
    prepared.succeeded();
  };
  const max = limits.commitStatementsMax;
  for (let i = 0; i < max; i++) {
    assert.ok(prepared.isWorthwhile(statement(i)));
    prepare(i);
  }
  assert.ok(prepared.isWorthwhile(statement(0)), 'it is there');
  // Very many in turn, again and again.
  for (let i = max; i < 10 * max; i++) assert.ok(!prepared.isWorthwhile(statement(i)), `${i}`);
  for (let i = max; i < 10 * max; i++) assert.ok(!prepared.isWorthwhile(statement(i)), `${i} again`);
  // One that comes more often than they do.
  assert.ok(!prepared.isWorthwhile(statement(-1)));
  assert.ok(!prepared.isWorthwhile(statement(-2)));
  assert.ok(prepared.isWorthwhile(statement(-1)));
  prepare(-1);
  assert.equal(prepared.size, max);
  assert.ok(prepared.isWorthwhile(statement(-1)));
});
