/** Whatever a disk does to a segment: what is missing afterwards is what it damaged, it is said, and everything else is byte by byte what was appended. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { descriptionOf, layOut, tryBits } from '../../test/support/flipped-bits.ts';
import { ModelFiles } from '../../test/support/model-files.ts';
import { isLong, sampleOf, sampleSeed } from '../../test/support/sample.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { encodeTarget, headerBytes } from './format.ts';
import { apart, decodeRequest, decodeTable } from './kept-request.ts';
import type { UnreadablePart } from './disk-health.ts';
import { beginning, Spool } from './spool.ts';
import type { SpoolOptions } from './spool.ts';

const id = '00112233445566778899aabbccddeeff';
const key = Buffer.alloc(32, 7);
const folder = `root/${id}`;
const pathOf = (number: number, of = id) => `root/${of}/${String(number).padStart(20, '0')}.seg`;

/** Of a disk that works. */
const reporting = (damaged: (lost: UnreadablePart) => void) => ({
  failed: assert.ifError,
  worked: () => undefined,
  damaged,
});

function optionsFor(files: ModelFiles, segmentBytes: number): SpoolOptions {
  return {
    files,
    root: 'root',
    ring: fixedKeys(key),
    segmentBytes,
    bytesLeft: () => Infinity,
    random: randomBytes,
    clock: () => 0,
    health: reporting((lost) => assert.fail(JSON.stringify(lost))),
  };
}

const tables = [1, 2].map((oid) => ({ oid, target: encodeTarget(Buffer.from(`{"table":"t${oid}"}`)) }));

/** What is handed over, record by record, as the drainer gets it. */
async function recordsOf(spool: Spool) {
  const all: { readonly oid: number; readonly to: number; readonly payloads: readonly string[] }[] = [];
  for await (const record of spool.requests(beginning, () => true)) {
    const { oid, target, place } = record;
    assert.equal(target?.toString(), `{"table":"t${oid}"}`);
    const payloads = apart(record).map(({ payload }) => payload.toString('hex'));
    all.push({ oid, to: place.at, payloads });
  }
  return all;
}

const payloadsOf = async (spool: Spool) => (await recordsOf(spool)).flatMap(({ payloads }) => payloads);

/** A spool with so many records: one request, or several of the same table. */
async function filled(records: number, segmentBytes: number, bodyBytes = 12) {
  const files = new ModelFiles();
  const spool = await Spool.open(optionsFor(files, segmentBytes), id);
  for (let record = 0; record < records; record++) {
    const table = tables[record % 2] ?? assert.fail();
    const together = record % 5 === 4 ? 3 : 1;
    const bodies = Array.from({ length: together }, () => randomBytes(bodyBytes + (record % 9)));
    await Promise.all(bodies.map((body) => spool.writer.append(table, Buffer.from(body))));
  }
  const all = await recordsOf(spool);
  assert.equal(all.length, records);
  return { files, spool, all };
}

