import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { fileOutput, streamOutput } from './terminal.ts';

const lost = (lines: number, reason: string): string => `${lines} lost: ${reason}\n`;

test('a full log file loses lines, and the log tells their number as soon as the file takes one', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hg-output-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'log');
  // Opened for reading only, it refuses every line; then the descriptor becomes one that takes them.
  let fd = openSync('/dev/full', 'w');
  const output = fileOutput(fd, lost);
  output.write('a\n');
  output.write('b\n');
  closeSync(fd);
  const again = openSync(path, 'w');
  t.after(() => closeSync(again));
  assert.equal(again, fd);
  fd = again;
  output.write('c\n');
  output.write('d\n');
  assert.equal(readFileSync(path, 'utf8'), '2 lost: ENOSPC\nc\nd\n');
});

/** Takes one write at a time, and says that it has when `go` is called. */
class Slow extends Writable {
  seen = '';
  go: () => void = () => undefined;

  constructor() {
    super({ highWaterMark: 10 });
  }

  override _write(chunk: Buffer, _: string, done: () => void): void {
    this.seen += chunk.toString();
    this.go = done;
  }
}

test('log lines for a slow reader wait in memory up to a bound; lines beyond it are dropped and counted', async () => {
  const stream = new Slow();
  const output = streamOutput(stream, lost, 30);
  for (let i = 0; i < 10; i++) output.write(`line ${i}.\n`);
  assert.equal(stream.writableLength, 24);
  // It reads on: first the number of lost lines, then what comes after them.
  const drained = new Promise((resolve) => stream.once('drain', resolve));
  for (let i = 0; i < 3; i++) {
    stream.go();
    await new Promise(setImmediate);
  }
  await drained;
  stream.go();
  await new Promise(setImmediate);
  output.write('after\n');
  stream.go();
  await new Promise(setImmediate);
  assert.equal(stream.seen, 'line 0.\nline 1.\nline 2.\n7 lost: its reader did not keep up\nafter\n');
});

test('a closed log reader causes no error and no waiting', async () => {
  const stream = new Slow();
  const output = streamOutput(stream, lost, 30);
  output.write('one\n');
  stream.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  await new Promise(setImmediate);
  for (let i = 0; i < 100; i++) output.write('more\n');
  await output.flush(60_000);
});

test('shutdown does not wait for a log reader that never reads', async () => {
  const output = streamOutput(new Slow(), lost, 30);
  output.write('one\n');
  await output.flush(10);
});
