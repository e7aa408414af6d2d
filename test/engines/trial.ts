/**
 * What is tried of Headgate in each place that it may run in: start, DDL, ingest, freshness, faults. Gives a row of the table in
 * docs/operating/engines.md; what fails is a cell with the message that its user reads, and never hides what comes behind it.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { parseDsn } from '../../src/engine/dsn.ts';
import { onEnd } from '../support/cleanup.ts';
import { revokedAfterMs } from '../support/freshness.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

/** Where Headgate is started. */
export interface Place {
  readonly url: string;
  /** A superuser of the same database, past whatever stands between. */
  readonly direct: () => ClientConfig;
  /** What happens to it under load; absent: Headgate's sessions are ended, five times. */
  readonly faults?: readonly Fault[];
  /** What is done to the tables of the trial before rows come; as the superuser. */
  readonly prepare?: readonly string[];
  /** More that is tried before the faults. */
  readonly more?: (post: Post, direct: Client, client: Client) => Promise<string>;
}

/** A table without its schema is one of the trial. */
export type Post = (
  table: string,
  body: string,
  headers?: Record<string, string>,
) => Promise<{ readonly status: number; readonly text: string }>;

export interface Fault {
  readonly name: string;
  readonly happen: () => Promise<void>;
}

export interface Row {
  readonly name: string;
  readonly start: string;
  readonly ddl: string;
  readonly ingest: string;
  readonly fresh: string;
  readonly faults: string;
}

const schema = 'hooks';
/** A changed key, or a dropped table, counts within this long. */
const freshMsMax = 1_000;
const key = 'engines';
const signed = `VALIDATE SECRET ${schema}.s AS
  secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`;

export async function tryPlace(t: TestContext, name: string, place: Place): Promise<Row> {
  const env = { HEADGATE_DATABASE_URL: place.url, HEADGATE_MASTER_KEY: randomBytes(32).toString('base64') };
  const refused = { name, ddl: '–', ingest: '–', fresh: '–', faults: '–' };
  let headgate: Headgate;
  try {
    headgate = await startHeadgate(t, { env });
    await within(20_000, async () => assert.equal(await readiness(headgate), 'ready'));
  } catch (error) {
    return { ...refused, start: `refused: ${reasonOf(error)}` };
  }
  const direct = await connect(t, place.direct());
  const client = await connect(t, ownOf(headgate, place));
  const { database } = dsnOf(place.url);
  const path = (table: string) =>
    `${database}/${(table.includes('.') ? table : `${schema}.${table}`).replace('.', '/')}`;
  const start = '●';
  const stated = await cell(async () => {
    await tryStatements(client, direct);
    for (const sql of place.prepare ?? []) await direct.query(sql);
    return '';
  });
  const ingest = await cell(() => tryRequests(headgate, client, path));
  const fresh = await cell(() => tryFreshness(headgate, client, direct, path('t')));
  const post: Post = (table, body, headers) => headgate.post(path(table), body, headers);
  const more = await cell(() => place.more?.(post, direct, client));
  const ddl = stated === '●' ? more : stated;
  const faults = await cell(() => tryFaults(t, headgate, place, path('ledger')));
  if ([ddl, ingest, fresh, faults].some((it) => it.startsWith('○')))
    for (const line of headgate.stderr
      .split('\n')
      .filter((it) => /"level":"(warn|error)"/.test(it))
      .slice(0, 20))
      t.diagnostic(line);
  return { name, start, ddl, ingest, fresh, faults };
}

async function readiness(headgate: Headgate): Promise<string> {
  const said = (await (await fetch(`${headgate.adminUrl}/readyz`)).json()) as Record<string, string>;
  return said['status'] === 'ready' ? 'ready' : (said['reason'] ?? JSON.stringify(said));
}

function reasonOf(error: unknown): string {
  const { actual, message } = error as { actual?: unknown; message: string };
  if (typeof actual === 'string') return actual;
  // What a start that ended has logged last.
  return (
    message
      .split('\n')
      .findLast((line) => line.trim() !== '')
      ?.trim() ?? message
  );
}

async function cell(attempt: () => Promise<string> | undefined): Promise<string> {
  try {
    return `● ${(await attempt()) ?? ''}`.trim();
  } catch (error) {
    return `○ ${(error as Error).message.replaceAll(/\s+/g, ' ').slice(0, 300)}`;
  }
}

