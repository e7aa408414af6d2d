/**
 * What workers cost the senders of a table: 300 requests a second, in turns without workers and beside four that take each row by its lease. Compares the
 * latencies of one run, three times: on a busy machine only their ratio means anything.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';

const child = fileURLToPath(new URL('../support/worker-child.js', import.meta.url));
const turns = 3;
const turnMs = 10_000;

/** 300 requests a second of all senders together; returns their latencies. */
async function sent(headgate: Headgate): Promise<number[]> {
  const latencies: number[] = [];
  const end = performance.now() + turnMs;
  const senders = Array.from({ length: 6 }, async () => {
    for (let due = performance.now(); due < end; due += 20) {
      await pause(Math.max(1, due - performance.now()));
      const began = performance.now();
      assert.equal((await headgate.post('dev/public/orders', '{"total":1}')).status, 200);
      latencies.push(performance.now() - began);
    }
  });
  await Promise.all(senders);
  return latencies;
}

function p99(latencies: readonly number[]): number {
  return latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.99)] ?? 0;
}

test('senders wait no longer beside workers than without', { timeout: 1_800_000 }, async (t) => {
  const ratios: number[] = [];
  for (let run = 0; run < 3; run++) {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(
      `${await commandsOf('docs/workers.md', 'table')}; CREATE TABLE shipped (order_id BIGINT, attempt INT)`,
    );
    const file = join(await temporaryFolder(t), 'attempts');
    await writeFile(file, '');
    const [without, beside]: [number[], number[]] = [[], []];
    await sent(headgate);
    for (let turn = 0; turn < turns; turn++) {
      without.push(...(await sent(headgate)));
      const workers = Array.from({ length: 4 }, () =>
        spawn(process.execPath, [child, headgate.gatewayUrl, file], { stdio: 'ignore' }),
      );
      // Once they work: four programs that start take the processors from everybody.
      await headgate.post('dev/public/orders', '{"total":1}');
      await until(async () => (await root.query('SELECT FROM orders WHERE done_at IS NULL')).rowCount === 0);
      beside.push(...(await sent(headgate)));
      for (const worker of workers) {
        worker.kill('SIGKILL');
        await once(worker, 'exit');
      }
      // What was not done would be more work for the next turn.
      await root.query('TRUNCATE orders, shipped');
    }
    const [a, b] = [p99(without), p99(beside)];
    ratios.push(b / a);
    t.diagnostic(`p99 ${a.toFixed(1)} ms without, ${b.toFixed(1)} ms beside workers: ${(b / a).toFixed(2)}`);
    await root.end();
    await headgate.signal('SIGTERM');
  }
  assert.ok((ratios.toSorted((a, b) => a - b)[1] ?? Infinity) <= 1.1, ratios.join(', '));
});
