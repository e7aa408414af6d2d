import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { ModelFiles } from '../../test/support/model-files.ts';
import { seededRandom } from '../../test/support/random.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { decodeHeader, encodeTarget, headerBytes } from './format.ts';
import { apart } from './kept-request.ts';
import { NotKept } from './segment-files.ts';
import type { UnreadablePart } from './disk-health.ts';
import type { Segment } from './segment-files.ts';
import { beginning, Spool } from './spool.ts';
import type { SpoolOptions } from './spool.ts';
import type { Appendable } from './writer.ts';

const id = '00112233445566778899aabbccddeeff';
const key = Buffer.alloc(32, 7);
const folder = `root/${id}`;

const silent = { failed: () => undefined, worked: () => undefined, damaged: () => undefined };

function optionsFor(files: ModelFiles, more: Partial<SpoolOptions> = {}): SpoolOptions {
  return {
    files,
    root: 'root',
    ring: fixedKeys(key),
    segmentBytes: 4_096,
    bytesLeft: () => 64 * 4_096 - files.bytes,
    random: randomBytes,
    clock: () => 0,
    health: silent,
    ...more,
  };
}

const targets = [0, 1, 2].map((oid) => encodeTarget(Buffer.from(`{"table":"t${oid}"}`)));

function table(oid: number): Appendable {
  return { oid, target: targets[oid] ?? assert.fail() };
}

/** All that is kept, in order. */
async function read(spool: Spool): Promise<{ readonly oid: number; readonly text: string }[]> {
  const all: { oid: number; text: string }[] = [];
  for await (const record of spool.requests(beginning, () => true))
    all.push(...apart(record).map(({ payload }) => ({ oid: record.oid, text: payload.toString() })));
  return all;
}

const requestsIn = ({ counts }: Segment) => [...counts.values()].reduce((sum, it) => sum + it.requests, 0);

const texts = async (spool: Spool) => (await read(spool)).map(({ text }) => text);

/** Appends these, some at a time, and gives those that are kept. */
async function append(spool: Spool, payloads: readonly string[], atOnce = 3): Promise<string[]> {
  const kept: string[] = [];
  for (let at = 0; at < payloads.length; at += atOnce) {
    const group = payloads.slice(at, at + atOnce);
    const ends = await Promise.allSettled(
      // Those of one table stand together in a group.
      group.map((text, i) =>
        spool.writer.append(table(atOnce === 1 ? 1 + (at % 2) : i < 2 ? 1 : 2), Buffer.from(text)),
      ),
    );
    ends.forEach((end, i) => void (end.status === 'fulfilled' && kept.push(group[i] ?? '')));
  }
  return kept;
}

const payloads = (count: number, name = 'p') =>
  Array.from({ length: count }, (_, i) => `${name}${i}:${'x'.repeat((i * 137) % 900)}`);

