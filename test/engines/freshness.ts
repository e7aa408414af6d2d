/**
 * Freshness: how long after COMMIT a change is in force, in each place from which Headgate reads its catalog. `npm run test:engines -- freshness`
 * starts every place anew, twenty times or as often as HEADGATE_FRESHNESS_STARTS says, makes eleven kinds of change, and sends requests after each
 * COMMIT: those that were right before it one after the other and, in every second start, 200 at once that are right after it (these make Headgate look
 * at its catalog at once, so alone the others are accepted for longer). The right answer is PostgreSQL's: the change is committed, so the new state holds.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import { after, test } from 'node:test';
import type { TestContext } from 'node:test';
import { writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { openPgbouncer } from '../support/pooler.ts';
import { debianBin } from '../support/server.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { findTool, skipFor } from '../support/tools.ts';
import { within } from '../support/within.ts';
import { changes, webhook } from './freshness-changes.ts';
import type { Change, Send } from './freshness-changes.ts';

const starts = Number(process.env['HEADGATE_FRESHNESS_STARTS'] ?? 20);
const onlyPlaces = (process.env['HEADGATE_FRESHNESS_ONLY'] ?? '').split(',').filter((word) => word !== '');
const inForceMsMax = 1_000;
const answerMsMax = 3_000;
/** Requests that are right under the new state, sent at once after COMMIT. */
const burst = 200;
/** Requests under the old state go on until none was accepted for this long. */
const quietMs = 700;

interface Answered {
  readonly status: number;
  readonly text: string;
  /** After COMMIT. */
  readonly atMs: number;
  readonly tookMs: number;
}

interface Seen {
  inForceMs: number;
  answerMs: number;
  /** 4xx under the new state, which its sender would not try again. */
  permanent: number;
  /** 503 and the like, which its sender tries again. */
  later: number;
  readonly odd: string[];
}

interface Place {
  readonly name: string;
  readonly headgate: Headgate;
  readonly database: string;
  /** A session of the role that owns everything: at the SQL port for Headgate's statements, and past it. */
  readonly port: Client;
  readonly plain: Client;
}

/** What a run of a place found, worst of all starts. */
const found = new Map<string, Map<string, Seen>>();
const untried: string[] = [];

function seenOf(place: string, change: string): Seen {
  const of = found.get(place) ?? new Map<string, Seen>();
  found.set(place, of);
  const seen = of.get(change) ?? { inForceMs: 0, answerMs: 0, permanent: 0, later: 0, odd: [] };
  of.set(change, seen);
  return seen;
}

/** A connection for each request, so that every listener process gets some of them. */
const crowd = new Agent({ keepAlive: true, maxSockets: 64, timeout: 4_000 });
/** Connections of their own, or requests under the old state would wait here until the crowd has been served. */
const alone = new Agent({ keepAlive: true, timeout: 4_000 });

function send(
  { headgate, database }: Place,
  token: string,
  it: Send,
  since: number,
  agent = alone,
): Promise<Answered> {
  const { door, table, body = '{"a":1}', headers = {} } = it;
  const path = table.includes('/') ? table : `public/${table}`;
  const url =
    door === 'webhook'
      ? `${headgate.webhookUrl}/${database}/${path}`
      : `${headgate.gatewayUrl}/v1/events?database=${database}&name=${path.replace('/', '.')}`;
  const sent = performance.now();
  return new Promise((resolve, reject) => {
    const asking = request(
      url,
      {
        method: 'POST',
        agent,
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          ...headers,
          ...(door === 'events' && token !== '' ? { authorization: `Bearer ${token}` } : {}),
        },
        signal: AbortSignal.timeout(60_000),
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('error', reject);
        response.on('end', () => {
          const now = performance.now();
          resolve({ status: response.statusCode ?? 0, text, atMs: now - since, tookMs: now - sent });
        });
      },
    );
    asking.on('error', reject);
    asking.end(body);
  });
}

