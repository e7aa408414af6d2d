/**
 * A receiver that is down for long (HEADGATE_TEST_OUTAGE_S, in seconds; five minutes if unset) while rows go on arriving: two `headgate deliver`, one in order
 * by key and one in none. Afterwards each row has arrived, in order where there is one, none is dead, and it was called a few times meanwhile. Tells how
 * long the rows took to catch up, and the memory of the commands.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { deliverySecret, SignedReceiver } from '../support/signed-receiver.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const outageMs = Number(process.env['HEADGATE_TEST_OUTAGE_S'] ?? 300) * 1_000;
const keys = 200;
/** In each of the tables before the receiver is down, and how many of them it has taken by then. */
const before = 3_000;
const takenBefore = 300;
/** The longest rest, and the longest pause of a row that was tried twice, with some time for the rows themselves. */
const caughtUpMs = 420_000;

interface Row {
  readonly table: string;
  readonly n: number;
  readonly key: number;
}

interface Told {
  readonly id: string;
  readonly attempt: number;
  readonly outcome: string;
}

test(
  'deliver sends each row in order by key after a long outage of the receiver, and no row is dead',
  { timeout: outageMs + 1_200_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    const folder = await temporaryFolder(t);
    await writeFile(join(folder, 'secret'), deliverySecret);
    const receiver = new SignedReceiver<Row>();
    const host = await receiver.listen();
    onEnd(t, 'receiver', () => receiver.close());

    const tables = ['orders', 'calls'] as const;
    let n = 0;
    const add = async (): Promise<void> => {
      n += 1;
      for (const table of tables)
        assert.equal(
          (await headgate.post(`dev/public/${table}`, JSON.stringify({ table, n, key: n % keys }))).status,
          200,
        );
    };
    for (const table of tables)
      await root.query(`${(await commandsOf('docs/workers.md', 'table')).replaceAll('orders', table)};
        ALTER TABLE ${table} ADD COLUMN key INT GENERATED ALWAYS AS ((data->>'key')::int) STORED;
        CREATE INDEX ON ${table} (key, id) WHERE done_at IS NULL`);
    for (let row = 0; row < before; row++) await add();

    const told = new Map<string, Told[]>();
    const memories = new Map<string, number[]>();
    const started = tables.map((table) => {
      const args = [cli, 'deliver', table, '--to', `http://${host}/${table}`, '--json'];
      const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
      args.push('--secret-file', join(folder, 'secret'), '--dsn', dsn);
      if (table === 'orders') args.push('--key', 'key');
      const env = { ...process.env, HEADGATE_DELIVER_HOSTS: host };
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
      const lines: Told[] = [];
      told.set(table, lines);
      memories.set(table, []);
      let rest = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        const whole = (rest + text).split('\n');
        rest = whole.pop() ?? '';
        lines.push(...whole.map((line) => JSON.parse(line) as Told));
      });
      const ended = once(child, 'exit');
      onEnd(t, 'deliver', async () => {
        child.kill('SIGKILL');
        await ended;
      });
      return { table, child };
    });
    const remember = async (): Promise<void> => {
      for (const { table, child } of started) {
        assert.equal(child.exitCode, null, table);
        const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
        memories.get(table)?.push(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]));
      }
    };
    const takenOf = (table: string): Row[] => [...receiver.taken.values()].filter((it) => it.table === table);

    await within(60_000, async () => {
      for (const table of tables) assert.ok(takenOf(table).length >= takenBefore, table);
    });
    await receiver.close();
    const takenThen = receiver.taken.size;
    await remember();
    const failuresThen = tables.map((table) => failed(told.get(table)));
    for (const end = performance.now() + outageMs; performance.now() < end; await pause(1_000)) {
      await add();
      if (n % 30 === 0) await remember();
    }
    const failures = tables.map((table, at) => failed(told.get(table)) - (failuresThen[at] ?? 0));
    t.diagnostic(`${takenThen} rows before, and ${2 * n - takenThen} afterwards`);

    await receiver.listen();
    const began = performance.now();
    const caughtUp = new Map<string, number>();
    let first = 0;
    await within(caughtUpMs, async () => {
      if (first === 0 && receiver.taken.size > takenThen) first = performance.now() - began;
      for (const table of tables) {
        const { rows } = await root.query<{ n: number }>(
          `SELECT count(*)::int AS n FROM ${table} WHERE done_at IS NULL`,
        );
        if (rows[0]?.n === 0 && !caughtUp.has(table)) caughtUp.set(table, performance.now() - began);
      }
      assert.equal(caughtUp.size, tables.length);
    });
    await remember();

    for (const [at, table] of tables.entries()) {
      const stored = await root.query(`SELECT (data->>'n')::int AS n FROM ${table} WHERE done_at IS NOT NULL
        AND last_error IS NULL ORDER BY id`);
      const all = Array.from({ length: n }, (_, i) => i + 1);
      assert.deepEqual(
        stored.rows.map((row) => row['n'] as number),
        all,
      );
      const taken = takenOf(table);
      assert.deepEqual(
        taken.map((row) => row.n).toSorted((a, b) => a - b),
        all,
      );
      if (table === 'orders')
        for (let key = 0; key < keys; key++) {
          const numbers = taken.filter((row) => row.key === key).map((row) => row.n);
          assert.deepEqual(
            numbers,
            numbers.toSorted((a, b) => a - b),
            `key ${key}`,
          );
        }
      const lines = told.get(table) ?? [];
      assert.equal(lines.filter(({ outcome }) => outcome === 'dead').length, 0);
      // Eight at one time, twice at most, and then one after each of the rests of 1, 2, 4 … 300 s, of which chance takes nothing.
      assert.ok((failures[at] ?? 0) <= 16 + 9 + outageMs / 300_000, `${failures[at]} failures`);
      const sizes = (memories.get(table) ?? []).map((kib) => Math.round(kib / 1_024));
      t.diagnostic(
        `${table}: ${n} rows, ${failures[at]} attempts in ${outageMs / 60_000} minutes, at most ${Math.max(...lines.map((it) => it.attempt))} of a row, the first after ${(first / 1_000).toFixed(1)} s, the last after ${((caughtUp.get(table) ?? 0) / 1_000).toFixed(1)} s, memory ${sizes[0]} MiB at first, ${Math.max(...sizes)} at most, ${sizes.at(-1)} at the end`,
      );
    }
    // Those whose answers were lost when the receiver went down.
    const twice = [...receiver.attempts.values()].filter((times) => times > 1).length;
    assert.ok(twice <= 16, `${twice} rows arrived more than once`);
  },
);

const failed = (lines: readonly Told[] = []): number =>
  lines.filter(({ outcome }) => outcome === 'failed').length;
