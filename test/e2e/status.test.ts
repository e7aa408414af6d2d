/** Commands find the Headgate that runs on this machine, from any folder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

test('commands find a running Headgate from any folder', async (t) => {
  const home = await temporaryFolder(t);
  const elsewhere = await temporaryFolder(t);
  const env = { HOME: home, PATH: process.env['PATH'] };
  const headgate = (...args: string[]) => run(process.execPath, [cli, ...args], { cwd: elsewhere, env });

  assert.equal((await headgate('status')).code, 3);
  const one = await startHeadgate(t, { env: { HOME: home }, args: ['--listen-host=0.0.0.0'] });

  await t.test('headgate status shows data directory, process and ports', async () => {
    const { code, stdout } = await headgate('status', '--json');
    assert.equal(code, 0);
    const said = JSON.parse(stdout) as {
      data_dir: string;
      pid: number;
      status: string;
      doors: { sql: string };
    };
    assert.deepEqual(
      [said.data_dir, said.pid, said.status, said.doors.sql],
      [one.dataDir, one.child.pid, 'ready', `127.0.0.1:${one.ports.sql.port}`],
    );
    const { port } = one.ports.listen;
    const people = (await headgate('status')).stdout;
    assert.ok(people.includes(`  listen   0.0.0.0:${port}  (every IPv4 address)\n`), people);
  });

  await t.test(
    'headgate sql without a data directory uses the only running Headgate and names it',
    async () => {
      const { code, stdout, stderr } = await headgate('sql', '-c', 'SELECT 40 + 2 AS n', '--json');
      assert.equal(code, 0, stderr);
      assert.match(stdout, /42/);
      assert.match(stderr, new RegExp(`the Headgate on ${one.dataDir} \\(pid ${one.child.pid}\\)`));
    },
  );

  await t.test(
    'a second headgate start on a data directory says that Headgate already runs there',
    async () => {
      const { port } = one.ports.sql;
      const args = ['start', `--data-dir=${one.dataDir}`, `--sql-port=${port}`, '--listen-port=0'];
      const { code, stderr } = await headgate(...args, '--gateway-port=0', '--admin-port=0');
      assert.equal(code, 1);
      assert.match(stderr, /already runs on .* \(pid \d+\)/);
      assert.doesNotMatch(stderr, /another program/);
    },
  );

  await t.test('headgate start on ports in use names the Headgate that has them', async () => {
    const { sql, listen } = one.ports;
    const doors = [
      `--sql-port=${sql.port}`,
      `--listen-port=${listen.port}`,
      '--gateway-port=0',
      '--admin-port=0',
    ];
    const { code, stderr } = await headgate('start', `--data-dir=${elsewhere}/other`, ...doors);
    assert.equal(code, 1);
    const holder = `in use by the Headgate on ${one.dataDir} (pid ${one.child.pid}): set HEADGATE_`;
    for (const port of [sql.port, listen.port])
      assert(
        stderr.split('\n').some((line) => line.includes(`:${port} is ${holder}`)),
        stderr,
      );
  });

  await t.test('a command asks which of several running Headgates is meant', async () => {
    const other = await startHeadgate(t, { env: { HOME: home } });
    const { code, stderr } = await headgate('sql', '-c', 'SELECT 1');
    assert.equal(code, 1);
    assert.match(stderr, /several Headgates run here: .*--data-dir/s);
    await other.signal('SIGKILL');
    // A killed one leaves its file behind; nobody takes it for a running one.
    assert.equal((await headgate('status', '--json')).stdout.trim().split('\n').length, 1);
  });

  await t.test('headgate status lists nothing after a clean stop', async () => {
    await one.signal('SIGTERM');
    assert.equal((await headgate('status')).code, 3);
  });
});