async function tryChange(place: Place, change: Change, isCrowded: boolean): Promise<void> {
  const { port, plain } = place;
  let token = '';
  for (const sql of change.before) {
    const { rows } = await port.query<{ Token?: string }>(sql);
    token = rows[0]?.Token ?? token;
  }
  const { right, wrong } = change;
  await within(10_000, async () => {
    if (wrong !== undefined) assert.equal((await send(place, token, wrong, 0)).status, 200);
    // Whatever is remembered of it is remembered.
    if (right !== undefined) await send(place, token, right, 0);
  });
  const seen = seenOf(place.name, change.name);
  await (change.isPlain === true ? plain : port).query(change.change);
  const committed = performance.now();
  const wrongOnes = wrong === undefined ? [] : [0, 1].map(() => untilQuiet(place, token, wrong, committed));
  const rightOnes =
    right === undefined || !(isCrowded || wrong === undefined)
      ? []
      : Array.from({ length: burst }, () => send(place, token, right, committed, crowd));
  for (const { status, text, atMs, tookMs } of await Promise.all(rightOnes)) {
    seen.answerMs = Math.max(seen.answerMs, tookMs);
    if (status === 200) continue;
    seen.inForceMs = Math.max(seen.inForceMs, atMs);
    if (status >= 500) seen.later++;
    else seen.permanent++;
    if (seen.odd.length < 3) seen.odd.push(`${Math.round(atMs)} ms after: ${status} ${text.slice(0, 160)}`);
  }
  for (const { acceptedMs, slowestMs } of await Promise.all(wrongOnes)) {
    seen.inForceMs = Math.max(seen.inForceMs, acceptedMs);
    seen.answerMs = Math.max(seen.answerMs, slowestMs);
  }
}

/** One after the other, until none was accepted for some time; at most a minute. */
async function untilQuiet(
  place: Place,
  token: string,
  wrong: Send,
  committed: number,
): Promise<{ readonly acceptedMs: number; readonly slowestMs: number }> {
  let acceptedMs = 0;
  let slowestMs = 0;
  for (;;) {
    const { status, atMs, tookMs } = await send(place, token, wrong, committed);
    slowestMs = Math.max(slowestMs, tookMs);
    if (status === 200) acceptedMs = atMs;
    if (atMs - acceptedMs > quietMs || atMs > 60_000) return { acceptedMs, slowestMs };
    await delay(2);
  }
}

const cleanup = [
  'DROP TABLE IF EXISTS a1, a2, a3, a4, a5, b5, a6, a7, a8, a9, a10, a11 CASCADE',
  'DROP TABLE IF EXISTS elsewhere.a6',
];
const dropped = ['TOKEN IF EXISTS t10', ...['s1', 's2', 's3', 's11'].map((it) => `SECRET IF EXISTS ${it}`)];

async function connected(t: TestContext, config: ConstructorParameters<typeof Client>[0]): Promise<Client> {
  const client = new Client(config);
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end().catch(() => {}));
  return client;
}

interface PlaceKind {
  readonly name: string;
  readonly tables: number;
  readonly needs?: string;
  /** The DSN of Headgate for this server. */
  readonly url?: (t: TestContext, server: TcpServer, database: string) => Promise<string>;
  readonly env?: Readonly<Record<string, string>>;
  /** Statements go to another Headgate of the same database. */
  readonly atAnother?: boolean;
}

const direct = (_: TestContext, { port }: TcpServer, database: string) =>
  Promise.resolve(`postgresql://root@127.0.0.1:${port}/${database}`);
const pooled =
  (program: string, mode: string) => async (t: TestContext, server: TcpServer, database: string) =>
    `postgresql://root@127.0.0.1:${await openPgbouncer(t, findTool(program) ?? program, server.port, mode, '')}/${database}`;

const newest = process.env['HEADGATE_ENGINES_PGBOUNCER'] ?? '';
const kinds: readonly PlaceKind[] = [
  { name: 'direct', tables: 6, url: direct },
  { name: 'session pooler', tables: 6, needs: 'pgbouncer', url: pooled('pgbouncer', 'session') },
  {
    name: 'transaction pooler, 6 tables',
    tables: 6,
    needs: 'pgbouncer',
    url: pooled('pgbouncer', 'transaction'),
  },
  {
    name: 'transaction pooler, 400 tables',
    tables: 400,
    needs: 'pgbouncer',
    url: pooled('pgbouncer', 'transaction'),
  },
  ...(newest === ''
    ? []
    : [6, 400].map((tables) => ({
        name: `newest transaction pooler, ${tables} tables`,
        tables,
        url: pooled(newest, 'transaction'),
      }))),
  { name: 'at another Headgate', tables: 6, url: direct, atAnother: true },
  { name: 'listener processes', tables: 6, url: direct, env: { HEADGATE_LISTENERS: '2' } },
];

const key = randomBytes(32).toString('base64');

/** A database with that many webhook tables, made once for all starts. */
async function fill(t: TestContext, server: TcpServer, database: string, tables: number): Promise<void> {
  await server.run(`CREATE DATABASE ${database}`);
  const url = await direct(t, server, database);
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url, HEADGATE_MASTER_KEY: key } });
  const port = await headgate.clientAs(t, 'root', database);
  for (let i = 0; i < tables; i++) await port.query(`CREATE TABLE many_${i} (data JSONB) ${webhook}`);
  await headgate.signal('SIGTERM');
}

