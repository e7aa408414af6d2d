/** The unit file, by systemd's own checks, which need no running systemd, and against Headgate's own bounds. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

const path = join(root, 'deploy/systemd/headgate.service');
const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => /^\w+=/.test(line));
const values = (name: string) =>
  lines.filter((line) => line.startsWith(`${name}=`)).map((line) => line.slice(name.length + 1));

const isAboutOurs = (line: string): boolean => /headgate[\w-]*\.(service|socket)/.test(line);

suite('the systemd units are correct', () => {
  test('systemd accepts every line of the service and socket units', async (t) => {
    const analyze = requireTool(t, 'systemd-analyze');
    if (analyze === null) return;
    const sockets = ['headgate.socket', 'headgate-challenge.socket'].map((it) => join(dirname(path), it));
    const ran = await run(analyze, ['verify', '--man=no', path, ...sockets]);
    // It reads the machine's own units too, and has its say about them, in lines that begin with their paths.
    assert.deepEqual(ran.stderr.split('\n').filter(isAboutOurs), []);
    if (ran.code !== 0)
      assert.ok(
        ran.stderr.split('\n').some((line) => line !== ''),
        'failed without a word',
      );
  });

  test('systemd-analyze security rates the service unit `OK`', async (t) => {
    const analyze = requireTool(t, 'systemd-analyze');
    if (analyze === null) return;
    // In tenths, below 10: the lower, the less is left to the service. Most services of a distribution stand at 96.
    const ran = await run(analyze, ['security', '--offline=yes', '--threshold=20', '--no-pager', path]);
    assert.equal(ran.code, 0, ran.stdout);
    t.diagnostic(ran.stdout.trim().split('\n').at(-1) ?? '');
  });

  test('the systemd unit sets the stop timeout, signals the main process only, and raises the file limit', () => {
    assert.deepEqual(values('KillMode'), ['mixed']);
    const [stopSeconds] = values('TimeoutStopSec').map(Number);
    assert((stopSeconds ?? 0) * 1000 > limits.drainMs + limits.engineStopMs);
    const [files] = values('LimitNOFILE').map(Number);
    assert((files ?? 0) > limits.listenConnectionsMax + limits.sqlConnectionsMax * 2);
    const [state] = values('StateDirectory');
    assert(values('Environment').some((value) => value.includes(`HEADGATE_DATA_DIR=/var/lib/${state}`)));
    assert.match(values('ExecStart')[0] ?? '', /^\/usr\/bin\/node \/\S+\/dist\/src\/app\/cli\.js start$/);
  });
});
