/** A key is changed while its senders go on sending: what a statement says holds within a second, without one 5xx. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { Agent, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { deferred } from '../../src/kit/promises.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { breath } from '../support/sample.ts';

const settledMs = 1_000;
/** Answers of each sender that are waited for once a statement must have taken effect. */
const answersMin = 20;
const keys = ['first', 'second', 'third'] as const;
type Key = (typeof keys)[number];

interface Answered {
  readonly key: Key;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly status: number;
}

/** Senders that sign with one key each, one request behind the other. */
class Senders {
  readonly answers: Answered[] = [];
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true });
  #stopped = false;
  #changed = deferred<void>();
  #running: Promise<unknown> = Promise.resolve();
  #id = 0;

  constructor(url: string) {
    this.#url = url;
  }

  start(connections: number): void {
    const lines = keys.flatMap((key) => Array.from({ length: connections }, () => key));
    this.#running = Promise.all(lines.map((key) => this.#run(key)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    this.#agent.destroy();
  }

  /** Until each key has `answersMin` answers to requests that began at `from` or later. */
  async until(from: number): Promise<void> {
    const enough = () =>
      keys.every(
        (key) => this.answers.filter((it) => it.key === key && it.startedAt >= from).length >= answersMin,
      );
    while (!enough()) await this.#changed.promise;
  }

  async #run(key: Key): Promise<void> {
    while (!this.#stopped) {
      const body = JSON.stringify({ id: ++this.#id, key });
      const signature = createHmac('sha256', `${key} key`).update(body).digest('hex');
      const startedAt = performance.now();
      const status = await this.#post(body, signature);
      this.answers.push({ key, startedAt, endedAt: performance.now(), status });
      const changed = this.#changed;
      this.#changed = deferred();
      changed.resolve();
      await breath();
    }
  }

  #post(body: string, signature: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-length': Buffer.byteLength(body), 'x-signature': signature };
      const outgoing = request(this.#url, { method: 'POST', agent: this.#agent, headers }, (answer) => {
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode ?? 0));
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });
  }
}

const accepts = (...names: string[]): string =>
  `VALIDATE SECRET ${names.join(', ')} AS ${names
    .map((name) => `secure_compare(headers->>'x-signature', encode(hmac(${name}, data, 'sha256'), 'hex'))`)
    .join(' OR ')}`;
const setKey = (name: string, key: Key): string => `ALTER SECRET ${name} AS '${key} key'`;

/** Statements in turn, and whose signatures are good from then on. */
const steps: readonly { readonly sql: readonly string[]; readonly good: readonly Key[] }[] = [
  { sql: [`ALTER TABLE t ${accepts('old', 'new')}`], good: ['first', 'second'] },
  { sql: [`ALTER TABLE t ${accepts('new')}`], good: ['second'] },
  { sql: [setKey('new', 'third')], good: ['third'] },
  { sql: ['BEGIN', setKey('new', 'first'), `ALTER TABLE t ${accepts('old')}`, 'ROLLBACK'], good: ['third'] },
  {
    sql: ['BEGIN', setKey('old', 'second'), `ALTER TABLE t ${accepts('old', 'new')}`, 'COMMIT'],
    good: ['second', 'third'],
  },
  {
    sql: [`ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t; ${setKey('new', 'first')}`],
    good: ['first', 'second'],
  },
  { sql: [setKey('old', 'third'), setKey('new', 'second')], good: ['second', 'third'] },
  { sql: [setKey('old', 'first'), `ALTER TABLE t ${accepts('old')}`], good: ['first'] },
];

test('ALTER SECRET and ALTER TABLE … VALIDATE under load count within a second, without errors', async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET old WITH (backend = 'meta') AS 'first key';
    CREATE SECRET new WITH (backend = 'meta') AS 'second key';
    CREATE TABLE t (data JSONB) WITH (connector = 'webhook') ${accepts('old')}`);
  const senders = new Senders(`${headgate.webhookUrl}/dev/public/t`);
  onEnd(t, 'senders', () => senders.stop());
  senders.start(4);
  await senders.until(0);
  let before: readonly Key[] = ['first'];
  const latest: number[] = [];
  for (const { sql, good } of steps) {
    latest.push(await changeUnderLoad(client, senders, sql, before, good));
    before = good;
  }
  await senders.stop();
  t.diagnostic(
    `${senders.answers.length} requests; the old answer was last read ${Math.max(...latest).toFixed(1)} ms after a statement`,
  );
  const odd = senders.answers.filter(({ status }) => status !== 200 && status !== 401);
  assert.deepEqual(odd, [], 'nothing but 200 and 401 at any time');
  await agreesWithTable(t, client, senders);
});

/** Gives how long after the statement an answer was still the old one, in ms. */
async function changeUnderLoad(
  client: Client,
  senders: Senders,
  sql: readonly string[],
  before: readonly Key[],
  after: readonly Key[],
): Promise<number> {
  const started = performance.now();
  for (const statement of sql) await client.query(statement);
  const ended = performance.now();
  await senders.until(ended + settledMs);
  let latest = 0;
  for (const { key, startedAt, endedAt, status } of senders.answers) {
    if (endedAt < started || startedAt < started) continue;
    const isGood = after.includes(key);
    if ((status === 200) === isGood) continue;
    // Statements that commit one by one have states in between, which may be answered by until the last one is known.
    const commitsInBetween = sql.length > 1 && sql[0] !== 'BEGIN';
    const allowed = startedAt < ended || commitsInBetween || before.includes(key) !== isGood;
    assert(allowed, `${sql.join('; ')}: ${key} was ${status}, which neither state says`);
    assert(
      startedAt < ended + settledMs,
      `${sql.join('; ')}: ${key} was ${status} after ${startedAt - ended} ms`,
    );
    latest = Math.max(latest, startedAt - ended);
  }
  return latest;
}

async function agreesWithTable(t: TestContext, client: Client, senders: Senders): Promise<void> {
  const { rows } = await client.query<{ key: Key; n: number; ids: number }>(
    `select data->>'key' as key, count(*)::int as n, count(distinct data->'id')::int as ids from t group by 1 order by 1`,
  );
  const expected = keys.map((key) => {
    const n = senders.answers.filter((it) => it.key === key && it.status === 200).length;
    return { key, n, ids: n };
  });
  assert.deepEqual(rows, expected);
  assert(expected.every(({ n }) => n > 0));
  t.diagnostic(rows.map(({ key, n }) => `${key}: ${n} rows`).join(', '));
}