suite('a spool reports disk damage and hands over the rest', () => {
  test('a flipped bit in a spool segment costs at most its record, and the loss is reported', async () => {
    const { layout, end } = layOut(200);
    // A sector and a half that was never written, and the second header.
    const fileBytes = end + 768 + headerBytes;
    const files = new ModelFiles();
    const spool = await Spool.open(optionsFor(files, fileBytes), id);
    for (const { oid, bodies } of layout) {
      const table = { oid, target: encodeTarget(descriptionOf(oid)) };
      await Promise.all(bodies.map((body) => spool.writer.append(table, Buffer.from(body))));
    }
    const whole = files.contents.get(pathOf(1)) ?? assert.fail();
    assert.equal(spool.segments.length, 1);
    assert.equal(whole.length, fileBytes);
    assert.equal(whole.subarray(0, -headerBytes).findLastIndex((byte) => byte !== 0) + 1, end);

    const all = Array.from({ length: 8 * fileBytes }, (_, bit) => bit);
    const last = layout.at(-1) ?? assert.fail();
    // Nothing that follows the last record proves that it was complete.
    const ofLast = all.slice(8 * last.from, 8 * last.to);
    const bits = [...new Set([...sampleOf(all, 200), ...sampleOf(ofLast, 40)])];
    const workers = isLong ? availableParallelism() : 1;
    const each = Array.from({ length: workers }, (_, i) => bits.filter((__, at) => at % workers === i));
    const common = { folder, path: pathOf(1), key, contents: [...files.contents], layout };
    const missing = await Promise.all(each.map((some) => tryBits({ ...common, bits: some }, sampleSeed)));
    const sum = missing.reduce((a, b) => a + b, 0);
    // Everything but headers, padding and what was never written.
    if (isLong) assert.equal(sum, 8 * layout.reduce((bytes, { length }) => bytes + length, 0));
    else assert(sum > 100);
  });

  test('a truncated spool segment is reported at any length, and all before the cut is read', async () => {
    const segmentBytes = 8_192;
    const { files, spool, all } = await filled(40, segmentBytes);
    const [segment] = spool.segments;
    assert(segment !== undefined && spool.segments.length === 1);
    const whole = Buffer.from(files.contents.get(segment.path) ?? '');
    const lengths = Array.from({ length: segmentBytes }, (_, i) => i);
    for (const length of new Set([0, 1, headerBytes, segmentBytes - 1, ...sampleOf(lengths, 80)])) {
      const what = `${length} bytes, ${sampleSeed}`;
      const left = files.copy();
      left.put(segment.path, whole.subarray(0, length));
      const after = await Spool.open(optionsFor(left, segmentBytes), id);
      const complete = all.filter(({ to }) => to <= length && length >= headerBytes);
      assert.deepEqual(
        await payloadsOf(after),
        complete.flatMap(({ payloads }) => payloads),
        what,
      );
      const cut = after.lost.find(({ reason }) => reason === 'the file was cut');
      assert.equal(cut?.bytes, segmentBytes - length, what);
      assert(left.contents.has(cut.kept ?? ''), what);
      // What is said once is still to be seen, and is not said again.
      const again = await Spool.open(optionsFor(left, segmentBytes), id);
      assert(!again.lost.some(({ reason }) => reason === 'the file was cut'), what);
    }
  });

  test('a missing spool segment is reported, whether it is the first, the last or the only one', async () => {
    const segmentBytes = 2_048;
    for (const records of [4, 40]) {
      const { files, spool, all } = await filled(records, segmentBytes);
      const numbers = spool.segments.map(({ number }) => number);
      assert(records === 4 ? numbers.length === 1 : numbers.length > 2);
      const ofSegment: Record<number, readonly string[]> = {};
      for (const { number } of spool.segments) {
        const alone = files.copy();
        for (const other of numbers) if (other !== number) alone.put(pathOf(other), null);
        ofSegment[number] = await payloadsOf(await Spool.open(optionsFor(alone, segmentBytes), id));
      }
      const given = all.flatMap(({ payloads }) => payloads);
      for (const gone of numbers) {
        const left = files.copy();
        left.put(pathOf(gone), null);
        const after = await Spool.open(optionsFor(left, segmentBytes), id);
        const expected = numbers.flatMap((number) => (number === gone ? [] : (ofSegment[number] ?? [])));
        assert.deepEqual(await payloadsOf(after), expected);
        assert.equal(expected.length, given.length - (ofSegment[gone]?.length ?? 0));
        assert.deepEqual(
          after.lost.map(({ segment, reason }) => [segment, reason]),
          [[`${gone}.seg`, 'the file is missing']],
        );
      }
      // One that was handed over is not missing.
      const upTo = spool.segments[0]?.last ?? new Map<number, bigint>();
      await spool.forget((oid) => upTo.get(oid) ?? 0n);
      const later = await Spool.open(optionsFor(files.copy(), segmentBytes), id);
      assert.deepEqual(later.lost, []);
      assert.equal(later.segments.length, numbers.length - 1);
    }
  });

  test('a spool record moved to another place, segment, spool or table is not handed over', async () => {
    const segmentBytes = 2_048;
    const { files, spool } = await filled(40, segmentBytes);
    const [first, second] = spool.segments;
    assert(first !== undefined && second !== undefined);
    const bytesOf = (path: string) => Buffer.from(files.contents.get(path) ?? assert.fail());
    const record = (bytes: Buffer, at: number) => {
      const length = bytes.readUInt32LE(at);
      return bytes.subarray(at, at + Math.ceil(length / 8) * 8);
    };
    /** Whoever knows the format corrects the sum. */
    const summed = (bytes: Buffer, at: number) => {
      bytes.writeUInt32LE(crc32(bytes.subarray(at + 8, at + 32), crc32(bytes.subarray(at, at + 4))), at + 4);
      return bytes;
    };
    const original = bytesOf(first.path);
    const forgeries: Record<string, Buffer> = {
      'to another place': (() => {
        const bytes = bytesOf(first.path);
        record(original, headerBytes).copy(bytes, first.end);
        bytes.writeUInt32LE(first.end, first.end + 24);
        bytes.writeBigUInt64LE(1_000n, first.end + 8);
        return summed(bytes, first.end);
      })(),
      'to another segment': (() => {
        const bytes = bytesOf(first.path);
        record(bytesOf(second.path), headerBytes).copy(bytes, headerBytes);
        return summed(bytes, headerBytes);
      })(),
      'to another table': (() => {
        const bytes = bytesOf(first.path);
        bytes.writeUInt32LE(2, headerBytes + 16);
        return summed(bytes, headerBytes);
      })(),
    };
    const given = await payloadsOf(spool);
    for (const [what, bytes] of Object.entries(forgeries)) {
      const left = files.copy();
      left.put(first.path, bytes);
      const reported: string[] = [];
      const options = {
        ...optionsFor(left, segmentBytes),
        health: reporting(() => void reported.push(what)),
      };
      const after = await Spool.open(options, id);
      for (const payload of await payloadsOf(after)) assert(given.includes(payload), what);
    }
    // The whole file under another number, or in the folder of another spool.
    const other = 'ff'.repeat(16);
    for (const [path, of] of [
      [pathOf(99), id],
      [pathOf(1, other), other],
    ] as const) {
      const left = files.copy();
      left.put(path, original);
      const after = await Spool.open(optionsFor(left, segmentBytes), of);
      assert(after.lost.some(({ reason }) => reason === 'of another spool'));
      assert.deepEqual(await payloadsOf(after), of === id ? given : []);
      // With a header that is as it should be, nothing of it can be opened.
      const patched = Buffer.from(original);
      if (of === id) patched.writeUInt32LE(99, 56);
      else Buffer.from(other, 'hex').copy(patched, 16);
      patched.writeUInt32LE(crc32(patched.subarray(0, 60)), 60);
      const forged = files.copy();
      forged.put(path, patched);
      let refused = 0;
      const opened = await Spool.open(
        { ...optionsFor(forged, segmentBytes), health: reporting(() => void (refused += 1)) },
        of,
      );
      assert.deepEqual(await payloadsOf(opened), of === id ? given : []);
      assert(refused > 0 || of === id);
    }
  });
});

