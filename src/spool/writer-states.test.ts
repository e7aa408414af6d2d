import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ModelFiles } from '../../test/support/model-files.ts';
import { holdsTable } from '../../test/support/state-table.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { limits } from '../config/limits.ts';
import { encodeTarget } from './format.ts';
import { NotKept } from './segment-files.ts';
import { SegmentFiles } from './segment-files.ts';
import { SpoolWriter } from './writer.ts';

const segmentBytes = 4_096;
const target = encodeTarget(Buffer.from('{}'));

/** A writer on a disk of so many segments. */
class Machine {
  readonly files = new ModelFiles();
  segmentsMax = 64;
  nowMs = 0;
  readonly #options = {
    files: this.files,
    folder: 'spool',
    spool: Buffer.alloc(16, 1),
    ring: fixedKeys(Buffer.alloc(32, 7)),
    segmentBytes,
    bytesLeft: () => this.segmentsMax * segmentBytes - this.files.bytes,
    random: randomBytes,
    clock: () => this.nowMs,
    health: { failed: () => undefined, worked: () => undefined },
  };
  readonly segments = new SegmentFiles(this.#options, [], 1);
  readonly writer = new SpoolWriter(this.segments, this.#options, 1n);

  static async after(...steps: readonly ((machine: Machine) => unknown)[]): Promise<Machine> {
    const machine = new Machine();
    for (const step of steps) {
      await step(machine);
      await machine.rests();
    }
    return machine;
  }

  /** Nothing is being written, and the segment after the one in use is there. */
  async rests(): Promise<void> {
    await new Promise(setImmediate);
    if (!this.writer.off) await this.writer.prepare();
  }

  append(bytes = 100): Promise<string> {
    const table = { oid: 1, target };
    return this.writer.append(table, Buffer.alloc(bytes)).then(
      (sequence) => `kept as ${sequence}`,
      (error: unknown) => (error instanceof NotKept ? error.why : String(error)),
    );
  }

  /** What was answered, what the next record is told once the disk is well again, and how many segments are on the disk in the end. */
  async told(answer: string): Promise<string> {
    this.files.failAt = Infinity;
    this.nowMs += limits.spoolMakeAgainMs;
    const next = await this.append();
    await this.rests();
    const again = this.files.syncsAfterFailure === 0 ? '' : ', synced after a failure';
    const segments = [...this.files.contents.keys()].filter((path) => path.endsWith('.seg'));
    await this.writer.close();
    assert.equal(this.files.openFiles, 0);
    return `${answer}; next ${next}; ${segments.length} on the disk${again}`;
  }

  /** The next call fails, or all from there on. */
  fails(stays: boolean): void {
    Object.assign(this.files, { failAt: this.files.calls + 1, stays });
  }
}

const append = (it: Machine) => it.append();
const fillUp = (it: Machine) => it.append(segmentBytes - 400);
const full = (it: Machine) => void (it.segmentsMax = 0);
const failing = async (it: Machine) => {
  it.fails(false);
  await it.append();
  it.files.failAt = Infinity;
};
const untilFull = async (it: Machine) => {
  while ((await it.append()) !== 'full');
};
const later = (it: Machine) => void (it.nowMs += limits.spoolFailuresWithinMs);

test("a spool writer's state table holds in every state at every event", async () => {
  await holdsTable(
    {
      new: {
        'a record': 'kept as 1; next kept as 2; 2 on the disk',
        'a record that fits into no segment': 'full; next kept as 1; 2 on the disk',
        'a record, and one call to the disk fails': 'full; next kept as 1; 2 on the disk',
        'a record, and the disk fails from here on': 'full; next kept as 1; 2 on the disk',
        'the segment is finished': 'finished: true; next kept as 1; 2 on the disk',
        'it is closed': 'closed; next off; 0 on the disk',
      },
      prepared: {
        'a record': 'kept as 1; next kept as 2; 2 on the disk',
        'a record that fits into no segment': 'full; next kept as 1; 2 on the disk',
        'a record, and one call to the disk fails': 'busy; next kept as 1; 3 on the disk',
        'a record, and the disk fails from here on': 'busy; next off; 1 on the disk',
        'the segment is finished': 'finished: true; next kept as 1; 2 on the disk',
        'it is closed': 'closed; next off; 0 on the disk',
      },
      writing: {
        'a record': 'kept as 2; next kept as 3; 2 on the disk',
        'a record that fits into no segment': 'full; next kept as 2; 2 on the disk',
        'a record, and one call to the disk fails': 'busy; next kept as 2; 3 on the disk',
        'a record, and the disk fails from here on': 'unknown; next off; 2 on the disk',
        'the segment is finished': 'finished: true; next kept as 2; 3 on the disk',
        'it is closed': 'closed; next off; 1 on the disk',
      },
      'writing, the segment is full': {
        'a record': 'kept as 2; next kept as 3; 3 on the disk',
        'a record that fits into no segment': 'full; next kept as 2; 2 on the disk',
        'a record, and one call to the disk fails': 'busy; next kept as 2; 3 on the disk',
        'a record, and the disk fails from here on': 'unknown; next off; 2 on the disk',
        'the segment is finished': 'finished: true; next kept as 2; 3 on the disk',
        'it is closed': 'closed; next off; 1 on the disk',
      },
      'writing, the disk is full': {
        'a record': 'kept as 2; next kept as 3; 2 on the disk',
        'a record that fits into no segment': 'full; next kept as 2; 2 on the disk',
        'a record, and one call to the disk fails': 'busy; next kept as 2; 2 on the disk',
        'a record, and the disk fails from here on': 'unknown; next off; 2 on the disk',
        'the segment is finished': 'finished: true; next kept as 2; 2 on the disk',
        'it is closed': 'closed; next off; 1 on the disk',
      },
      'both are full': {
        'a record': 'full; next full; 2 on the disk',
        'a record that fits into no segment': 'full; next full; 2 on the disk',
        'a record, and one call to the disk fails': 'full; next full; 2 on the disk',
        'a record, and the disk fails from here on': 'full; next full; 2 on the disk',
        'the segment is finished': 'finished: true; next full; 2 on the disk',
        'it is closed': 'closed; next off; 2 on the disk',
      },
      'failed once': {
        'a record': 'kept as 2; next kept as 3; 3 on the disk',
        'a record that fits into no segment': 'full; next kept as 2; 3 on the disk',
        'a record, and one call to the disk fails': 'busy; next off; 3 on the disk',
        'a record, and the disk fails from here on': 'unknown; next off; 3 on the disk',
        'the segment is finished': 'finished: true; next kept as 2; 4 on the disk',
        'it is closed': 'closed; next off; 2 on the disk',
      },
      'failed once, a minute ago': {
        'a record': 'kept as 2; next kept as 3; 3 on the disk',
        'a record that fits into no segment': 'full; next kept as 2; 3 on the disk',
        'a record, and one call to the disk fails': 'busy; next kept as 2; 4 on the disk',
        'a record, and the disk fails from here on': 'unknown; next off; 3 on the disk',
        'the segment is finished': 'finished: true; next kept as 2; 4 on the disk',
        'it is closed': 'closed; next off; 2 on the disk',
      },
      'off after two failures': {
        'a record': 'off; next off; 3 on the disk',
        'a record that fits into no segment': 'off; next off; 3 on the disk',
        'a record, and one call to the disk fails': 'off; next off; 3 on the disk',
        'a record, and the disk fails from here on': 'off; next off; 3 on the disk',
        'the segment is finished': 'finished: true; next off; 3 on the disk',
        'it is closed': 'closed; next off; 3 on the disk',
      },
      closed: {
        'a record': 'off; next off; 1 on the disk',
        'a record that fits into no segment': 'off; next off; 1 on the disk',
        'a record, and one call to the disk fails': 'off; next off; 1 on the disk',
        'a record, and the disk fails from here on': 'off; next off; 1 on the disk',
        'the segment is finished': 'finished: true; next off; 1 on the disk',
        'it is closed': 'closed; next off; 1 on the disk',
      },
    },
    {
      new: () => Machine.after(),
      prepared: () => Machine.after(() => undefined),
      writing: () => Machine.after(append),
      'writing, the segment is full': () => Machine.after(fillUp),
      'writing, the disk is full': () => Machine.after(append, full),
      'both are full': () => Machine.after(append, full, untilFull),
      'failed once': () => Machine.after(append, failing),
      'failed once, a minute ago': () => Machine.after(append, failing, later),
      'off after two failures': () => Machine.after(append, failing, failing),
      closed: () => Machine.after(append, (it) => it.writer.close()),
    },
    {
      'a record': async (it) => it.told(await it.append()),
      'a record that fits into no segment': async (it) => it.told(await it.append(segmentBytes)),
      'a record, and one call to the disk fails': async (it) => {
        it.fails(false);
        return it.told(await it.append());
      },
      'a record, and the disk fails from here on': async (it) => {
        it.fails(true);
        return it.told(await it.append());
      },
      'the segment is finished': async (it) => it.told(`finished: ${await it.writer.finishSegment()}`),
      'it is closed': async (it) => {
        await it.writer.close();
        return it.told('closed');
      },
    },
  );
});

test('a spool writer retries a failed creation of the next segment later, without waiting for a record', async () => {
  const machine = new Machine();
  const segments = () => [...machine.files.contents.keys()].filter((path) => path.endsWith('.seg')).length;
  machine.segmentsMax = 0;
  await machine.writer.prepare();
  assert.equal(segments(), 0);
  machine.segmentsMax = 64;
  machine.fails(false);
  await machine.writer.prepare();
  machine.files.failAt = Infinity;
  assert.equal(segments(), 0);
  machine.nowMs += limits.spoolMakeAgainMs;
  await machine.writer.prepare();
  assert.equal(segments(), 1);
});

test('a spool writer uses or removes every segment that it makes, whenever the next one is asked for', async () => {
  for (let turns = 0; turns < 40; turns++) {
    const machine = new Machine();
    const kept = machine.append();
    await new Promise(setImmediate);
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    await Promise.all([kept, machine.writer.prepare()]);
    await machine.writer.close();
    await machine.writer.prepare();
    const segments = [...machine.files.contents.keys()].filter((path) => path.endsWith('.seg'));
    assert.deepEqual([segments.length, machine.files.openFiles], [1, 0], `${turns} turns`);
    assert.equal(machine.segments.bytes, segmentBytes);
  }
});
