/**
 * Debezium's embedded engine reads webhook tables through the SQL port, with TLS, a SCRAM password and a role that may replicate and SELECT,
 * under load, while it and Headgate are killed again and again. What it has read is compared with what a second slot of the server says, change by change.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { seededRandom } from '../support/random.ts';
import { within } from '../support/within.ts';
import { peekChanges } from './pgoutput.ts';
import type { Change } from './pgoutput.ts';
import { DebeziumReader } from './reader.ts';
import type { Event } from './reader.ts';

const page = 'docs/passing-on.md';
const password = 'a password of root';
const tables = ['events', 'orders', 'readings'];

test(
  'Debezium reads every change of the log once while it and Headgate are killed',
  { timeout: 570_000 },
  async (t) => {
    const { seed, random } = seededRandom();
    t.diagnostic(`HEADGATE_TEST_SEED=${seed}`);
    const below = (count: number): number => Math.floor(random() * count);
    const stage = await Stage.open(t);
    await stage.make();
    const load = new Load(stage, below);
    onEnd(t, 'load', () => load.stop());
    // What is there before anybody reads is copied first.
    await load.until(300);
    const properties = join(stage.folder, 'debezium.properties');
    await writeFile(properties, await stage.properties());
    const reader = new DebeziumReader(process.env['HEADGATE_DEBEZIUM'] ?? '', properties);
    onEnd(t, 'reader', () => reader.close());
    const readMore = (count: number): Promise<void> => {
      const from = reader.events.length;
      return within(60_000, async () =>
        assert.ok(reader.events.length >= from + count, reader.stderr.slice(-2_000)),
      );
    };

    // One is killed while it copies, or soon after.
    await readMore(1);
    await reader.kill();
    for (const what of [
      'reader',
      'SIGTERM',
      'reader',
      'SIGKILL',
      'reader',
      'SIGKILL',
      'SIGTERM',
      'reader',
      'reader',
    ] as const) {
      await readMore(100 + below(300));
      await delay(random() * 200);
      if (what === 'reader') await reader.kill();
      else await stage.again(what);
    }
    await readMore(100);
    await load.stop();

    const root = await stage.client();
    const log = (await peekChanges(root, 'witness', 'changes')).map(lineOfLog);
    const streamed = (): readonly string[] => once(reader.events.filter(({ op }) => op !== 'r'));
    const last = log.at(-1);
    await within(60_000, async () => assert.ok(streamed().includes(last ?? ''), reader.stderr.slice(-2_000)));
    await reader.kill();

    const changes = streamed();
    const first = log.indexOf(changes[0] ?? '');
    assert.ok(first >= 0, 'what was read is in the log');
    assert.deepEqual(changes.slice(0, 5), log.slice(first, first + 5));
    assert.deepEqual(changes, log.slice(first), 'each change of the log once, in its order');
    for (const table of tables) {
      const { rows } = await root.query<Record<string, unknown>>(`SELECT * FROM ${table}`);
      // What was sent again after a kill may be stored twice, and was then read twice above.
      const stored = [...new Set(rows.map((row) => textOf(Object.values(row).map(textOfValue))))].sort();
      assert.deepEqual(replayed(reader.events, table), stored, table);
    }
    const acknowledged = new Set(
      (await root.query<{ n: number }>("SELECT (data->>'n')::int AS n FROM events")).rows.map(({ n }) => n),
    );
    assert.deepEqual(
      load.answered.filter((n) => !acknowledged.has(n)),
      [],
      'what was answered 200 is stored',
    );
    t.diagnostic(
      `${changes.length} changes, ${reader.events.length - changes.length} copied or read again, in ${reader.begun.length} processes; ${load.answered.length} events answered 200`,
    );
  },
);

class Stage {
  readonly folder: string;
  readonly #t: TestContext;
  readonly #options: { dataDir: string; env: Record<string, string> };
  readonly #ca: string;
  #headgate!: Awaited<ReturnType<typeof startHeadgate>>;
  url = '';

  constructor(t: TestContext, folder: string) {
    this.#t = t;
    this.folder = folder;
    const authority = makeAuthority(folder);
    const { cert, key } = authority.issue('door', 'localhost');
    this.#ca = authority.cert;
    this.#options = {
      dataDir: join(folder, 'data'),
      env: { HEADGATE_SQL_PASSWORD: password, HEADGATE_SQL_TLS_CERT: cert, HEADGATE_SQL_TLS_KEY: key },
    };
  }

  static async open(t: TestContext): Promise<Stage> {
    const stage = new Stage(t, await temporaryFolder(t));
    await stage.#start([]);
    return stage;
  }

  async #start(ports: readonly string[]): Promise<void> {
    this.#headgate = await startHeadgate(this.#t, {
      ...this.#options,
      args: ['--logical-replication', ...ports],
    });
    this.url = `${this.#headgate.webhookUrl}/dev/public`;
  }

  /** At the same ports: who reads comes back by itself. */
  async again(signal: NodeJS.Signals): Promise<void> {
    const { listen, sql } = this.#headgate.ports;
    await this.#headgate.signal(signal);
    await this.#start([`--listen-port=${listen.port}`, `--sql-port=${sql.port}`]);
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
    onEnd(this.#t, 'client', () => client.end().catch(() => {}));
    return client;
  }

  async make(): Promise<void> {
    const root = await this.client();
    await root.query("CREATE TABLE events (data JSONB) WITH (connector = 'webhook')");
    await root.query(
      "CREATE TABLE orders (id BIGINT PRIMARY KEY, n BIGINT, total NUMERIC(20,2), note TEXT) WITH (connector = 'webhook', is_batched = true)",
    );
    await root.query(`CREATE TABLE readings (id BIGINT, day INT, n BIGINT, PRIMARY KEY (id, day))
      PARTITION BY RANGE (day) WITH (connector = 'webhook');
      CREATE TABLE readings_old PARTITION OF readings FOR VALUES FROM (0) TO (5);
      CREATE TABLE readings_new PARTITION OF readings DEFAULT`);
    await root.query(await commandsOf(page, 'reader'));
    await root.query("SELECT pg_create_logical_replication_slot('witness', 'pgoutput')");
  }

  /** Those of the page, and what a test wants sooner than a person does. */
  async properties(): Promise<string> {
    const given = (await commandsOf(page, 'debezium'))
      .replace(/(?<=database.port=).*/, `${this.#headgate.ports.sql.port}`)
      .replace(/(?<=database.sslrootcert=).*/, this.#ca)
      .replace(/(?<=filename=).*/, join(this.folder, 'offsets.dat'));
    return `${given}
offset.flush.interval.ms=200
slot.retry.delay.ms=300
slot.max.retries=100
errors.retry.delay.max.ms=500
converter.schemas.enable=false
`;
  }
}

/** Webhooks of all kinds, each sent until it is answered 200, and rows that are removed meanwhile. */
class Load {
  readonly answered: number[] = [];
  readonly #stage: Stage;
  readonly #below: (count: number) => number;
  readonly #loops: readonly Promise<void>[];
  #n = 0;
  #over = false;

  constructor(stage: Stage, below: (count: number) => number) {
    this.#stage = stage;
    this.#below = below;
    this.#loops = [...Array.from({ length: 6 }, () => this.#send()), this.#remove()];
  }

  async until(count: number): Promise<void> {
    await within(60_000, async () => assert.ok(this.answered.length >= count));
  }

  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#loops);
  }

  async #send(): Promise<void> {
    while (!this.#over) {
      const n = ++this.#n;
      const kind = this.#below(10);
      if (kind < 5) {
        await this.#post('events', JSON.stringify({ n }));
        this.answered.push(n);
      } else if (kind < 9) {
        const order = (id: number) => `{"id":${id},"n":${n},"total":12345678901234567.05,"note":"é${n}"}`;
        await this.#post('orders', [order(this.#below(60)), order(60 + this.#below(60))].join('\n'));
      } else await this.#post('readings', `{"id":${this.#below(40)},"day":${this.#below(10)},"n":${n}}`);
      await delay(2);
    }
  }

  async #post(table: string, body: string): Promise<void> {
    for (;;) {
      const sent = await fetch(`${this.#stage.url}/${table}`, { method: 'POST', body }).catch(() => null);
      const said = await sent?.text().catch(() => '');
      if (sent?.status === 200 || this.#over) return;
      assert.ok(sent === null || sent.status === 503, said);
      await delay(20);
    }
  }

  async #remove(): Promise<void> {
    let client: Client | null = null;
    while (!this.#over) {
      await delay(10);
      try {
        client ??= await this.#stage.client();
        await client.query(`DELETE FROM orders WHERE id = ${this.#below(120)}`);
        await client.query(`DELETE FROM readings WHERE id = ${this.#below(40)} AND day < 8`);
      } catch {
        client = null;
      }
    }
  }
}

