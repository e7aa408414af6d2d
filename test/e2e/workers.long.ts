/**
 * What workers cost the senders of a table: 300 requests a second, in short turns to a table whose rows two workers take by their lease, and to another one
 * like it. Compares the medians of the turns' 99th percentiles: on a busy machine only their ratio means anything. The senders run on the same
 * processors as Headgate; so do the workers, with a lower priority, so that what is measured is the lease, and not their own work.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';

const child = fileURLToPath(new URL('../support/worker-child.js', import.meta.url));
/** Pairs: each has both orders in turn. */
const pairs = Number(process.env['HEADGATE_TEST_PAIRS'] ?? 30);
const turnMs = 4_000;

/** 300 requests a second of all senders together; returns their latencies. */
async function sent(headgate: Headgate, table: string): Promise<number[]> {
  const latencies: number[] = [];
  const end = performance.now() + turnMs;
  const senders = Array.from({ length: 6 }, async () => {
    for (let due = performance.now(); due < end; due += 20) {
      await pause(Math.max(1, due - performance.now()));
      const began = performance.now();
      assert.equal((await headgate.post(`dev/public/${table}`, '{"total":1}')).status, 200);
      latencies.push(performance.now() - began);
    }
  });
  await Promise.all(senders);
  return latencies;
}

function part(of: readonly number[], which: number): number {
  return of.toSorted((a, b) => a - b)[Math.floor(of.length * which)] ?? 0;
}

/** Of a process, in ms. */
async function cpuOf(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

for (const effect of ['none', 'in the transaction of the mark'])
  test(`what workers cost the senders of a table; effect: ${effect}`, { timeout: 1_800_000 }, async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    const table = await commandsOf('docs/workers.md', 'table');
    await root.query(
      `${table}; ${table.replaceAll('orders', 'others')}; CREATE TABLE shipped (order_id BIGINT, attempt INT)`,
    );
    const file = join(await temporaryFolder(t), 'attempts');
    await writeFile(file, '');
    const options = [headgate.gatewayUrl, file, effect === 'none' ? 'plain' : 'effect'];
    const workers = Array.from({ length: 2 }, () =>
      spawn(process.execPath, [child, ...options], { stdio: 'ignore' }),
    );
    for (const { pid } of workers) if (pid !== undefined) setPriority(pid, 10);
    onEnd(t, 'workers', async () => {
      for (const worker of workers) {
        const ended = once(worker, 'exit');
        worker.kill('SIGKILL');
        await ended;
      }
    });
    const done = () =>
      until(async () => (await root.query('SELECT FROM orders WHERE done_at IS NULL')).rowCount === 0);
    const found = { orders: [] as number[], others: [] as number[] };
    const middles = { orders: [] as number[], others: [] as number[] };
    const cpu = { orders: 0, others: 0 };
    const pid = headgate.child.pid ?? 0;
    // The first turns, in which code is compiled and plans are made, do not count.
    for (let pair = -2; pair < pairs; pair++)
      for (const to of pair % 2 === 0 ? (['orders', 'others'] as const) : (['others', 'orders'] as const)) {
        const before = await cpuOf(pid);
        const latencies = await sent(headgate, to);
        if (pair >= 0) {
          cpu[to] += ((await cpuOf(pid)) - before) / latencies.length / pairs;
          found[to].push(part(latencies, 0.99));
          middles[to].push(part(latencies, 0.5));
        }
        await done();
      }
    const [beside, without] = [part(found.orders, 0.5), part(found.others, 0.5)];
    const ms = (value: number): string => value.toFixed(1);
    t.diagnostic(
      `p99 of ${pairs} turns each: ${ms(without)} ms without (${ms(part(found.others, 0.25))}–${ms(part(found.others, 0.75))}), ` +
        `${ms(beside)} ms beside two workers (${ms(part(found.orders, 0.25))}–${ms(part(found.orders, 0.75))}): ${(beside / without).toFixed(2)}; ` +
        `p50 ${ms(part(middles.others, 0.5))} and ${ms(part(middles.orders, 0.5))} ms; ` +
        `CPU of Headgate's process a request ${(1_000 * cpu.others).toFixed(0)} and ${(1_000 * cpu.orders).toFixed(0)} µs`,
    );
    // An effect is a statement of the handler's own for each row, which costs what it costs.
    if (effect === 'none') assert.ok(beside / without <= 1.1, `${beside} / ${without}`);
  });