interface Golden {
  readonly requests: number;
  readonly segments: Readonly<Record<string, { readonly bytes: number; readonly start: string }>>;
}

suite('spool segments of format version 1 are readable', () => {
  const golden = JSON.parse(
    readFileSync(
      fileURLToPath(new URL('../../../test/support/golden/spool-v1.json', import.meta.url)),
      'utf8',
    ),
  ) as Golden;
  const old = (): ModelFiles => {
    const files = new ModelFiles();
    for (const [name, { bytes, start }] of Object.entries(golden.segments)) {
      const content = Buffer.alloc(bytes);
      Buffer.from(start, 'base64').copy(content);
      files.put(`${folder}/${name}`, content);
    }
    return files;
  };
  const ids = async (spool: Spool) => {
    const all: number[] = [];
    for await (const record of spool.requests(beginning, () => true)) {
      assert.equal(record.target, null);
      for (const { payload } of apart(record)) {
        const request = decodeRequest(payload);
        all.push((JSON.parse(request?.body.toString() ?? '') as { id: number }).id);
        assert.equal(request?.head.arrivedAtMs, 1_700_000_000_000 + (all.at(-1) ?? 0));
      }
    }
    return all.toSorted((a, b) => a - b);
  };

  test('spool segments of format version 1 are read, with their table descriptions', async () => {
    const spool = await Spool.open(optionsFor(old(), 4_096), id);
    assert.deepEqual(spool.lost, []);
    assert.deepEqual(
      await ids(spool),
      Array.from({ length: golden.requests }, (_, i) => i),
    );
    const told = [...(await spool.tables())].map(([oid, text]) => [oid, decodeTable(text)?.table]);
    assert.deepEqual(told, [
      [1, 'orders'],
      [2, 'events'],
    ]);
  });

  test('spool segments lose no request when a table description is damaged', async () => {
    const files = old();
    for (const path of files.contents.keys()) {
      const bytes = Buffer.from(files.contents.get(path) ?? '');
      bytes[headerBytes + 30] = (bytes[headerBytes + 30] ?? 0) ^ 1;
      files.put(path, bytes);
    }
    const spool = await Spool.open(optionsFor(files, 4_096), id);
    assert.equal(spool.lost.length, 2);
    assert.deepEqual(
      await ids(spool),
      Array.from({ length: golden.requests }, (_, i) => i),
    );
  });
});
