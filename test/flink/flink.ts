/**
 * Apache Flink follows webhook tables through the SQL port, with TLS and a role that may replicate and SELECT, and writes what it computes back
 * through the same port, while it and Headgate are killed. What it has computed is compared with PostgreSQL's own answer over the tables.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { seededRandom } from '../support/random.ts';
import { within } from '../support/within.ts';
import { FlinkJob } from './job.ts';

const page = 'docs/passing-on.md';
const password = 'a password of root';
const waitMs = 150_000;

const totals = `SELECT tenant, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS minute, count(*)::text AS n, sum(amount)::numeric(20,2)::text AS amount
  FROM orders GROUP BY 1, 2`;
const eventTotals = `SELECT data->>'tenant' AS tenant, count(*)::text AS n, sum((data->>'amount')::numeric(12,2))::numeric(20,2)::text AS amount FROM events GROUP BY 1`;

test(
  'Flink computes the same totals as PostgreSQL while it and Headgate are killed',
  { timeout: 900_000 },
  async (t) => {
    const { seed, random } = seededRandom();
    t.diagnostic(`HEADGATE_TEST_SEED=${seed}`);
    const below = (count: number): number => Math.floor(random() * count);
    const stage = await Stage.open(t);
    const root = await stage.client();
    await root.query(`CREATE TABLE orders (id BIGINT PRIMARY KEY, tenant TEXT, amount NUMERIC(12,2), at TIMESTAMPTZ DEFAULT now()) WITH (connector = 'webhook');
    CREATE TABLE events (data JSONB) WITH (connector = 'webhook')`);
    await root.query(await commandsOf(page, 'reader'));
    await root.query(await commandsOf(page, 'computed'));
    await root.end();
    let sent = 0;
    /** Each is sent until it is answered 200. */
    const send = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 10)
        await Promise.all(
          Array.from({ length: 10 }, () => {
            const row = `"tenant":"t${below(5)}","amount":${below(10_000)}.${10 + below(90)}`;
            return below(3) === 0
              ? stage.post('events', `{${row}}`)
              : stage.post('orders', `{"id":${below(300)},${row}}`);
          }),
        );
      sent += count;
    };
    const remove = async (): Promise<void> => {
      const client = await stage.client();
      await client.query(`DELETE FROM orders WHERE id < ${below(100)}`);
      await client.end();
    };
    const same = (): Promise<void> =>
      within(waitMs, async () => {
        const client = await stage.client();
        try {
          for (const [view, query] of [
            ['totals', totals],
            ['event_totals', eventTotals],
          ] as const) {
            const columns =
              view === 'totals' ? 'tenant, minute, n::text, amount::text' : 'tenant, n::text, amount::text';
            const { rows: computed } = await client.query<object>(
              `SELECT ${columns} FROM views.${view} ORDER BY 1, 2`,
            );
            const { rows: stored } = await client.query<object>(`SELECT * FROM (${query}) q ORDER BY 1, 2`);
            assert.deepEqual(
              computed,
              stored,
              `${await readersOf(client)}\n${stage.job.resumed.slice(-20_000)}\n${stage.job.stderr.slice(-2_000)}`,
            );
          }
        } finally {
          await client.end();
        }
      });

    // What is there before is copied first.
    await send(300);
    stage.job.start();
    await same();
    for (const what of ['flink', 'SIGKILL', 'flink', 'SIGTERM'] as const) {
      await send(200 + below(200));
      await remove();
      // What goes on from must be there.
      await within(waitMs, async () => assert.ok(stage.job.newest !== null, stage.job.stderr.slice(-2_000)));
      const killed = what === 'flink' ? stage.killFlink() : stage.again(what);
      await Promise.all([killed, send(100)]);
      await send(100);
      await same();
    }
    const client = await stage.client();
    const { rows } = await client.query<{ slot_name: string; moves: boolean }>(
      'SELECT slot_name, confirmed_flush_lsn IS NOT NULL AS moves FROM pg_replication_slots ORDER BY 1',
    );
    assert.deepEqual(
      rows.map(({ slot_name: slot }) => slot),
      ['flink_events', 'flink_orders'],
    );
    await client.end();
    t.diagnostic(`${sent} webhooks`);
  },
);

/** What Flink's sources hold at the server, should they be behind. */
async function readersOf(client: Client): Promise<string> {
  const { rows } = await client.query<{ all: string }>(
    `SELECT json_build_object('slots', (SELECT json_agg(s) FROM pg_replication_slots s),
      'sessions', (SELECT json_agg(json_build_object('type', backend_type, 'application', application_name, 'state', state, 'wait', wait_event,
        'since', state_change, 'query', left(query, 200))) FROM pg_stat_activity WHERE usename IN ('reader', 'writer')))::text AS all`,
  );
  return rows[0]?.all ?? '';
}

class Stage {
  readonly job: FlinkJob;
  readonly #t: TestContext;
  readonly #ca: string;
  readonly #options: { dataDir: string; env: Record<string, string> };
  #headgate!: Headgate;

  private constructor(t: TestContext, folder: string) {
    this.#t = t;
    const authority = makeAuthority(folder);
    const { cert, key } = authority.issue('door', 'localhost');
    this.#ca = authority.cert;
    const env = { HEADGATE_SQL_PASSWORD: password, HEADGATE_SQL_TLS_CERT: cert, HEADGATE_SQL_TLS_KEY: key };
    this.#options = { dataDir: join(folder, 'data'), env };
    this.job = new FlinkJob(
      process.env['HEADGATE_FLINK'] ?? '',
      join(folder, 'job.sql'),
      join(folder, 'checkpoints'),
    );
    onEnd(t, 'flink', () => this.job.kill());
  }

  static async open(t: TestContext): Promise<Stage> {
    const folder = await temporaryFolder(t);
    const stage = new Stage(t, folder);
    await stage.#start([]);
    const { port } = stage.#headgate.ports.sql;
    const statements = (await commandsOf(page, 'flink'))
      .replaceAll('gate.example.com', 'localhost')
      .replaceAll('4567', String(port))
      .replaceAll('/etc/headgate/ca.pem', stage.#ca);
    await writeFile(join(folder, 'job.sql'), statements);
    return stage;
  }

  async #start(ports: readonly string[]): Promise<void> {
    this.#headgate = await startHeadgate(this.#t, {
      ...this.#options,
      args: ['--logical-replication', ...ports],
    });
  }

  /** At the same ports: Flink comes back by itself. */
  async again(signal: NodeJS.Signals): Promise<void> {
    const { listen, sql } = this.#headgate.ports;
    await this.#headgate.signal(signal);
    await this.#start([`--listen-port=${listen.port}`, `--sql-port=${sql.port}`]);
  }

  async killFlink(): Promise<void> {
    await this.job.kill();
    this.job.start();
  }

  async client(): Promise<Client> {
    const client = new Client({
      host: 'localhost',
      port: this.#headgate.ports.sql.port,
      user: 'root',
      password,
      database: 'dev',
      ssl: { ca: await readFile(this.#ca, 'utf8') },
    });
    client.on('error', () => {});
    await client.connect();
    return client;
  }

  async post(table: string, body: string): Promise<void> {
    await within(waitMs, async () => {
      const { status, text } = await asked(`${this.#headgate.webhookUrl}/dev/public/${table}`, {
        method: 'POST',
        body,
      });
      assert.equal(status, 200, text);
    });
  }
}
