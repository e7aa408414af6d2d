/** Standard error and standard output that are full, closed, or read by nobody end nothing and hold nothing up. */
import assert from 'node:assert/strict';
import { openSync, closeSync, ftruncateSync } from 'node:fs';
import { readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { asked } from '../support/asked.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate, StartOptions } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** A line for each request: more than a pipe holds. */
const loud = ['--log-level=debug'];

async function serves(headgate: Headgate, requests: number): Promise<void> {
  for (let i = 0; i < requests; i += 50) {
    const answers = Array.from({ length: 50 }, () => headgate.post('dev/public/nothing', '{}'));
    for (const { status } of await Promise.all(answers)) assert.equal(status, 404);
  }
  assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200);
}

async function servesAndStops(t: TestContext, options: StartOptions, requests = 50): Promise<void> {
  const headgate = await startHeadgate(t, { args: loud, ...options });
  await serves(headgate, requests);
  assert.deepEqual(await headgate.signal('SIGTERM'), { code: 0, signal: null });
}

const places: readonly (readonly [where: string, tried: (t: TestContext) => Promise<void>])[] = [
  ['while standard error is on a full device', (t) => servesAndStops(t, { shell: 'exec "$@" 2>/dev/full' })],
  ['while standard error is closed', (t) => servesAndStops(t, { shell: 'exec "$@" 2>&-' })],
  [
    "after the log's reader has gone",
    async (t) =>
      servesAndStops(t, {
        // The one that `head` reads is gone, and the shell has become the program: its signals and its status are those of it.
        shell: 'mkfifo "$FIFO"; head -1 <"$FIFO" >/dev/null & exec "$@" 2>"$FIFO"',
        env: { FIFO: join(await temporaryFolder(t), 'fifo') },
      }),
  ],
  ["while nobody reads the log's pipe", (t) => servesAndStops(t, { unread: true }, 500)],
];

suite('Headgate serves with an unwritable log', () => {
  for (const [where, tried] of sampleOf(places, 1)) test(`Headgate serves ${where}`, tried);

  test('a log file at its size limit loses lines, and their number is the first line written again', async (t) => {
    const log = join(await temporaryFolder(t), 'log');
    // Larger than a segment of the engine's log, which has the same bound.
    const bytes = 32 * 1024 * 1024;
    const file = openSync(log, 'w');
    ftruncateSync(file, bytes - 1_000);
    closeSync(file);
    const headgate = await startHeadgate(t, {
      args: loud,
      env: { LOG: log },
      shell: `ulimit -f ${bytes / 512}; exec "$@" 2>>"$LOG"`,
    });
    await serves(headgate, 50);
    await truncate(log, 0);
    await headgate.post('dev/public/nothing', '{}');
    await within(10_000, async () => {
      const [first = '{}'] = (await readFile(log, 'utf8')).replace(/^\n/, '').split('\n');
      const { kind, lines, reason } = JSON.parse(first) as Record<string, unknown>;
      assert.equal(kind, 'log.lost');
      assert.equal(reason, 'EFBIG');
      // One for each request.
      assert.ok((lines as number) >= 50);
    });
    assert.deepEqual(await headgate.signal('SIGTERM'), { code: 0, signal: null });
    const whole = (await readFile(log, 'utf8')).trim().split('\n');
    assert.match(whole.at(-1) ?? '', /service\.stopped/);
  });

  test("Headgate serves while the terminal's output is stopped", async (t) => {
    const python = requireTool(t, 'python3');
    if (python === null) return;
    const dataDir = await temporaryFolder(t);
    const headgate = await startHeadgate(t, {
      dataDir,
      args: loud,
      env: { PYTHON: python, STOPPED: stoppedTerminal },
      shell: 'exec "$PYTHON" -c "$STOPPED" "$@"',
    });
    await serves(headgate, 200);
    assert.equal((await headgate.signal('SIGTERM')).code, 0);
  });

  test('a command with standard output on a full device says so and exits with 1', async (t) => {
    const dataDir = await temporaryFolder(t);
    const [node, cli] = [process.execPath, new URL('../../src/app/cli.js', import.meta.url).pathname];
    const config = (to: string) =>
      run('/bin/sh', ['-c', `"$@" ${to}`, 'sh', node, cli, 'config', `--data-dir=${dataDir}`], {
        env: { PATH: process.env['PATH'] },
      });
    const full = await config('>/dev/full');
    assert.equal(full.code, 1);
    assert.match(full.stderr, /^headgate: standard output cannot be written \(ENOSPC\)$/m);
    const head = await config('| head -1');
    assert.equal(head.stderr, '');
    assert.match(head.stdout, /^HEADGATE_DATA_DIR/);
  });
});

/** Runs its arguments with standard error on a terminal that is never read, and passes a SIGTERM on. */
const stoppedTerminal = `
import os, pty, signal, subprocess, sys
master, slave = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stderr=slave)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
sys.exit(child.wait())
`;
