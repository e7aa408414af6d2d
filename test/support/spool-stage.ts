/** One server and one Headgate with a spool, which the cases of a test kill and start. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate, temporaryFolder } from './headgate.ts';
import type { Answer } from './asked.ts';
import type { Headgate } from './headgate.ts';
import { MortalServer } from './mortal-server.ts';
import { run } from './run.ts';
import { spoolOpened } from './spool-opened.ts';
import { within } from './within.ts';

const mebibyte = 1024 * 1024;

export class SpoolStage {
  readonly server: MortalServer;
  readonly dataDir: string;
  readonly #t: TestContext;
  #headgate: Headgate | null = null;
  #read = 0;

  constructor(t: TestContext, server: MortalServer, dataDir: string) {
    this.#t = t;
    this.server = server;
    this.dataDir = dataDir;
  }

  get headgate(): Headgate {
    assert(this.#headgate !== null);
    return this.#headgate;
  }

  get folder(): string {
    return join(this.dataDir, 'spool');
  }

  async startHeadgate(env: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#read = 0;
    this.#headgate = await startHeadgate(this.#t, {
      dataDir: this.dataDir,
      env: {
        HEADGATE_DATABASE_URL: this.server.databaseUrl,
        HEADGATE_BODY_BYTES_MAX: String(mebibyte),
        HEADGATE_SPOOL_BYTES: String(16 * mebibyte),
        ...env,
      },
    });
  }

  async killHeadgate(): Promise<void> {
    await this.headgate.signal('SIGKILL');
  }

  command(...args: readonly string[]) {
    const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
    const env = {
      ...process.env,
      HEADGATE_DATABASE_URL: this.server.databaseUrl,
      HEADGATE_DATA_DIR: this.dataDir,
    };
    return run(process.execPath, [cli, ...args], { env });
  }

  async post(table: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.headgate.post(`postgres/public/${table}`, body, headers);
  }

  async statuses(table: string, bodies: readonly string[]): Promise<number[]> {
    const all: number[] = [];
    for (const body of bodies) all.push((await this.post(table, body)).status);
    return all;
  }

  /** Through Headgate's own SQL door. */
  async sql<Row extends object>(text: string): Promise<Row[]> {
    const client = await this.headgate.client(this.#t, 'postgres');
    const { rows } = await client.query<Row>(text);
    await client.end();
    return rows;
  }

  /** Directly, bypassing Headgate. */
  async ask<Row extends object>(text: string): Promise<Row[]> {
    const client = await this.server.connect(this.#t);
    const { rows } = await client.query<Row>(text);
    await client.end();
    return rows;
  }

  async ids(table: string): Promise<number[]> {
    const rows = await this.ask<{ id: number }>(`select (data->>'id')::int as id from ${table} order by 1`);
    return rows.map(({ id }) => id);
  }

  /** Waits until everything kept since the last kill has arrived, and requests go to the database again. */
  async untilDirect(table: string, text: string): Promise<void> {
    await this.#said((line) => line.includes('spool.left') && line.includes(`public.${table}"`));
    assert.equal((await this.post(table, text)).status, 200);
  }

  async killServer(): Promise<void> {
    await spoolOpened(this.dataDir, 'postgres');
    this.#read = this.headgate.stderr.length;
    await this.server.kill();
    // Until then, requests being committed are answered 503, because their outcome is unknown.
    await this.#said((line) => line.includes('catalog.unreadable'));
  }

  async #said(matches: (line: string) => boolean): Promise<void> {
    await within(15_000, async () => {
      await delay(10);
      const lines = this.headgate.stderr.slice(this.#read).split('\n');
      assert(lines.some(matches), this.headgate.stderr.slice(-2_000));
    });
  }

  /** Every file of the spool's folder. */
  *files(folder = this.folder): Generator<string> {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const path = join(folder, name);
      if (statSync(path).isFile()) yield path;
    }
  }
}

/** With tables that spool: `kept`, `latest`, and `guarded`, whose check is a signature by `secret`; and one that does not, `other`. */
export async function stageWithTables(t: TestContext, secret: string): Promise<SpoolStage> {
  const stage = new SpoolStage(t, await MortalServer.start(t), await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE kept (data JSONB) INCLUDE BODY AS raw INCLUDE QUERY AS query INCLUDE REMOTE ADDRESS AS sender
      WITH (connector = 'webhook', spool = 'fallback');
    CREATE TABLE other (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE latest (id INT PRIMARY KEY, n INT CHECK (n <> 13), "from" TEXT) INCLUDE HEADER 'x-from' AS "from"
      WITH (connector = 'webhook', spool = 'fallback', spool_status = '200');
    CREATE TABLE guarded (data JSONB) WITH (connector = 'webhook')
      VALIDATE SECRET s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'));
    ALTER TABLE guarded SET (spool = 'fallback')`);
  // Written down, with all tables in it.
  await within(10_000, async () => {
    await delay(10);
    assert(statSync(join(stage.folder, 'postgres', 'tables.sealed')).size > 4_000);
  });
  return stage;
}
