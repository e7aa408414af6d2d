import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { freeBuffer, freeStore } from './free-buffer.ts';

const MiB = 1024 * 1024;
const held = () => process.memoryUsage().arrayBuffers;

test('freeBuffer releases the memory of a large buffer without a collection, and empties every view of it', async () => {
  const start = held();
  freeBuffer(Buffer.alloc(16 * MiB));
  // Into the void it goes from a later turn on: the end that nobody reads is closed by then.
  while (held() > start + MiB) await turn();
  for (let i = 0; i < 64; i++) {
    const large = Buffer.alloc(16 * MiB, 1);
    const view = large.subarray(10, 20);
    freeStore(view);
    assert.equal(view.length, 0);
    assert.equal(large.length, 0);
    assert.ok(held() < start + 16 * MiB);
  }
});

test('freeBuffer leaves a slice of a larger buffer alone', () => {
  const large = Buffer.alloc(MiB, 1);
  freeBuffer(large.subarray(0, MiB - 1));
  assert.equal(large[0], 1);
});

test('freeBuffer leaves pooled and empty buffers alone', () => {
  const small = Buffer.from('small');
  freeBuffer(small);
  assert.equal(small.toString(), 'small');
  const large = Buffer.alloc(MiB);
  freeBuffer(large);
  freeBuffer(large);
  assert.equal(large.length, 0);
});
