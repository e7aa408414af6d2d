/** Which files the suite runs, and what it says where tools are missing, where a file never ends, and where it leaves a process. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from './support/cleanup.ts';
import { isRunning } from './support/is-running.ts';
import { run } from './support/run.ts';
import { within } from './support/within.ts';

const script = fileURLToPath(new URL('../../scripts/test.mjs', import.meta.url));
const tools = new URL('./support/tools.js', import.meta.url).href;

const passing = "import { test } from 'node:test';\ntest('passes', () => undefined);";

const files = {
  'plain.test.js': passing,
  'more.extended.test.js': passing,
  'rows.extended.pg.test.js': passing,
  'needs.test.js': `
    import { test } from 'node:test';
    import { requireTool } from ${JSON.stringify(tools)};
    test('needs a tool', (t) => {
      if (requireTool(t, 'a-tool-that-nobody-has') !== null) throw new Error('there it is');
    });`,
  // What it has started holds its output open.
  'hangs.test.js': `
    import { spawn } from 'node:child_process';
    spawn(process.execPath, ['--eval', 'setInterval(() => undefined, 1_000)'], { stdio: 'inherit' });
    setInterval(() => undefined, 1_000);`,
  // What it has started holds nothing of it.
  'leaves.test.js': `
    import { spawn } from 'node:child_process';
    const args = ['--eval', 'setInterval(() => undefined, 1_000)'];
    const child = spawn(process.execPath, args, { stdio: 'ignore' });
    child.unref();
    console.log('started', child.pid);`,
};

suite('npm test runs the named tests and reports failures', () => {
  for (const [args, ran] of [
    [[], ['plain.test.js']],
    [['--extended'], ['more.extended.test.js', 'rows.extended.pg.test.js']],
    [
      ['more', 'plain'],
      ['more.extended.test.js', 'plain.test.js'],
    ],
    [['--extended', 'more', 'plain'], ['more.extended.test.js']],
  ] as const)
    test(`npm test${args.map((arg) => ` ${arg}`).join('')} runs ${ran.join(' and ')}`, async (t) => {
      const { code, stdout } = await runSuite(
        t,
        ['plain.test.js', 'more.extended.test.js', 'rows.extended.pg.test.js'],
        args,
      );
      assert.equal(code, 0, stdout);
      const files = [...stdout.matchAll(/^# (.*) [\d.]+ s, [\d.]+ s of CPU$/gm)];
      assert.deepEqual(
        files.flatMap(([, names = '']) => names.split(' ')).toSorted(),
        ran.map((name) => `dist/${name}`),
      );
    });

  for (const ci of [false, true])
    test(`a test whose tool is missing ${ci ? 'fails where CI=true' : 'is reported as skipped'}`, async (t) => {
      const { code, stdout } = await runSuite(t, ['needs.test.js'], [], ci);
      assert.equal(code, ci ? 1 : 0, stdout);
      assert.match(stdout, ci ? /^# fail 1$/m : /^# skipped 1$/m);
      assert.match(stdout, /a-tool-that-nobody-has is not installed/);
    });

  test('a test file that does not end is killed and named', async (t) => {
    const { code, stdout } = await runSuite(t, ['hangs.test.js'], ['--minutes=0.02']);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^\*\*\* dist\/hangs\.test\.js did not end within 0\.02 minutes$/m);
  });

  test('a process left by a test file is killed and named', { skip: !existsSync('/proc') }, async (t) => {
    const { stdout } = await runSuite(t, ['leaves.test.js'], []);
    assert.match(stdout, /^# left running: .*setInterval.*, by dist\/leaves\.test\.js$/m);
    const pid = Number(/started (\d+)/.exec(stdout)?.[1]);
    await within(5_000, async () => assert.equal(isRunning(pid), false));
  });
});

async function runSuite(
  t: Parameters<typeof onEnd>[0],
  names: readonly (keyof typeof files)[],
  args: readonly string[],
  ci = false,
): Promise<{ code: number | null; stdout: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-suite-'));
  onEnd(t, 'folder', () => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'dist'));
  for (const name of names) await writeFile(join(folder, 'dist', name), files[name]);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const env = { PATH: process.env['PATH'], TMPDIR: folder, ...(ci ? { CI: 'true' } : {}) };
  return run(process.execPath, [script, ...args, '--minutes=1'], { cwd: folder, env });
}
