/** The suite where tools are missing and where a file never ends: it says so, and ends. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from './support/cleanup.ts';
import { run } from './support/run.ts';

const script = fileURLToPath(new URL('../../scripts/test.mjs', import.meta.url));
const tools = new URL('./support/tools.js', import.meta.url).href;

const files = {
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
};

suite('npm test', () => {
  for (const ci of [false, true])
    test(`a missing tool ${ci ? 'fails where CI=true' : 'is said and passed over'}`, async (t) => {
      const { code, stdout } = await runSuite(t, ['needs.test.js'], '1', ci);
      assert.equal(code, ci ? 1 : 0, stdout);
      assert.match(stdout, ci ? /^# fail 1$/m : /^# skipped 1$/m);
      assert.match(stdout, /a-tool-that-nobody-has is not installed/);
    });

  test('a test file that does not end is killed and named', async (t) => {
    const { code, stdout } = await runSuite(t, ['hangs.test.js'], '0.02', false);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^\*\*\* dist\/hangs\.test\.js did not end within 0\.02 minutes$/m);
  });
});

async function runSuite(
  t: Parameters<typeof onEnd>[0],
  names: readonly (keyof typeof files)[],
  minutes: string,
  ci: boolean,
): Promise<{ code: number | null; stdout: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-suite-'));
  onEnd(t, 'folder', () => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'dist'));
  for (const name of names) await writeFile(join(folder, 'dist', name), files[name]);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const env = { PATH: process.env['PATH'], TMPDIR: folder, ...(ci ? { CI: 'true' } : {}) };
  return run(process.execPath, [script, `--minutes=${minutes}`], { cwd: folder, env });
}
