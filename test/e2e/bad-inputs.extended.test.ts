/**
 * Bad inputs over every door, each with its answer, and each followed by a good request that must not be affected. The
 * inputs are tables (test/support/bad-inputs); another door is another table and one more test here.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from 'pg';
import { gatewayConnections } from '../support/bad-inputs/gateway.ts';
import { badRequests } from '../support/bad-inputs/http.ts';
import { badStatements } from '../support/bad-inputs/sql.ts';
import { badSockets } from '../support/bad-inputs/websocket.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { RawClient, post } from '../support/raw-http.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const tables = `
  CREATE SECRET s WITH (backend = 'meta') AS 'key';
  CREATE TABLE good (data JSONB) WITH (connector = 'webhook');
  CREATE TABLE doc (data JSONB) WITH (connector = 'webhook');
  CREATE TABLE batch (data JSONB) WITH (connector = 'webhook', is_batched = true);
  CREATE TABLE form (data JSONB) WITH (connector = 'webhook', format = 'form');
  CREATE TABLE plaintext (data TEXT) WITH (connector = 'webhook', format = 'text');
  CREATE TABLE signed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
    secure_compare(headers->>'x-signature', encode(hmac(s, data, 'sha256'), 'hex'));
  CREATE TYPE mood AS ENUM ('sad', 'ok');
  CREATE DOMAIN small AS int CHECK (value < 10);
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF new.id = 666 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN new; END $$;
  CREATE TABLE typed (id INT PRIMARY KEY CHECK (id > 0), amount NUMERIC(10,2), note TEXT, at TIMESTAMPTZ, tags TEXT[],
    mood mood, small small, net INET, uid UUID) WITH (connector = 'webhook');
  CREATE TRIGGER refuse BEFORE INSERT ON typed FOR EACH ROW EXECUTE FUNCTION refuse();
  CREATE TABLE plain (data jsonb);
  CREATE TABLE t (n int);
  CREATE VIEW view AS SELECT data FROM doc`;

/** A sender that does everything right, on a connection that it keeps. */
class Honest {
  sent = 0;
  readonly #client: RawClient;

  static async connect(headgate: Headgate): Promise<Honest> {
    return new Honest(await RawClient.connect(headgate.ports.listen.port));
  }

  constructor(client: RawClient) {
    this.#client = client;
  }

  async post(after: string): Promise<void> {
    this.#client.send(post('/webhook/dev/public/good', `{"n":${this.sent++}}`));
    assert.equal((await this.#client.answer())?.status, 200, `the good request after ${after}`);
  }

  close(): void {
    this.#client.destroy();
  }
}

async function answerTo(headgate: Headgate, bytes: string | Buffer): Promise<string> {
  const client = await RawClient.connect(headgate.ports.listen.port);
  client.send(bytes);
  const answer = await client.answer();
  client.destroy();
  if (answer === null) return 'reset';
  const { code, error } = JSON.parse(answer.body) as { code?: string; error?: string };
  assert.doesNotMatch(error ?? '', /\n|\/(src|dist|usr|tmp)\/|node_modules|at \w+ \(|select|insert/i);
  return code === undefined ? `${answer.status}` : `${answer.status} ${code}`;
}

async function endOf(headgate: Headgate, messages: readonly (string | Buffer)[]) {
  const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/typed`;
  const client = await WsClient.connect(url);
  for (const message of messages) {
    if (message === 'init') client.init();
    else client.ws.send(message, { binary: typeof message !== 'string' });
  }
  return client.ended;
}

/** What the events gateway answers on one connection, in order. */
async function answersOf(headgate: Headgate, bytes: string, count: number): Promise<string[]> {
  const client = await RawClient.connect(headgate.ports.gateway.port);
  client.send(bytes);
  const got: string[] = [];
  while (got.length < count) {
    const answer = await client.answer();
    if (answer === null) break;
    const { code = '' } = JSON.parse(answer.body === '' ? '{}' : answer.body) as { code?: string };
    got.push(`${answer.status} ${code}`.trim());
  }
  client.destroy();
  return got;
}

async function sqlstateOf(client: Client, sql: string): Promise<string> {
  try {
    await client.query(sql);
    return 'none';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

test('malformed inputs to the listener, the SQL port and the events gateway are refused', async (t) => {
  const headgate = await startHeadgate(t, { env: { EVENTS_API_ALLOWED_HOSTS: 'h' } });
  const client = await headgate.client(t);
  await client.query(tables);
  const honest = await Honest.connect(headgate);
  t.after(() => honest.close());
  await within(2_000, async () => assert.equal((await headgate.post('dev/public/doc', '{}')).status, 200));
  await client.query('delete from doc');
  assert(badRequests.length + badSockets.length + badStatements.length >= 200);

  await t.test(`${badRequests.length} malformed webhook requests are refused`, async () => {
    const wrong: string[] = [];
    for (const [name, bytes, expected] of badRequests) {
      const answer = await answerTo(headgate, bytes);
      if (answer !== expected) wrong.push(`${name}: ${answer}, not ${expected}`);
      await honest.post(name);
    }
    assert.deepEqual(wrong, []);
  });

  await t.test(`${badSockets.length} malformed WebSocket message sequences are refused`, async () => {
    const wrong: string[] = [];
    for (const [name, messages, fatal, code] of badSockets) {
      const end = await endOf(headgate, messages);
      const said = fatal === null ? end.fatal === null : fatal.test(end.fatal ?? '');
      if (!said || end.code !== code) wrong.push(`${name}: ${end.code} ${end.fatal}`);
      await honest.post(name);
    }
    assert.deepEqual(wrong, []);
  });

  await t.test(`${badStatements.length} malformed SQL statements are refused`, async () => {
    const wrong: string[] = [];
    for (const [name, sql, expected] of badStatements) {
      const sqlstate = await sqlstateOf(client, sql);
      if (sqlstate !== expected) wrong.push(`${name}: ${sqlstate}, not ${expected}`);
      assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }], name);
      await honest.post(name);
    }
    assert.deepEqual(wrong, []);
  });

  // All of them are tried on the gateway alone (hostile.extended.pg.test.ts).
  const connections = sampleOf(gatewayConnections, 4);
  await t.test(
    `${connections.length} malformed HTTP connections to the events gateway get the expected statuses`,
    async () => {
      const wrong: string[] = [];
      let good = 0;
      for (const [name, bytes, expected] of connections) {
        const answers = await answersOf(headgate, bytes, expected.length);
        if (answers.join() !== expected.join())
          wrong.push(`${name}: ${answers.join()}, not ${expected.join()}`);
        await honest.post(name);
        // Also in two chunks.
        good += bytes.includes('"n":1}') ? answers.filter((it) => it === '200').length : 0;
      }
      assert.deepEqual(wrong, [], sampleSeed);
      const { rows } = await client.query<{ n: number }>('select count(*)::int as n from t');
      assert((rows[0]?.n ?? 0) <= good, 'nothing is stored that was not answered 200');
    },
  );

  await t.test('malformed input stores nothing and raises no internal error', async () => {
    const counts = ['doc', 'batch', 'form', 'plaintext', 'signed', 'typed', 'plain'].map(
      (table) => `(select count(*)::int from ${table}) as ${table}`,
    );
    const { rows } = await client.query(
      `select ${counts.join(', ')}, (select count(*)::int from good) as good`,
    );
    assert.deepEqual(rows, [
      { doc: 0, batch: 0, form: 0, plaintext: 0, signed: 0, typed: 0, plain: 0, good: honest.sent },
    ]);
    assert.doesNotMatch(headgate.stderr, /request\.failed|sql\.failed/);
  });
});