suite('the spool keeps requests on disk', () => {
  test('a spool returns requests in order, across segments and after being reopened', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    const given = payloads(40);
    assert.deepEqual(await append(spool, given), given);
    assert.deepEqual(await texts(spool), given);
    assert(spool.segments.length > 3);
    await spool.writer.close();
    const again = await Spool.open(optionsFor(files), id);
    assert.deepEqual(again.lost, []);
    assert.deepEqual(await texts(again), given);
    assert.deepEqual(await append(again, ['behind']), ['behind']);
    assert.deepEqual((await read(again)).at(-1)?.text, 'behind');
    for await (const { oid, target } of again.requests(beginning, () => true))
      assert.equal(target?.toString(), `{"table":"t${oid}"}`);
  });

  test('after a crash at any system call a spool holds every kept request once and in order', async () => {
    const { random, seed } = seededRandom();
    const given = payloads(14);
    for (let failAt = 1; ; failAt++) {
      const files = new ModelFiles();
      files.failAt = failAt;
      const spool = await Spool.open(optionsFor(files), id).catch(() => null);
      const kept = spool === null ? [] : await append(spool, given);
      for (let round = 0; round < 6; round++) {
        const share = round / 5;
        const left = files.crash(() => random() < share);
        const what = `call ${failAt}, seed ${seed}`;
        const after = await Spool.open(optionsFor(left), id);
        const there = await texts(after);
        assert.deepEqual(
          there.filter((text) => kept.includes(text)),
          kept,
          what,
        );
        // What was not acknowledged may be there: its sender does not know. But only as it was, in its place.
        assert.deepEqual(
          given.filter((text) => there.includes(text)),
          there,
          what,
        );
        assert(
          after.lost.every(({ reason }) => reason === 'unfinished'),
          `${what} ${JSON.stringify(after.lost)}`,
        );
        // And it goes on: what is kept from now on survives the next crash.
        const more = payloads(5, 'more');
        assert.deepEqual(await append(after, more), more, what);
        const last = await Spool.open(optionsFor(left.crash(() => false)), id);
        assert.deepEqual(await texts(last), [...there, ...more], what);
        assert(
          last.lost.every(({ reason }) => reason === 'unfinished'),
          `${what} ${JSON.stringify(last.lost)}`,
        );
      }
      if (files.calls < failAt) return;
    }
  });

  test('spool data damaged during use is reported once, quarantined, and no longer waited for', async () => {
    for (const isTampered of [false, true]) {
      const files = new ModelFiles();
      const lost: UnreadablePart[] = [];
      const spool = await Spool.open(
        optionsFor(files, { health: { ...silent, damaged: (one) => void lost.push(one) } }),
        id,
      );
      await append(spool, ['first', 'second'], 1);
      const [segment] = spool.segments;
      assert(segment !== undefined);
      const from = segment.end;
      // Of table 1, which has the first one, too.
      await append(spool, ['third'], 1);
      assert.equal(segment.last.get(1), 3n);
      const bytes = Buffer.from(files.contents.get(segment.path) ?? '');
      bytes[from + 40] = (bytes[from + 40] ?? 0) ^ 1;
      // Whoever knows the format corrects the sum, too.
      if (isTampered) {
        bytes.writeUInt32LE(crc32(bytes.subarray(from + 32, from + bytes.readUInt32LE(from))), from + 28);
        const head = crc32(bytes.subarray(from + 8, from + 32), crc32(bytes.subarray(from, from + 4)));
        bytes.writeUInt32LE(head, from + 4);
      }
      files.overwrite(segment.path, bytes);
      for (let look = 0; look < 2; look++) assert.deepEqual(await texts(spool), ['first', 'second']);
      const name = `1-${from}-table-1-requests-1.bin`;
      const kept = `${folder}/quarantine/${name}`;
      assert.deepEqual(lost, [
        { segment: name, bytes: segment.end - from, reason: 'damaged', kept, requests: 1 },
      ]);
      assert.deepEqual(files.contents.get(kept), bytes.subarray(from, segment.end));
      assert.equal(segment.last.get(1), 1n);
      assert.equal(requestsIn(segment), 2);
      await append(spool, ['fourth'], 1);
      assert.deepEqual(await texts(spool), ['first', 'second', 'fourth']);
      assert.equal(segment.last.get(1), 4n);
      assert.equal(lost.length, 1);
      await spool.forget(() => 4n);
      assert.deepEqual(spool.segments, []);
    }
  });

  test('a damaged part of an old spool segment is quarantined at each start, and all other requests are read', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    const given = payloads(30);
    await append(spool, given, 1);
    const [segment] = spool.segments;
    assert(segment !== undefined);
    const changed = Buffer.from(files.contents.get(segment.path) ?? '');
    // Also a length of nothing, which is what the end looks like.
    changed.fill(0, headerBytes + 48, headerBytes + 400);
    files.put(segment.path, changed);
    for (let start = 0; start < 3; start++) {
      const after = await Spool.open(optionsFor(files), id);
      const there = await texts(after);
      assert.deepEqual(there, given.slice(given.length - there.length));
      assert(there.length >= 26);
      assert.equal(
        after.lost.reduce((sum, { requests }) => sum + (requests ?? 0), 0),
        given.length - there.length,
      );
      for (const { reason, kept } of after.lost) {
        assert.equal(reason, 'damaged');
        assert(files.contents.has(kept ?? ''));
      }
    }
  });

  test('a last spool record cut at any length, or a foreign file, does not prevent reading the others', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files, { segmentBytes: 2_048 }), id);
    const given = payloads(12);
    await append(spool, given, 1);
    const last = spool.segments.at(-1);
    const first = spool.segments[0];
    assert(last !== undefined && first !== undefined);
    const bytes = files.contents.get(last.path) ?? Buffer.alloc(0);
    for (let length = 0; length <= bytes.length; length += 8) {
      const left = files.copy();
      left.put(last.path, bytes.subarray(0, length));
      const after = await Spool.open(optionsFor(left, { segmentBytes: 2_048 }), id);
      const there = await texts(after);
      assert.deepEqual(there, given.slice(0, there.length));
      assert(there.length >= given.length - requestsIn(last));
    }
    const strange: [string, Buffer | null][] = [
      [`${folder}/00000000000000000099.seg`, files.contents.get(first.path) ?? null],
      [`${folder}/00000000000000000099.seg`, Buffer.alloc(0)],
      [`${folder}/00000000000000000099.seg`, Buffer.alloc(5_000, 0xff)],
      [`${folder}/notes.txt`, Buffer.from('hello')],
      [first.path, null],
    ];
    for (const [path, content] of strange) {
      const left = files.copy();
      left.put(path, content);
      const after = await Spool.open(optionsFor(left, { segmentBytes: 2_048 }), id);
      const there = await texts(after);
      assert.deepEqual(there, content === null ? given.slice(given.length - there.length) : given, path);
      const more = payloads(3, 'more');
      assert.deepEqual(await append(after, more), more);
      assert.deepEqual((await texts(after)).slice(-3), more);
    }
  });

  test('a spool does not read segments of another spool or of another key as its own', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    await append(spool, ['mine']);
    const path = spool.segments[0]?.path ?? '';
    const elsewhere = 'ff'.repeat(16);
    files.put(`root/${elsewhere}/${path.split('/').at(-1)}`, files.contents.get(path) ?? null);
    const foreign = await Spool.open(optionsFor(files), elsewhere);
    assert.deepEqual(
      foreign.lost.map(({ reason }) => reason),
      ['of another spool'],
    );
    const locked = await Spool.open(optionsFor(files, { ring: fixedKeys(Buffer.alloc(32, 8)) }), id);
    assert.deepEqual(await texts(locked), []);
    await locked.forget(() => 1_000n);
    assert.equal(locked.segments.length, 1, 'what cannot be read is not forgotten');
    const rotated = await Spool.open(optionsFor(files, { ring: fixedKeys(Buffer.alloc(32, 8), key) }), id);
    assert.deepEqual(await texts(rotated), ['mine']);
    await append(rotated, ['with the new key']);
    const header = decodeHeader(files.contents.get(rotated.segments.at(-1)?.path ?? '') ?? Buffer.alloc(0));
    assert.notDeepEqual(header?.keyId, spool.segments[0]?.header.keyId);
    assert.deepEqual(await texts(rotated), ['mine', 'with the new key']);
  });

  test('spool files show nothing of the requests in them', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    await append(spool, ['canary-in-a-body']);
    for (const bytes of files.contents.values()) {
      assert(!bytes.includes('canary'));
      assert(!bytes.includes('"table"'));
    }
  });

  test('a failed write ends a spool segment: no refused request is read later, no kept one lost', async () => {
    const given = payloads(14);
    for (let failAt = 1; ; failAt++) {
      const files = new ModelFiles();
      files.failAt = failAt;
      files.stays = false;
      let ms = 0;
      const refused: string[] = [];
      const spool = await Spool.open(optionsFor(files, { clock: () => (ms += 100_000) }), id).catch(
        () => null,
      );
      if (spool === null) continue;
      const kept: string[] = [];
      for (const text of given)
        await spool.writer.append(table(1), Buffer.from(text)).then(
          () => kept.push(text),
          (error: unknown) => {
            assert(error instanceof NotKept);
            if (error.why !== 'unknown') refused.push(text);
          },
        );
      assert(kept.length >= given.length - 2, `call ${failAt}`);
      assert.equal(files.syncsAfterFailure, 0, `call ${failAt}`);
      const after = await Spool.open(optionsFor(files.crash(() => true)), id);
      assert.deepEqual(await texts(after), kept, `call ${failAt}`);
      if (files.calls < failAt) return;
    }
  });

  test('two write failures within a minute close a spool until the next start', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    await append(spool, ['kept']);
    files.failAt = files.calls + 1;
    const why = (error: unknown) => (error as NotKept).why;
    const first = await spool.writer.append(table(1), Buffer.from('lost')).catch(why);
    assert.equal(first, 'unknown', 'it could not be written down that it does not count');
    assert.equal(await spool.writer.append(table(1), Buffer.from('late')).catch(why), 'off');
    assert(spool.writer.off);
    const after = await Spool.open(optionsFor(files.crash(() => false)), id);
    assert.deepEqual(await texts(after), ['kept']);
  });

  test('a spool never exceeds its disk limit, and reuses freed space', async () => {
    const files = new ModelFiles();
    const bytesMax = 5 * 4_096 + 100;
    const spool = await Spool.open(optionsFor(files, { bytesLeft: () => bytesMax - files.bytes }), id);
    const whys = new Set<string>();
    const kept: string[] = [];
    for (const text of payloads(60)) {
      await spool.writer.append(table(1), Buffer.from(text)).then(
        () => kept.push(text),
        (error: unknown) => whys.add((error as NotKept).why),
      );
      assert(files.bytes <= bytesMax && spool.segmentFiles.bytes <= bytesMax);
    }
    assert.deepEqual([...whys], ['full']);
    assert.deepEqual(await texts(spool), kept);
    await spool.forget(() => 0n);
    assert.deepEqual(await texts(spool), kept, 'nothing has arrived');
    await spool.forget(() => spool.writer.lastSequence);
    assert.deepEqual(await texts(spool), []);
    assert.deepEqual(await append(spool, ['again']), ['again']);
    assert(files.bytes <= bytesMax);
    assert.equal(files.bytes, spool.segmentFiles.bytes);
    const again = await Spool.open(optionsFor(files, { bytesLeft: () => bytesMax - files.bytes }), id);
    assert.deepEqual(await texts(again), ['again']);
    assert(again.segmentFiles.bytes <= files.bytes);
  });

  test('a spool segment is removed when all of its tables are handed over', async () => {
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files), id);
    await append(spool, payloads(40));
    const all = spool.segments.length;
    const last = spool.writer.lastSequence;
    await spool.forget((oid) => (oid === 1 ? last : 0n));
    assert.equal(spool.segments.length, all, 'the other table’s have not');
    const [first] = spool.segments;
    const upTo = Math.max(...[...(first?.last.values() ?? [])].map(Number));
    await spool.forget(() => BigInt(upTo));
    assert.equal(spool.segments.length, all - 1);
  });
});