const textOf = (values: readonly (string | null)[]): string => JSON.stringify(values);
/** As PostgreSQL prints it, jsonb among it. */
const textOfValue = (value: unknown): string | null =>
  value === null || typeof value === 'string' ? value : JSON.stringify(value).replaceAll('":', '": ');

const valuesOf = ({ op, before, after, source }: Event): readonly (string | null)[] => {
  const row = Object.entries((op === 'd' ? before : after) ?? {});
  if (op !== 'd') return row.map(([, value]) => textOfValue(value));
  const key = source.table === 'orders' ? ['id'] : ['id', 'day'];
  return row.map(([name, value]) => (key.includes(name) ? textOfValue(value) : null));
};

const lineOfLog = ({ xid, table, op, values }: Change): string => `${xid} ${table} ${op} ${textOf(values)}`;
const lineOf = (event: Event): string =>
  `${event.source.txId} ${event.source.schema}.${event.source.table} ${event.op} ${textOf(valuesOf(event))}`;

/** Without what was read again: each transaction and row of it counts where it was read first. */
function once(events: readonly Event[]): readonly string[] {
  return [...new Set(events.map(lineOf))];
}

/** The rows that whoever applies events by their key has in the end. */
function replayed(events: readonly Event[], table: string): readonly string[] {
  const rows = new Map<string, string>();
  for (const event of events.filter(({ source }) => source.table === table)) {
    const values = valuesOf(event);
    const key = textOf(table === 'events' ? values : values.slice(0, table === 'orders' ? 1 : 2));
    if (event.op === 'd') rows.delete(key);
    else rows.set(key, textOf(values));
  }
  return [...rows.values()].sort();
}
