import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { LoginBackoff } from './login-backoff.ts';

test('after five wrong passwords in a minute those of one name and network are looked at a second apart', () => {
  const passwords = new LoginBackoff(limits);
  const wait = (nowMs: number, user = 'ann', network = '192.0.2.1') => passwords.waitMs(user, network, nowMs);
  for (let i = 0; i < 5; i++) {
    assert.equal(wait(i), 0);
    passwords.wrong('ann', '192.0.2.1', i);
  }
  assert.deepEqual([wait(4), wait(4), wait(1_000)], [1_000, 2_000, 2_004]);
  for (const [user, network] of [
    ['bob', '192.0.2.1'],
    ['ann', '192.0.2.2'],
  ] as const)
    // prettier-ignore
    assert.equal(wait(4, user, network), 0);
  // Those that come at one time form a line, whose end is refused.
  const waits = Array.from({ length: 20 }, () => wait(1_000));
  assert.deepEqual(waits.filter((ms) => ms !== null), [3_004, 4_004, 5_004, 6_004, 7_004, 8_004, 9_004]); // prettier-ignore
  assert.equal(wait(60_000), 0, 'a minute after the first of the last five');
});

test('wrong passwords are remembered of so many names and networks, the latest', () => {
  const passwords = new LoginBackoff(limits);
  for (let i = 0; i < 5; i++) passwords.wrong('ann', 'n', 0);
  for (let i = 0; i < limits.sqlWrongPasswordNamesMax; i++) passwords.wrong(`u${i}`, 'n', 0);
  assert.equal(passwords.waitMs('ann', 'n', 0), 0);
});