/** What connects right after a fault may meet it. */
async function connect(t: TestContext, config: ClientConfig): Promise<Client> {
  return within(20_000, async () => {
    const client = new Client(config);
    client.on('error', () => {});
    await client.connect();
    onEnd(t, 'client', () => client.end().catch(() => {}));
    return client;
  });
}

function dsnOf(url: string): {
  readonly user: unknown;
  readonly password: unknown;
  readonly database: string;
} {
  const { servers, database } = parseDsn(url);
  return { user: servers[0]?.config.user, password: servers[0]?.config.password, database };
}

/** Through the SQL port, as the role of the place. */
function ownOf(headgate: Headgate, { url }: Place): ClientConfig {
  const { user, password } = dsnOf(url);
  const { port } = headgate.ports.sql;
  return { host: '127.0.0.1', port, database: dsnOf(url).database, user, password } as ClientConfig;
}

async function tryStatements(client: Client, direct: Client): Promise<string> {
  const run = async (sql: string) => {
    try {
      return await client.query<Record<string, string>>(sql);
    } catch (error) {
      throw new Error(`${sql.slice(0, 40)}: ${(error as Error).message}`, { cause: error });
    }
  };
  // IF NOT EXISTS asks for the right first.
  const { rows: found } = await run(`SELECT to_regnamespace('${schema}') AS there`);
  if (found[0]?.['there'] === null) await run(`CREATE SCHEMA ${schema}`);
  for (const [name, value] of [
    ['s', key],
    ['k', 'old'],
    ['next', 'new'],
  ])
    await run(`CREATE SECRET ${schema}.${name} WITH (backend = 'meta') AS '${value}'`);
  await run(`CREATE TABLE ${schema}.ledger (data JSONB) WITH (connector = 'webhook') ${signed}`);
  await run(`CREATE TABLE ${schema}.t (data JSONB) WITH (connector = 'webhook')`);
  await run(`ALTER TABLE ${schema}.t VALIDATE SECRET ${schema}.k AS secure_compare(headers->>'x', k)`);
  await run(
    `CREATE TABLE ${schema}.u (id INT PRIMARY KEY, n INT CHECK (n > 0), twice INT GENERATED ALWAYS AS (n * 2) STORED) WITH (connector = 'webhook')`,
  );
  await run(`ALTER TABLE ${schema}.u ADD COLUMN note TEXT`);
  await run(
    `CREATE TABLE ${schema}.d (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook', dedupe = '$.id')`,
  );
  assert.match(JSON.stringify((await run(`SHOW CREATE TABLE ${schema}.u`)).rows), /connector/);
  await run(`CREATE TABLE ${schema}.gone (data JSONB) WITH (connector = 'webhook')`);
  // Whatever tells, or does not tell, of it.
  await direct.query(`DROP TABLE ${schema}.gone`);
  await within(2_000, async () => {
    const { rows } = await direct.query<{ n: string }>('SELECT count(*) AS n FROM headgate.webhook_table');
    assert.equal(rows[0]?.n, '4', 'a dropped table is still in headgate.webhook_table');
  });
  return '';
}

async function tryRequests(
  headgate: Headgate,
  client: Client,
  path: (table: string) => string,
): Promise<string> {
  const post = async (table: string, body: string, headers: Record<string, string> = {}) => {
    const { status, text } = await headgate.post(path(table), body, headers);
    return `${status} ${status === 200 ? '' : text}`;
  };
  const expect = (said: string, status: number, what: string) =>
    assert(said.startsWith(`${status} `), `${what}: ${said}`);
  expect(await post('u', '{"id":1,"n":5}'), 200, 'a row');
  expect(await post('d', '{"id":7,"v":"a"}'), 200, 'a delivery');
  expect(await post('d', '{"id":7,"v":"a"}'), 200, 'the same delivery');
  expect(await post('ledger', '{}'), 401, 'a forged request');
  // One bad sender among honest ones.
  const together = await Promise.all(
    Array.from({ length: 40 }, (_, i) => post('u', `{"id":${100 + i},"n":${i === 20 ? -1 : 1}}`)),
  );
  for (const [i, said] of together.entries())
    expect(said, i === 20 ? 422 : 200, i === 20 ? 'a bad row' : 'beside it');
  const ws = await WsClient.open(`ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${path('u')}`);
  ws.send(1, [{ op: 'upsert', data: { id: 1, n: 6 } }]);
  ws.send(2, [{ op: 'delete', data: { id: 100 } }]);
  await ws.acked(2);
  await ws.close();
  const stored = await client.query<{ n: string; twice: number }>(
    `SELECT count(*) AS n, max(twice) FILTER (WHERE id = 1) AS twice FROM ${schema}.u`,
  );
  assert.deepEqual(stored.rows[0], { n: '39', twice: 12 }, 'rows');
  await within(5_000, async () => {
    const { rows } = await client.query<{ n: string }>(
      'SELECT count(*) AS n FROM headgate.rejected_requests',
    );
    assert(Number(rows[0]?.n) >= 2, 'refused requests are not kept');
  });
  assert.equal(await slowEvents(headgate, path('u').split('/')[0] ?? ''), 200, 'a slow stream of events');
  return '';
}

