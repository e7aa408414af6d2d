/** What is wrong in settings is told before anything is made, all of it together, with the names of the settings. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, mkdir, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const freePorts = ['listen', 'sql', 'gateway', 'admin'].map((door) => `--${door}-port=0`);
const headgate = (command: string, dataDir: string, env: Record<string, string>, args: string[] = []) =>
  run(process.execPath, [cli, command, `--data-dir=${dataDir}`, '--listen-host=127.0.0.1', ...args], {
    env: { PATH: process.env['PATH'], HEADGATE_LISTENERS: '1', ...env },
  });

suite('settings are checked before a start', () => {
  test('headgate config and start refuse the same settings, and create nothing', async (t) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    // What is refused, and in which words, is in check-settings.test.ts: here are one that is wrong by itself, and one that is looked at later.
    for (const [env, words] of [
      [{ HEADGATE_LISTEN_PROT: '1' }, /^headgate: HEADGATE_LISTEN_PROT is not a setting: .*\n$/],
      [{ HEADGATE_SQL_HOST: '0.0.0.0' }, /^headgate: HEADGATE_SQL_HOST=0\.0\.0\.0 would let in anybody.*\n$/],
    ] as const) {
      const config = await headgate('config', dataDir, env);
      assert.match(config.stderr, words);
      assert.equal(config.code, 1);
      const { code, stderr } = await headgate('start', dataDir, env);
      assert.deepEqual([code, stderr], [1, config.stderr]);
      await assert.rejects(readdir(dataDir), /ENOENT/);
    }
    const twice = await headgate('config', dataDir, {}, ['--sql-port=1', '--sql-port=2']);
    assert.match(twice.stderr, /--sql-port <N>' argument '2' is invalid\. It is given twice/);
    const key = Buffer.alloc(32, 1).toString('base64');
    const fine = await headgate('config', dataDir, { HEADGATE_MASTER_KEY: key });
    assert.deepEqual([fine.code, fine.stderr, fine.stdout.startsWith('HEADGATE_DATA_DIR')], [0, '', true]);
    assert.match(fine.stdout, /^HEADGATE_MASTER_KEY +\*\*\* +HEADGATE_MASTER_KEY$/m);
    assert(!fine.stdout.includes(key));
    const several = { HEADGATE_PUBLIC_URL: 'ftp://x', HEADGATE_TYPO: '1', HEADGATE_LOG_LEVEL: 'loud' };
    const { stderr } = await headgate('config', dataDir, several, ['--sql-port=70000']);
    assert.equal(stderr.trim().split('\n').length, 4, stderr);
  });

  test('ports and addresses of the settings are checked before anything is created', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onEnd(t, 'server', () => new Promise<void>((resolve) => void taken.close(() => resolve())));
    const { port } = taken.address() as AddressInfo;
    const dataDir = join(await temporaryFolder(t), 'data');
    const env = {
      HEADGATE_SQL_PORT: String(port),
      HEADGATE_GATEWAY_HOST: '256.1.1.1',
      EVENTS_API_TOKEN: 'x',
    };
    const args = freePorts.filter((flag) => !flag.startsWith('--sql'));
    const { code, stderr } = await headgate('start', dataDir, env, args);
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(`^headgate: 127.0.0.1:${port} is in use by another program: set HEADGATE_SQL_PORT`),
    );
    assert.match(
      stderr,
      /^headgate: HEADGATE_GATEWAY_HOST=256\.1\.1\.1 is not an address to listen on \(E\w+\)$/m,
    );
    await assert.rejects(readdir(dataDir), /ENOENT/);
  });

  test('an unusable data directory, of another user or read-only, is reported with the remedy', async (t) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    await (await startHeadgate(t, { dataDir })).signal('SIGTERM');
    if (process.getuid?.() !== 0) {
      await chmod(join(dataDir, 'pg'), 0o000);
      onEnd(t, 'mode', () => chmod(join(dataDir, 'pg'), 0o700));
      const refused = await headgate('start', dataDir, {}, freePorts);
      assert.match(
        refused.stderr,
        /^headgate: HEADGATE_DATA_DIR: the database in .* belongs to another user .* chown -R$/,
      );
      return;
    }
    const readOnly = join(folder, 'read-only');
    await mkdir(readOnly);
    const mounted =
      spawnSync('mount', ['--bind', dataDir, readOnly]).status === 0 &&
      spawnSync('mount', ['-o', 'remount,ro,bind', readOnly]).status === 0;
    if (!mounted) return t.skip('nothing can be mounted here');
    onEnd(t, 'mount', () => void spawnSync('umount', [readOnly]));
    const refused = await headgate('start', readOnly, {}, freePorts);
    assert.match(
      refused.stderr,
      /^headgate: the data directory .* is on a file system that is mounted read-only: mount it/,
    );
    await rm(join(dataDir, 'ports.json'), { force: true });
  });
});