async function runStart(
  t: TestContext,
  name: string,
  headgate: Headgate,
  sql: Headgate,
  database: string,
  isCrowded: boolean,
  plain?: Client,
) {
  const port = await connected(t, { host: '127.0.0.1', port: sql.ports.sql.port, user: 'root', database });
  const place: Place = { name, headgate, database, port, plain: plain ?? port };
  for (const change of changes) {
    try {
      await tryChange(place, change, isCrowded);
    } catch (error) {
      seenOf(name, change.name).odd.push(`not tried: ${(error as Error).message}`);
    }
  }
  for (const one of cleanup) await place.plain.query(one);
  for (const one of dropped) await port.query(`DROP ${one}`);
}

const wanted = (name: string) => onlyPlaces.length === 0 || onlyPlaces.some((word) => name.includes(word));

if (wanted('embedded'))
  test('changes of the catalog count at once on the embedded engine', async (t) => {
    for (let i = 0; i < starts; i++)
      await t.test(
        `changes of the catalog count at once on the embedded engine (start ${i + 1})`,
        async (each) => {
          const headgate = await startHeadgate(each);
          const client = await headgate.client(each);
          await client.query('CREATE ROLE fresh_owner');
          await runStart(each, 'embedded', headgate, headgate, 'dev', i % 2 === 1);
        },
      );
  });

for (const [major, bin] of [
  ['15', debianBin],
  ['18', undefined],
] as const)
  test(`changes of the catalog count at once on PostgreSQL ${major}`, async (t) => {
    if (major === '15' && findTool(`${debianBin}/postgres`) === null) return skipFor(t, 'PostgreSQL 15');
    // As its users have it: compiled queries are on, and what is committed is on the disk.
    const server = await startTcpServer(bin, ['jit=on', 'max_connections=300']);
    onEnd(t, 'server', () => server.close());
    await server.run('CREATE ROLE fresh_owner');
    for (const [i, { name, tables, needs, url, env, atAnother }] of kinds.entries()) {
      const label = `${name}, ${major}`;
      if (!wanted(label) || url === undefined) continue;
      if (needs !== undefined && findTool(needs) === null) {
        untried.push(`${label}: ${needs} is not installed`);
        continue;
      }
      const database = `fresh_${i}`;
      await t.test(`the tables for ${label} are created`, (each) => fill(each, server, database, tables));
      for (let time = 0; time < starts; time++)
        await t.test(`changes of the catalog count at once on ${label} (start ${time + 1})`, async (each) => {
          const dsn = { HEADGATE_DATABASE_URL: await url(each, server, database), HEADGATE_MASTER_KEY: key };
          const headgate = await startHeadgate(each, { env: { ...dsn, ...env } });
          const other = atAnother === true ? await startHeadgate(each, { env: dsn }) : headgate;
          const config = { host: server.socketDir, port: server.port, user: 'root', database };
          const plain = await connected(each, config);
          await runStart(each, label, headgate, other, database, time % 2 === 1, plain);
        });
    }
  });

after(async () => {
  const rows = [...found].map(([place, of]) => {
    const all = [...of.values()];
    const most = (pick: (seen: Seen) => number) => Math.round(Math.max(...all.map(pick)));
    return {
      place,
      inForceMs: most((it) => it.inForceMs),
      answerMs: most((it) => it.answerMs),
      permanent: all.reduce((sum, it) => sum + it.permanent, 0),
      later: all.reduce((sum, it) => sum + it.later, 0),
      worst: [...of].toSorted(([, a], [, b]) => b.inForceMs - a.inForceMs)[0]?.[0] ?? '',
      odd: [...of].flatMap(([change, { odd }]) => odd.map((it) => `${change}: ${it}`)),
    };
  });
  const { HEADGATE_FRESHNESS_TABLE: file = '/dev/null' } = process.env;
  await writeFile(file, JSON.stringify({ starts, rows, untried }));
  for (const { odd, place } of rows) for (const it of odd) process.stderr.write(`${place}: ${it}\n`);
  for (const it of rows) {
    assert(it.inForceMs <= inForceMsMax, `${it.place}: in force after ${it.inForceMs} ms (${it.worst})`);
    assert(it.answerMs <= answerMsMax, `${it.place}: an answer took ${it.answerMs} ms`);
    assert.equal(it.permanent, 0, `${it.place}: permanent 4xx after a committed change`);
    assert.deepEqual(
      it.odd.filter((said) => said.includes('not tried')),
      [],
    );
  }
});