/** Two megabytes, with a pause that short timeouts of a role do not survive. */
async function slowEvents(headgate: Headgate, database: string): Promise<number> {
  const line = (id: number) => `{"id":${id},"n":1,"note":"${'x'.repeat(100)}"}\n`;
  const sending = request(`${headgate.gatewayUrl}/v1/events?database=${database}&name=${schema}.u`, {
    method: 'POST',
  });
  const answered = once(sending, 'response') as Promise<[{ statusCode: number } & AsyncIterable<Buffer>]>;
  sending.write(Array.from({ length: 20_000 }, (_, i) => line(1_000 + i)).join(''));
  // The pause is what is tried.
  await delay(700);
  sending.end(line(100_000));
  const [response] = await answered;
  let text = '';
  for await (const piece of response) text += piece.toString();
  if (response.statusCode !== 200)
    throw new Error(`a slow stream of events: ${response.statusCode} ${text.slice(0, 200)}`);
  return response.statusCode;
}

async function tryFreshness(
  headgate: Headgate,
  client: Client,
  direct: Client,
  path: string,
): Promise<string> {
  const took: number[] = [];
  for (let time = 0; time < 3; time++) {
    await client.query(`ALTER SECRET ${schema}.k AS 'old'`);
    await within(5_000, async () =>
      assert.equal((await headgate.post(path, '{}', { x: 'old' })).status, 200),
    );
    took.push(await revokedAfterMs(headgate, direct, path, 'k'));
  }
  const [least, most] = [Math.min(...took), Math.max(...took)].map(Math.round);
  const said = `${least}–${most} ms`;
  assert(Number(most) <= freshMsMax, `a revoked key was valid for ${said}`);
  return said;
}

async function tryFaults(t: TestContext, headgate: Headgate, place: Place, path: string): Promise<string> {
  const ledger = new Ledger(key);
  onEnd(t, 'ledger', () => ledger.close());
  const load = ledger.run(() => `${headgate.webhookUrl}/${path}`, 16);
  const until = async (committed: number) => {
    const deadline = performance.now() + 60_000;
    while (ledger.committed < committed) {
      if (performance.now() > deadline)
        throw new Error(`no 200 for 60 s: ${ledger.oddities.at(-1) ?? 'no answer'}`);
      await delay(5);
    }
  };
  const said: string[] = [];
  const faults = place.faults ?? [endSessions(place)];
  for (const { name, happen } of faults) {
    await until(ledger.committed + 200);
    const started = performance.now();
    await happen();
    await until(ledger.committed + 1);
    said.push(`${name} ${((performance.now() - started) / 1_000).toFixed(1)} s`);
  }
  await until(ledger.committed + 200);
  ledger.stop();
  await load;
  const tally = await within(20_000, async () => {
    const reader = new Client(place.direct());
    await reader.connect();
    const counted = await ledger.tally(reader, `${schema}.ledger`);
    await reader.end();
    return counted;
  });
  assert.deepEqual({ lost: tally.lost, surplus: tally.surplus }, { lost: [], surplus: [] });
  assert.deepEqual(ledger.odd, [], ledger.oddities.join('; '));
  return `${said.join(', ')}; ${tally.committed} × 200, none lost`;
}

const endSql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()`;

function endSessions({ direct }: Place): Fault {
  return {
    name: 'all sessions ended 5 times, back within',
    happen: async () => {
      for (let time = 0; time < 5; time++) {
        const client = new Client(direct());
        client.on('error', () => {});
        await client.connect();
        await client.query(endSql);
        await client.end();
        await delay(200 * Math.random());
      }
    },
  };
}
