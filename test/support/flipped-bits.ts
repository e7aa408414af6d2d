/**
 * A segment of the spool with one bit changed, for each of many bits: what must be read of it, and said of it. What stands where is computed
 * here, from the format as src/spool/format.ts describes it and from what was appended: the reader is not asked. In a thread of its own, since
 * Node's test runner follows every promise of a test, which takes longer than the reading.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { basename } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { fixedKeys } from '../../src/secrets/key-ring.ts';
import { apart } from '../../src/spool/kept-request.ts';
import type { UnreadablePart } from '../../src/spool/disk-health.ts';
import { beginning, Spool } from '../../src/spool/spool.ts';
import { ModelFiles } from './model-files.ts';

const headerBytes = 64;
const headBytes = 32;

export interface Laid {
  readonly oid: number;
  readonly bodies: readonly Uint8Array[];
  /** The sequence of the first of them. */
  readonly first: bigint;
  readonly from: number;
  /** Without padding. */
  readonly length: number;
  readonly to: number;
}

export const descriptionOf = (oid: number) => Buffer.from(`{"t":${oid}}`);

/** So many records, and their places: one request each, or several of the same table, with every width of padding. */
export function layOut(records: number): { readonly layout: readonly Laid[]; readonly end: number } {
  const layout: Laid[] = [];
  let end = headerBytes;
  let first = 1n;
  for (let record = 0; record < records; record++) {
    const oid = 1 + (record % 2);
    const together = record % 20 === 19 ? 3 : 1;
    const bodies = Array.from({ length: together }, () => randomBytes(1 + (record % 9)));
    const payload = bodies.reduce((sum, body) => sum + body.length + (together > 1 ? 4 : 0), 0);
    const length = headBytes + 2 + descriptionOf(oid).length + payload + 16;
    const to = end + 8 * Math.ceil(length / 8);
    layout.push({ oid, bodies, first, from: end, length, to });
    first += BigInt(together);
    end = to;
  }
  return { layout, end };
}

interface Trial {
  /** Of the spool. */
  readonly folder: string;
  /** Of the segment. */
  readonly path: string;
  readonly key: Uint8Array;
  readonly contents: readonly (readonly [string, Uint8Array])[];
  readonly layout: readonly Laid[];
  readonly bits: readonly number[];
}

/** Returns with how many of the bits something was missing. `seed` is named where it fails. */
export async function tryBits(trial: Trial, seed: string): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: trial });
  try {
    const [missing] = (await once(worker, 'message')) as [number];
    return missing;
  } catch (error) {
    throw new Error(seed, { cause: error });
  }
}

async function each({ folder, path, key, contents, layout, bits }: Trial): Promise<number> {
  const files = new ModelFiles();
  const whole = Buffer.from(contents.find(([name]) => name === path)?.[1] ?? assert.fail());
  const options = {
    files,
    root: folder.slice(0, folder.lastIndexOf('/')),
    ring: fixedKeys(Buffer.from(key)),
    segmentBytes: whole.length,
    bytesLeft: () => Infinity,
    random: randomBytes,
    clock: () => 0,
    health: {
      failed: assert.ifError,
      worked: () => undefined,
      damaged: (lost: UnreadablePart) => assert.fail(JSON.stringify(lost)),
    },
  };
  let missing = 0;
  for (const bit of bits) {
    const at = bit >> 3;
    const what = `bit ${bit % 8} of byte ${at}`;
    const changed = Buffer.from(whole);
    changed[at] = (changed[at] ?? 0) ^ (1 << (bit % 8));
    // As a crash leaves it: with the segment that was made ahead.
    for (const name of files.contents.keys()) files.put(name, null);
    for (const [name, bytes] of contents) files.put(name, name === path ? changed : Buffer.from(bytes));
    const spool = await Spool.open(options, basename(folder));
    const record = layout.find(({ from, to }) => from <= at && at < to) ?? null;
    const hit = record !== null && at < record.from + record.length ? record : null;
    // Opening a record takes as long as everything else, and depends on nothing but its bytes and the key: for seven of the eight bits of a byte only those
    // around it are opened, and of all others it is seen that they are found.
    const [low, high] = isKey(at, whole.length) || bit % 8 === at % 8 ? [0, Infinity] : [at - 200, at + 200];
    const isOpened = ({ from, to }: Laid) => to > low && from < high;
    await assertThere(
      spool,
      layout.filter((it) => it !== hit),
      isOpened,
      what,
    );
    const [lost, ...more] = spool.lost;
    assert.equal(more.length, 0, what);
    if (hit !== null) {
      missing += 1;
      assert.equal(lost?.reason, 'damaged', what);
      // Of the others, the gap in the sequence says how many are lost.
      const isUnknown = hit === layout.at(-1) && at < hit.from + headBytes;
      assert.equal(lost.requests, isUnknown ? null : hit.bodies.length, what);
      // The copy is without zeros at its end.
      const aside = files.contents.get(lost.kept ?? '') ?? assert.fail(what);
      const size = hit.to - hit.from;
      assert(changed.subarray(hit.from, hit.to).equals(Buffer.concat([aside], size)), what);
    } else if (record !== null) {
      // Padding, which nobody reads.
      assert.equal(lost, undefined, what);
    } else if (isKey(at, whole.length)) {
      assert.deepEqual([lost?.reason, lost?.requests], ['its header is damaged', 0], what);
    } else {
      // Nothing was there; in the sector of the last record that cannot be told from a record that has become zeros.
      assert.deepEqual([lost?.reason !== undefined, lost?.requests], [true, null], what);
    }
  }
  return missing;
}

/** Whether a byte is in one of the two headers, from which the key is derived. */
const isKey = (at: number, fileBytes: number) => at < headerBytes || at >= fileBytes - headerBytes;

/** These are found, in order, and those that are opened are handed over byte by byte. */
async function assertThere(
  spool: Spool,
  expected: readonly Laid[],
  isOpened: (record: Laid) => boolean,
  what: string,
): Promise<void> {
  let found = 0;
  let opened = 0;
  const wanted = (oid: number, last: bigint) => {
    const record = expected[found++] ?? assert.fail(what);
    assert(record.oid === oid && record.first + BigInt(record.bodies.length - 1) === last, what);
    return isOpened(record);
  };
  for await (const sealed of spool.requests(beginning, wanted)) {
    const { oid, target, first } = sealed;
    opened += 1;
    const record = expected[found - 1] ?? assert.fail(what);
    const bodies = apart(sealed).map(({ payload }) => payload);
    const isSame =
      record.oid === oid &&
      record.first === first &&
      record.bodies.length === bodies.length &&
      record.bodies.every((body, i) => bodies[i]?.equals(body)) &&
      target?.equals(descriptionOf(oid)) === true;
    assert(isSame, what);
  }
  assert.equal(found, expected.length, what);
  assert.equal(opened, expected.filter(isOpened).length, what);
}

// A port of a thread has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
if (!isMainThread) parentPort?.postMessage(await each(workerData as Trial));
