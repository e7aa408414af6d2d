import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headgateConf, sharedBuffersMiB } from './embedded-config.ts';

const GiB = 2 ** 30;

test("the embedded engine's shared_buffers are an eighth of the memory, 128 MB to 1 GB", () => {
  for (const [memoryBytes, expected] of [
    [256 * 2 ** 20, 128],
    [GiB, 128],
    [2 * GiB, 256],
    [3 * GiB + 1, 384],
    [8 * GiB, 1_024],
    [512 * GiB, 1_024],
  ] as const)
    assert.equal(sharedBuffersMiB(memoryBytes), expected);
});

test("every setting of the embedded engine's headgate.conf has a reason above it and one value", () => {
  const conf = headgateConf(2 * GiB);
  assert.match(conf, /^shared_buffers = '256MB'$/m);
  const names = [...conf.matchAll(/^# .+\n(\w+) = '[^']+'$/gm)].map(([, name]) => name);
  assert.equal(names.length, conf.match(/^\w+ = /gm)?.length);
  assert.equal(new Set(names).size, names.length);
});
