import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonLine, plain } from './terminal.ts';

test('jsonLine() gives the same JSON value without characters on which a terminal acts', () => {
  const value = { name: '\u001b[31m\u007f\u0085\u009b2J\u061c\u200b\u2028\u202e\u2066\ufeff é 中 😀\n' };
  const line = jsonLine(value);
  assert.equal(line, `${line.trimEnd()}\n`);
  assert.equal(plain(line.trimEnd()), line.trimEnd());
  assert.deepEqual(JSON.parse(line), value);
});
