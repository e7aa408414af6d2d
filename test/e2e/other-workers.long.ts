/**
 * The other ways of docs/workers.md as it prints them: graphile-worker and pg-boss beside each other on one table, whose owner is no superuser, while they and
 * Headgate are killed. Each answered row is handled, and twice only what a killed worker held, where the page says so.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import type { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { within } from '../support/within.ts';

const page = 'docs/workers.md';
const graphile = import.meta.resolve('graphile-worker');
const boss = import.meta.resolve('pg-boss');
const installer = fileURLToPath(new URL('cli.js', graphile));
/** Rows that a graphile-worker holds at one time. */
const concurrency = 10;

/** A program of the page under a service manager: it is started again when it ends, as both do when the database goes away at a bad moment. */
class Program {
  readonly #file: string;
  readonly #shipped: string;
  readonly #before: () => Promise<void>;
  #child: ChildProcess | null = null;
  #starting: Promise<void> = Promise.resolve();
  #isWanted = false;
  stderr = '';
  ends = 0;

  /** `before`: what the page says has to be done before a start; repeated until it succeeds. */
  constructor(t: TestContext, file: string, shipped: string, before: () => Promise<void>) {
    this.#file = file;
    this.#shipped = shipped;
    this.#before = before;
    onEnd(t, file, () => this.kill());
  }

  start(hold = false): void {
    this.#isWanted = true;
    this.#starting = within(60_000, this.#before).then(() => {
      if (!this.#isWanted) return;
      const env = { ...process.env, SHIPPED: this.#shipped, ...(hold ? { HOLD: 'yes' } : {}) };
      const child = spawn(process.execPath, [this.#file], { env, stdio: ['ignore', 'ignore', 'pipe'] });
      child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
      child.once('exit', () => {
        if (!this.#isWanted) return;
        this.ends += 1;
        this.start(hold);
      });
      this.#child = child;
    });
  }

  async kill(): Promise<void> {
    this.#isWanted = false;
    await this.#starting;
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
}

/** Writes a line to `shipped` for each row; told to hold, it keeps each in hand. */
async function programOf(
  t: TestContext,
  headgate: Headgate,
  name: string,
  shipped: string,
  before: () => Promise<void>,
): Promise<Program> {
  const printed = (await commandsOf(page, name))
    .replace(`'graphile-worker'`, JSON.stringify(graphile))
    .replace(`'pg-boss'`, JSON.stringify(boss))
    .replace('4567', String(headgate.ports.sql.port));
  const source = `import { appendFileSync } from 'node:fs';
    const ship = async (data, { idempotencyKey }) => {
      appendFileSync(process.env.SHIPPED, idempotencyKey + '\\n');
      if (process.env.HOLD !== undefined) await new Promise(() => undefined);
    };
    ${printed}`;
  const { code } = await transform(source, { loader: 'ts', format: 'esm' });
  const file = join(await temporaryFolder(t), `${name}.mjs`);
  await writeFile(file, code);
  return new Program(t, file, shipped, before);
}

test(
  'graphile-worker and pg-boss handle each row answered 200 while they and Headgate are killed',
  { timeout: 180_000 },
  async (t) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    let headgate = await startHeadgate(t, { dataDir });
    const args = headgate.samePorts;
    const shipped = join(folder, 'shipped');
    await writeFile(shipped, '');
    const shippedIds = async (): Promise<string[]> =>
      (await readFile(shipped, 'utf8')).split('\n').slice(0, -1);
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const installed = await run(process.execPath, [installer, '--schema-only', '-c', dsn]);
    assert.equal(installed.code, 0, installed.stderr);
    let root = await headgate.client(t);
    await root.query(
      `CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop; CREATE TABLE called (call_id BIGINT)`,
    );
    const shop = await headgate.clientAs(t, 'shop');
    await shop.query(await commandsOf(page, 'calls'));
    let twiceMost = 0;
    const held = async (client: Client): Promise<number> => {
      const { rows } = await client.query<{ n: number }>(
        'SELECT count(*)::int AS n FROM graphile_worker.jobs WHERE locked_by IS NOT NULL',
      );
      return rows[0]?.n ?? 0;
    };
    const unlock = async (): Promise<void> => {
      const client = await headgate.client(t);
      try {
        const count = await held(client);
        assert.ok(count <= concurrency);
        twiceMost += count;
        await client.query(await commandsOf(page, 'graphile-unlock'));
      } finally {
        await client.end();
      }
    };
    const one = await programOf(t, headgate, 'graphile', shipped, unlock);
    const other = await programOf(t, headgate, 'pg-boss', shipped, () => Promise.resolve());
    other.start();
    await within(30_000, async () => {
      const { rows } = await root.query(`SELECT FROM pgboss.queue WHERE name = 'call'`);
      assert.equal(rows.length, 1, other.stderr);
    });
    await root.query(await commandsOf(page, 'graphile-trigger'));
    await root.query(await commandsOf(page, 'pg-boss-trigger'));

    let answered = 0;
    const send = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 1) {
        assert.equal((await headgate.post('dev/public/calls', '{"total":1}')).status, 200);
        answered += 1;
      }
    };
    // Each is killed somewhere in the middle.
    one.start();
    await send(100);
    await within(30_000, async () => assert((await shippedIds()).length > 20, one.stderr));
    await within(30_000, async () => {
      const { rows } = await root.query('SELECT FROM called');
      assert(rows.length > 0, other.stderr);
    });
    await Promise.all([one.kill(), other.kill()]);
    // With its hands full, when the effects have happened and no job is marked.
    await send(20);
    const before = (await shippedIds()).length;
    one.start(true);
    await within(30_000, async () =>
      assert.equal((await shippedIds()).length, before + concurrency, one.stderr),
    );
    await one.kill();
    assert.equal(await held(root), concurrency);
    one.start();
    other.start();
    await send(40);
    await headgate.signal('SIGKILL');
    headgate = await startHeadgate(t, { dataDir, args });
    root = await headgate.client(t);
    await send(20);
    await within(90_000, async () => {
      const { rows } = await root.query(`SELECT (SELECT count(*)::int FROM graphile_worker.jobs) AS graphile,
        (SELECT count(*)::int FROM pgboss.job WHERE name = 'call' AND state <> 'completed') AS boss`);
      assert.deepEqual(rows, [{ graphile: 0, boss: 0 }], `${one.stderr}\n${other.stderr}`);
    });

    const { rows: stored } = await root.query<{ id: string }>('SELECT id FROM calls ORDER BY id');
    const ids = stored.map(({ id }) => id);
    assert(ids.length >= answered);
    const byNumber = (a: string, b: string) => Number(a) - Number(b);
    const lines = await shippedIds();
    assert.deepEqual([...new Set(lines)].toSorted(byNumber), ids);
    assert(lines.length <= ids.length + twiceMost, `${lines.length} of ${ids.length}, ${twiceMost} held`);
    const { rows: called } = await root.query<{ id: string }>('SELECT call_id AS id FROM called ORDER BY 1');
    assert.deepEqual(
      called.map(({ id }) => id),
      ids,
    );
    t.diagnostic(
      `${answered} answered, ${ids.length} stored, ${lines.length - ids.length} handled once more of ${twiceMost} held, ended by themselves ${one.ends} and ${other.ends} times`,
    );
  },
);
