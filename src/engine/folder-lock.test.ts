import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { DataDirInUse } from './data-dir-lock.ts';
import { lockByKernel } from './folder-lock.ts';

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-flock-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A PATH with one program, or with none. */
async function pathWith(t: TestContext, program: string | null): Promise<string> {
  const folder = await folderFor(t);
  for (const from of ['/usr/bin', '/bin'])
    if (program !== null) await symlink(join(from, program), join(folder, program)).catch(() => undefined);
  return folder;
}

for (const program of ['flock', 'perl']) {
  test(`a folder lock by ${program} is exclusive, survives deletions in the folder, and is free after close`, async (t) => {
    const path = await pathWith(t, program);
    const folder = await folderFor(t);
    const lock = await lockByKernel(folder, path);
    if (lock === null) return t.skip(`${program} is not installed`);
    await assert.rejects(
      lockByKernel(folder, path),
      (error) => error instanceof DataDirInUse && error.pid === null,
    );
    await writeFile(join(folder, 'ports.json'), '{"pid": 42}');
    await assert.rejects(
      lockByKernel(folder, path),
      (error) => error instanceof DataDirInUse && error.pid === 42,
    );
    await rm(join(folder, 'ports.json'));
    await lock.close();
    await lock.close();
    await (await lockByKernel(folder, path))?.close();
  });
}

test('a folder lock ends with its process', async (t) => {
  const folder = await folderFor(t);
  const module = JSON.stringify(new URL('./folder-lock.js', import.meta.url).href);
  const script = `import(${module}).then((it) => it.lockByKernel(process.argv[1])).then((lock) => {
    console.log(lock === null ? 'unable' : 'held');
    setInterval(() => {}, 1000);
  })`;
  const child = spawn(process.execPath, ['-e', script, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  const [word] = (await once(child.stdout, 'data')) as [Buffer];
  if (word.toString() === 'unable\n') return t.skip('neither flock nor perl is installed');
  await assert.rejects(lockByKernel(folder), DataDirInUse);
  child.kill('SIGKILL');
  await exited;
  await (await lockByKernel(folder))?.close();
});

test('a folder lock is skipped without error where no lock program exists', async (t) => {
  const folder = await folderFor(t);
  await mkdir(join(folder, 'lock'));
  assert.equal(await lockByKernel(folder, await pathWith(t, null)), null);
});
