/**
 * What workers cost the senders of a table: 300 requests a second, in short turns to a table whose rows two workers take by their lease, and to another one
 * like it while the workers are stopped. Compares the medians of the turns' 99th percentiles: on a busy machine only their ratio means anything.
 *
 * What is measured is the lease, not the work of the workers, which are elsewhere as a rule: if the system permits it, senders, Headgate and its engine are in the
 * real-time class, in front of the workers and of whatever else runs on the machine; otherwise the workers have a lower priority. A worker that
 * has to wait for a processor would send only when Headgate has nothing to do, so its requests take a random time to arrive.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
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
/** Until a request of a worker arrives, in ms at most: as long as the senders rest. */
const arrivesMs = 20;
/** Of all threads of this process, and of what it starts from now on. */
const isRealTime = spawnSync('chrt', ['--all-tasks', '--rr', '--pid', '1', String(process.pid)]).status === 0;

/** A worker on its own machine. */
function startWorker(...args: string[]): ChildProcess {
  const [program = '', ...first] = isRealTime
    ? ['chrt', '--other', '0', process.execPath, child]
    : [process.execPath, child];
  const worker = spawn(program, [...first, ...args], { stdio: 'ignore' });
  if (!isRealTime && worker.pid !== undefined) setPriority(worker.pid, 10);
  return worker;
}

/** A port in front of another one, where what comes of one request arrives together, after a random time. */
async function distant(t: TestContext, portOf: () => number): Promise<number> {
  const server = createServer((from) => {
    const to = connect({ host: '127.0.0.1', port: portOf(), noDelay: true });
    let waiting: Buffer[] = [];
    from.on('data', (piece: Buffer) => {
      if (waiting.push(piece) > 1) return;
      setTimeout(() => {
        to.write(Buffer.concat(waiting));
        waiting = [];
      }, Math.random() * arrivesMs);
    });
    to.on('data', (piece: Buffer) => from.write(piece));
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const)
      one.on('error', () => undefined).on('close', () => other.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'distant gateway', () => void server.close());
  return (server.address() as AddressInfo).port;
}

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
  test(
    `two workers keep up with the senders of their table (effect: ${effect})`,
    { timeout: 1_800_000 },
    async (t) => {
      const port = await distant(t, () => headgate.ports.gateway.port);
      const headgate = await startHeadgate(t, {
        // Without the first arguments, which are for a program that lives for seconds.
        shell: 'program="$1"; shift 3; exec "$program" "$@"',
        env: { EVENTS_API_ALLOWED_HOSTS: `127.0.0.1:${port}` },
      });
      const root = await headgate.client(t);
      const table = await commandsOf('docs/workers.md', 'table');
      await root.query(
        `${table}; ${table.replaceAll('orders', 'others')}; CREATE TABLE shipped (order_id BIGINT, attempt INT)`,
      );
      const file = join(await temporaryFolder(t), 'attempts');
      await writeFile(file, '');
      const options = [`http://127.0.0.1:${port}`, file, effect === 'none' ? 'plain' : 'effect'];
      const workers = Array.from({ length: 2 }, () => startWorker(...options));
      onEnd(t, 'workers', async () => {
        for (const worker of workers) {
          const ended = once(worker, 'exit');
          worker.kill('SIGKILL');
          await ended;
        }
      });
      const open = async (): Promise<number> =>
        (await root.query('SELECT FROM orders WHERE done_at IS NULL')).rowCount ?? 0;
      const left: number[] = [];
      const found = { orders: [] as number[], others: [] as number[] };
      const middles = { orders: [] as number[], others: [] as number[] };
      const cpu = { orders: 0, others: 0 };
      const pid = headgate.child.pid ?? 0;
      // The first turns, in which code is compiled and plans are made, do not count.
      for (let pair = -2; pair < pairs; pair++)
        for (const to of pair % 2 === 0 ? (['orders', 'others'] as const) : (['others', 'orders'] as const)) {
          for (const worker of workers) worker.kill(to === 'orders' ? 'SIGCONT' : 'SIGSTOP');
          const before = await cpuOf(pid);
          const latencies = await sent(headgate, to);
          if (pair >= 0) {
            cpu[to] += ((await cpuOf(pid)) - before) / latencies.length / pairs;
            found[to].push(part(latencies, 0.99));
            middles[to].push(part(latencies, 0.5));
            if (to === 'orders') left.push(await open());
          }
          await until(async () => (await open()) === 0);
        }
      const [beside, without] = [part(found.orders, 0.5), part(found.others, 0.5)];
      const ms = (value: number): string => value.toFixed(1);
      t.diagnostic(
        `p99 of ${pairs} turns each: ${ms(without)} ms without (${ms(part(found.others, 0.25))}–${ms(part(found.others, 0.75))}), ` +
          `${ms(beside)} ms beside two workers (${ms(part(found.orders, 0.25))}–${ms(part(found.orders, 0.75))}): ${(beside / without).toFixed(2)}; ` +
          `p50 ${ms(part(middles.others, 0.5))} and ${ms(part(middles.orders, 0.5))} ms; ` +
          `CPU of Headgate's process a request ${(1_000 * cpu.others).toFixed(0)} and ${(1_000 * cpu.orders).toFixed(0)} µs; ` +
          `${part(left, 0.5)} rows open at the end of a turn${isRealTime ? '' : '; not in the real-time class'}`,
      );
      // Workers that do nothing cost nothing.
      assert.ok(part(left, 0.5) <= 300, `${part(left, 0.5)} rows are open`);
      // An effect is a statement of the handler's own for each row, which costs what it costs.
      if (effect === 'none') assert.ok(beside / without <= 1.1, `${beside} / ${without}`);
    },
  );
