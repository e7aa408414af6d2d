import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quotaCores, resources } from './cores.ts';

const files = (texts: Record<string, string>) => (path: string) => texts[path] ?? null;

test('the smallest CPU quota of all parent control groups counts', () => {
  const nested = {
    '/proc/self/cgroup': '0::/a.slice/b.service\n',
    '/sys/fs/cgroup/a.slice/b.service/cpu.max': 'max 100000\n',
    '/sys/fs/cgroup/a.slice/cpu.max': '250000 100000\n',
  };
  assert.equal(quotaCores(files(nested)), 2.5);
  assert.equal(
    quotaCores(files({ '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '50000 100000' })),
    0.5,
  );
});

test('cores are detected without a quota, without control groups and with cgroup v1', () => {
  assert.equal(
    quotaCores(() => null),
    Infinity,
  );
  assert.equal(quotaCores(files({ '/proc/self/cgroup': '4:cpu:/x\n' })), Infinity);
  assert.equal(quotaCores(files({ '/sys/fs/cgroup/cpu.max': 'max 100000' })), Infinity);
});

test('available cores and memory of the machine are detected', () => {
  const { cores, memoryBytes } = resources();
  assert.ok(cores > 0 && Number.isFinite(cores));
  assert.ok(memoryBytes > 0 && Number.isSafeInteger(memoryBytes));
});
