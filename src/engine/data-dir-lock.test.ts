import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { DataDirInUse, lockFolder } from './data-dir-lock.ts';

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-lock-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test('the lock of a data directory is exclusive, and free after close', async (t) => {
  const folder = await folderFor(t);
  for (let round = 0; round < 3; round++) {
    const lock = await lockFolder(folder);
    await assert.rejects(
      lockFolder(folder),
      (error) => error instanceof DataDirInUse && error.pid === process.pid,
    );
    await lock.close();
    assert.deepEqual(await readdir(folder), []);
  }
});

test('at most one of many simultaneous starts gets the lock of the data directory, and then another can', async (t) => {
  const folder = await folderFor(t);
  for (let round = 0; round < 20; round++) {
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => lockFolder(folder)));
    const held = results.filter((result) => result.status === 'fulfilled');
    assert.ok(held.length <= 1, `${held.length} hold the lock`);
    for (const result of results) {
      if (result.status === 'rejected')
        assert.ok(result.reason instanceof DataDirInUse, String(result.reason));
    }
    for (const { value } of held) await value.close();
  }
  await (await lockFolder(folder)).close();
});

/** Another process that takes the lock, says so, and waits. */
async function holder(folder: string): Promise<ChildProcess> {
  const module = new URL('./data-dir-lock.js', import.meta.url).href;
  const script = `const { lockFolder } = await import(${JSON.stringify(module)});
    await lockFolder(process.argv[1]); process.stdout.write('held'); setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

test('the lock of a data directory ends with its process, and survives a SIGSTOP', async (t) => {
  const folder = await folderFor(t);
  const child = await holder(folder);
  t.after(() => child.kill('SIGKILL'));
  await assert.rejects(
    lockFolder(folder),
    (error) => error instanceof DataDirInUse && error.pid === child.pid,
  );
  child.kill('SIGSTOP');
  await assert.rejects(
    lockFolder(folder, 300),
    (error) => error instanceof DataDirInUse && error.pid === child.pid,
  );
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal((await readdir(folder)).length, 1);
  const lock = await lockFolder(folder);
  assert.deepEqual(
    (await readdir(folder)).map((name) => name.startsWith(`claim-${process.pid}-`)),
    [true],
  );
  await lock.close();
});
