import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { int16, int32, message, zeroEnded } from '../kit/postgres-message.ts';
import { limits } from '../config/limits.ts';
import { ReplyGuard } from './reply-guard.ts';

const entered = Buffer.concat([
  message('R', int32(0)),
  message('S', zeroEnded('a'), zeroEnded('b')),
  message('Z', Buffer.from('I')),
]);
const row = message('D', int16(1), int32(3), Buffer.from('abc'));
const answer = Buffer.concat([
  message('T', int16(1), zeroEnded('a'), Buffer.alloc(18)),
  row,
  row,
  message('N', Buffer.from('S'), zeroEnded('NOTICE'), Buffer.from('M'), zeroEnded('x'), Buffer.alloc(1)),
  message('C', zeroEnded('SELECT 2')),
  message('Z', Buffer.from('I')),
]);

/** What a guard gives of the pieces. */
function given(asked: string | null, pieces: readonly Buffer[]): Buffer {
  const out: Buffer[] = [];
  const guard = new ReplyGuard((it) => out.push(Buffer.from(it)));
  // Pieces are the guard's own.
  guard.reads(Buffer.from(entered));
  if (asked !== null) guard.asks(asked);
  for (const piece of pieces) guard.reads(Buffer.from(piece));
  return Buffer.concat(out).subarray(entered.length);
}

test('the RisingWave reply guard passes whole catalog replies and no rows of others, however split', () => {
  const withoutRows = Buffer.concat([
    answer.subarray(0, answer.indexOf(row)),
    answer.subarray(answer.lastIndexOf(row) + row.length),
  ]);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (cuts) => {
      const pieces: Buffer[] = [];
      for (let at = 0, i = 0; at < answer.length; i++) {
        const size = cuts[i % cuts.length] ?? 1;
        pieces.push(answer.subarray(at, at + size));
        at += size;
      }
      assert.deepEqual(given('select 1', pieces), answer);
      assert.deepEqual(given('values (1)', pieces), withoutRows);
    }),
  );
});

test('the RisingWave reply guard ends the connection at a message that no RisingWave server sends', () => {
  const field = (text: string) => message('E', Buffer.from(text));
  const many = (count: number, it: Buffer) => Buffer.concat(Array<Buffer>(count).fill(it));
  const cases: Record<string, Buffer> = {
    'an error without an end': message('E'),
    'an error whose text has no end': field('Mx'),
    'an error with something behind it': field('Mx\0\0x'),
    'a length below that of the length': Buffer.from([0x43, 0, 0, 0, 3, 0]),
    'a length of four gigabytes': Buffer.from([0x45, 255, 255, 255, 255]),
    'columns without their number': message('T'),
    'more columns than were asked for': message('T', int16(17)),
    'passwords, again and again': many(4, message('R', int32(3))),
    'notices without end': many(limits.intoAnswerMessagesMax + 1, message('N', Buffer.from('Mx\0\0'))),
    'more than may be kept': message('S', Buffer.alloc(limits.intoAnswerBytesMax)),
  };
  for (const [name, bytes] of Object.entries(cases))
    assert.throws(() => given('select 1', [bytes]), Error, name);
});

test('the RisingWave reply guard accepts a returned value as large as the sent one', () => {
  const sql = `values ('${'x'.repeat(limits.intoAnswerBytesMax)}')`;
  assert.deepEqual(given(sql, [message('D', Buffer.alloc(sql.length)), entered]), entered);
  assert.throws(() => given(null, [message('D', Buffer.alloc(sql.length))]));
});

test('a RisingWave login refusal is reported once', () => {
  const out: Buffer[] = [];
  const guard = new ReplyGuard((it) => out.push(it));
  const no = message('E', Buffer.from('Mno\0\0'));
  assert.throws(() => guard.reads(Buffer.from(no)), /refused/);
  assert.deepEqual(Buffer.concat(out), no);
});
