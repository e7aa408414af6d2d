import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { PreparedStatements, toStatement } from './prepared-statements.ts';

const statement = (i: number) => toStatement(`select ${i}`, []);

test('a commit connection prepares optional statements while there is room, then only those that recur soon', () => {
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

test('a full cache of prepared statements keeps used ones and evicts the least recently used', () => {
  const prepared = new PreparedStatements(3);
  const use = (...numbers: number[]) => {
    const fit = prepared.roomFor(numbers.map(statement), 5);
    const worth = numbers.filter((i) => fit.has(statement(i).name));
    prepared.prepare(worth.map(statement));
    prepared.succeeded();
    return worth;
  };
  assert.deepEqual(use(1, 2, 3), [1, 2, 3]);
  for (let turn = 0; turn < 4; turn++) assert.deepEqual(use(1, 2, 4), [1, 2]);
  assert.deepEqual(use(2, 4), [2], '3 has rested for four turns');
  assert.deepEqual(use(1, 2, 4), [1, 2, 4], 'and for five');
  assert.equal(prepared.size, 3);
  assert.deepEqual(use(1, 2, 3, 4), [1, 2, 4]);
  assert.deepEqual(use(5, 6, 7), []);
});
