import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ModelFiles } from '../../test/support/model-files.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { limits } from '../config/limits.ts';
import type { Observation, Observe } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { DatabaseSpool } from './database-spool.ts';
import { decodeTable } from './kept-request.ts';
import { beginning } from './spool.ts';

const hour = 3_600_000;

interface Disk {
  readonly bytesMax: number;
  /** The owners of tables, by oid. */
  readonly owners: ReadonlyMap<number, number>;
}

const endless: Disk = { bytesMax: Infinity, owners: new Map() };

async function opened(
  files: ModelFiles,
  now: { ms: number },
  disk = endless,
  observe: Observe = () => undefined,
) {
  const kept: DatabaseSpool = await DatabaseSpool.open({
    database: 'dev',
    folder: 'root/dev',
    files,
    ring: fixedKeys(Buffer.alloc(32, 7)),
    segmentBytes: 4_096,
    bytesLeft: () => Infinity,
    disk: { bytesMax: disk.bytesMax, ownersOf: () => disk.owners, shares: () => [kept.shares] },
    random: randomBytes,
    clock: () => now.ms,
    nowMs: () => now.ms,
    ageMsMax: 72 * hour,
    observe,
  });
  kept.home = 'server, 5';
  return kept;
}

const named = (table: string, oid = 7) => ({ database: 'dev', schema: 'public', table, oid });
const refusedAs = (code: string) => (error: unknown) =>
  error instanceof Refused && error.refusal.code === code;

test('a table that has spooled for too long gets spool_full for new requests, and its old ones are kept', async () => {
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

/** Requests of this table until the spool is full for it; returns which part of the disk they take. */
async function flood(kept: DatabaseSpool, oid: number, now: { ms: number }, { bytesMax }: Disk) {
  const gate = kept.gateOf(oid);
  const before = kept.shares.bytes;
  for (;;) {
    // What stands in the files is counted now and then.
    now.ms += 1_000;
    try {
      kept.admit(gate);
      await kept.append(named(`t${oid}`, oid), gate, Buffer.alloc(400, 'x'));
    } catch (error) {
      assert(refusedAs('spool_full')(error));
      return (kept.shares.bytes - before) / bytesMax;
    }
  }
}

/** The last request may exceed it. */
function isAbout(taken: number, share: number): void {
  assert(Math.abs(taken - share) < 0.02, `${taken} instead of ${share}`);
}

test('neither a table nor an owner of many tables takes the whole spool from others', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const [greedy, other] = [100, 200];
  const theirs = [11, 12, 13, 14, 15];
  const owners = new Map([...theirs.map((oid) => [oid, greedy] as const), [21, other], [22, other]]);
  const disk = { bytesMax: 128 * 1_024, owners };
  const kept = await opened(files, now, disk);
  const taken: number[] = [];
  for (const oid of theirs) taken.push(await flood(kept, oid, now, disk));
  // Three quarters of the owner's share, which is three quarters of the disk; then three quarters of what is left of it.
  isAbout(taken[0] ?? 0, 9 / 16);
  isAbout(taken[1] ?? 0, (9 / 16) * (1 / 4));
  isAbout(
    taken.reduce((sum, one) => sum + one),
    3 / 4,
  );
  isAbout(await flood(kept, 21, now, disk), 9 / 64);
  isAbout(await flood(kept, 22, now, disk), 9 / 256);
  assert.equal(await flood(kept, 11, now, disk), 0);
  await kept.close();
});

test('a table of a spool with one owner may use three quarters of the free space', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const disk = { bytesMax: 64 * 1_024, owners: new Map([11, 12, 13].map((oid) => [oid, 100] as const)) };
  const kept = await opened(files, now, disk);
  isAbout(await flood(kept, 11, now, disk), 3 / 4);
  isAbout(await flood(kept, 12, now, disk), 3 / 16);
  isAbout(await flood(kept, 13, now, disk), 3 / 64);
  assert.equal(await flood(kept, 11, now, disk), 0);
  await kept.close();
});

test("a table's share of the spool counts for its owner once the owner is known after a restart", async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const owners = new Map([11, 12].map((oid) => [oid, 100]));
  const others = [21, 22].map((oid) => [oid, oid] as const);
  const disk = { bytesMax: 128 * 1_024, owners: new Map<number, number>(others) };
  const before = await opened(files, now, { ...disk, owners: new Map([...others, ...owners]) });
  isAbout(await flood(before, 11, now, disk), 9 / 16);
  await before.close();
  const kept = await opened(files.copy(), now, disk);
  now.ms += 1_000;
  const admitted = () => kept.admit(kept.gateOf(12));
  // More than its owner's other table has left to it; but whose that is, is not known.
  const more = Buffer.alloc(2_000, 'x');
  while (kept.shares.bytes < 0.74 * disk.bytesMax) {
    await kept.append(named('t12', 12), kept.gateOf(12), more);
    now.ms += 1_000;
  }
  assert.equal(kept.shares.bytesOfOwner(100), 0);
  admitted();
  for (const [oid, owner] of owners) disk.owners.set(oid, owner);
  now.ms += 1_000;
  assert(kept.shares.bytesOfOwner(100) > 0.65 * disk.bytesMax);
  assert.throws(admitted, refusedAs('spool_full'));
  // Dropped, or not to be read any more: it stays its owner's.
  for (const oid of owners.keys()) disk.owners.delete(oid);
  now.ms += 1_000;
  assert(kept.shares.bytesOfOwner(100) > 0.65 * disk.bytesMax);
  assert.throws(admitted, refusedAs('spool_full'));
  await kept.close();
});

test("each spooled request holds its table's name at arrival", async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const kept = await opened(files, now);
  const gate = kept.gateOf(7);
  gate.fill(now.ms);
  for (const name of ['t', 't', 'renamed']) await kept.append(named(name), gate, Buffer.from(name));
  const names: (string | undefined)[] = [];
  for await (const { target } of kept.own?.requests(beginning, () => true) ?? [])
    names.push(decodeTable(target ?? Buffer.alloc(0))?.table);
  assert.deepEqual(names, ['t', 't', 'renamed']);
  assert.deepEqual(
    [...kept.shares.counts.values()].map(({ requests }) => requests),
    [3],
  );
});

test('a disk that fails for each spooled request is reported once, and once more when it works again', async () => {
  const [files, now] = [new ModelFiles(), { ms: 1_000 * hour }];
  const told: Observation[] = [];
  const kept = await opened(files, now, endless, (observation) => void told.push(observation));
  const gate = kept.gateOf(7);
  gate.fill(now.ms);
  await kept.append(named('t'), gate, Buffer.from('first'));
  // A disk without room for another file.
  files.creatable = false;
  const large = Buffer.alloc(3_000);
  for (let i = 0; i < 20; i++) {
    now.ms += limits.spoolMakeAgainMs;
    await kept.append(named('t'), gate, large).catch(() => {});
  }
  files.creatable = true;
  now.ms += limits.spoolMakeAgainMs;
  await kept.append(named('t'), gate, large);
  const disk = told.filter(({ kind }) => kind === 'spool.failed' || kind === 'spool.works');
  assert.deepEqual(
    disk.map(({ kind }) => kind),
    ['spool.failed', 'spool.works'],
  );
  const [, works] = disk;
  assert(works?.kind === 'spool.works' && works.failures >= 19);
});
