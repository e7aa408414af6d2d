import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ModelFiles } from '../../test/support/model-files.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { Refused } from '../tables/refusals.ts';
import { DatabaseSpool } from './database-spool.ts';
import { decodeTable } from './kept-request.ts';
import { beginning } from './spool.ts';

const hour = 3_600_000;

async function opened(files: ModelFiles, now: { ms: number }, bytesFree = () => Infinity) {
  const kept = await DatabaseSpool.open({
    database: 'dev',
    folder: 'root/dev',
    files,
    ring: fixedKeys(Buffer.alloc(32, 7)),
    segmentBytes: 4_096,
    bytesLeft: () => Infinity,
    bytesFree,
    random: randomBytes,
    clock: () => now.ms,
    nowMs: () => now.ms,
    ageMsMax: 72 * hour,
    observe: () => undefined,
  });
  kept.home = 'server, 5';
  return kept;
}

const named = (table: string, oid = 7) => ({ database: 'dev', schema: 'public', table, oid });
const refusedAs = (code: string) => (error: unknown) =>
  error instanceof Refused && error.refusal.code === code;

test('a table that has spooled for too long takes no more, and nothing of it is dropped', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const kept = await opened(files, now);
  const gate = kept.gateOf(7);
  gate.fill(now.ms);
  await kept.append(named('t'), gate, Buffer.from('first'));
  now.ms += 72 * hour;
  await kept.append(named('t'), gate, Buffer.from('last'));
  now.ms += 1;
  assert.throws(() => kept.admit(gate), refusedAs('spool_full'));
  await assert.rejects(kept.append(named('t'), gate, Buffer.from('more')), refusedAs('spool_full'));
  await kept.close();
  // The next process knows since when, and has all of it.
  const next = await opened(files.copy(), now);
  assert.throws(() => next.admit(next.gateOf(7)), refusedAs('spool_full'));
  const texts: string[] = [];
  for (const spool of next.spools)
    for await (const { payload } of spool.requests(beginning, () => true)) texts.push(payload.toString());
  assert.deepEqual(texts, ['first', 'last']);
});

test('no table takes the room of all others', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const bytesMax = 64 * 1_024;
  const kept: DatabaseSpool = await opened(files, now, () => bytesMax - kept.bytesUsed);
  const body = Buffer.alloc(400, 'x');
  const flood = async (oid: number) => {
    const gate = kept.gateOf(oid);
    let taken = 0;
    for (; ; taken += body.length) {
      // What stands in the files is counted now and then.
      now.ms += 1_000;
      try {
        kept.admit(gate);
        await kept.append(named(`t${oid}`, oid), gate, body);
      } catch (error) {
        assert(refusedAs('spool_full')(error));
        return taken / bytesMax;
      }
    }
  };
  const [first, second, third] = [await flood(7), await flood(8), await flood(9)];
  assert(first > 0.6 && first < 0.76, String(first));
  assert(second > 0.12 && second < 0.2, String(second));
  assert(third > 0.02 && third < 0.06, String(third));
  assert.equal(await flood(7), 0);
  await kept.close();
});

test('a table that is renamed is told again, in the segment that is written to', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const kept = await opened(files, now);
  const gate = kept.gateOf(7);
  gate.fill(now.ms);
  for (const name of ['t', 't', 'renamed']) await kept.append(named(name), gate, Buffer.from(name));
  const told = await kept.own?.tables();
  assert.equal(decodeTable(told?.get(7) ?? Buffer.alloc(0))?.table, 'renamed');
  assert.deepEqual(
    kept.views().map(({ requests }) => requests),
    [3],
  );
});
