/** EXPLAIN ALTER TABLE … VALIDATE … OVER: who may ask, what is shown, what it leaves as it was, and how it ends early. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import pg from 'pg';
import type { Client } from 'pg';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

const shared = sharedHeadgate();
const [first, second] = ['first key, of 1 role', 'second key, of 1 role'];
const signed = (key: string, body: string) => ({
  'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
});

async function started(t: TestContext): Promise<{ headgate: Headgate; client: Client; name: string }> {
  const headgate = await shared();
  const client = await headgate.client(t);
  const name = `hub_${randomBytes(6).toString('hex')}`;
  await client.query(`
    CREATE SECRET ${name}_a WITH (backend = 'meta') AS '${first}';
    CREATE SECRET ${name}_b WITH (backend = 'meta') AS '${second}';
    CREATE TABLE ${name} (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data JSONB)
      INCLUDE HEADERS AS headers INCLUDE HEADER 'x-hub-signature-256' AS signature INCLUDE BODY AS raw INCLUDE TIMESTAMP AS at
      WITH (connector = 'webhook') VALIDATE SECRET ${name}_a USING github`);
  return { headgate, client, name };
}

const over = (name: string, clause: string, span = '1 day') =>
  `EXPLAIN ALTER TABLE ${name} VALIDATE ${clause} OVER '${span}'`;

interface Line {
  readonly requests: string | null;
  readonly request: string | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly reason: string;
}
const changes = (rows: readonly Line[]) =>
  rows.flatMap(({ request, before, after }) => (request === null ? [] : [`${request} ${before} ${after}`]));
const sums = (rows: readonly Line[]) =>
  rows.flatMap(({ request, requests, before, after }) =>
    request === null ? [`${requests} ${before} ${after}`] : [],
  );

async function sendBoth(headgate: Headgate, client: Client, name: string): Promise<void> {
  assert.equal((await headgate.post(`dev/public/${name}`, '{"n":1}', signed(first, '{"n":1}'))).status, 200);
  assert.equal((await headgate.post(`dev/public/${name}`, '{"n":2}', signed(second, '{"n":2}'))).status, 401);
  await until(async () => {
    const { rowCount } = await client.query(
      `SELECT FROM headgate.rejected_requests WHERE table_name = '${name}'`,
    );
    return rowCount === 1;
  });
}

test('EXPLAIN … OVER gives one answer in both query protocols and in transactions, shows no secret and changes nothing', async (t) => {
  const { headgate, client, name } = await started(t);
  await sendBoth(headgate, client, name);
  const before = await client.query(`SHOW CREATE TABLE ${name}`);
  const sql = over(name, `SECRET ${name}_b USING github`);
  const simple = await client.query<Line>(sql);
  const named = await client.query<Line>({ text: sql, name: 'named' });
  await client.query('BEGIN; DECLARE mine CURSOR FOR SELECT 1 AS one UNION ALL SELECT 2');
  const within = await client.query<Line>(sql);
  const again = await client.query<Line>(sql);
  assert.deepEqual((await client.query('FETCH ALL FROM mine')).rows, [{ one: 1 }, { one: 2 }]);
  await client.query('COMMIT');
  assert.equal(simple.command, 'EXPLAIN');
  for (const { rows } of [named, within, again]) assert.deepEqual(rows, simple.rows);
  const { rows } = await client.query<{ id: string }>(
    `SELECT 'r' || id AS id FROM headgate.rejected_requests WHERE table_name = '${name}'`,
  );
  assert.deepEqual(changes(simple.rows).toSorted(), [
    'id=1 accepted refused',
    `${rows[0]?.id} refused accepted`,
  ]);
  assert.deepEqual(sums(simple.rows), ['1 refused accepted', '1 accepted refused']);
  for (const hidden of [first, second]) assert(!JSON.stringify(simple.rows).includes(hidden));
  assert.deepEqual((await client.query(`SHOW CREATE TABLE ${name}`)).rows, before.rows);
  const other = await client.query(`SELECT 1 AS one; ${sql}; SELECT 2 AS two`);
  assert.deepEqual(
    (other as unknown as { command: string }[]).map(({ command }) => command),
    ['SELECT', 'EXPLAIN', 'SELECT'],
  );
});

test('EXPLAIN … OVER evaluates now() as the arrival time of each request', async (t) => {
  const { headgate, client, name } = await started(t);
  await sendBoth(headgate, client, name);
  const at = Math.floor(Date.now() / 1000);
  const check = `SECRET ${name}_a AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(${name}_a, payload, 'sha256'), 'hex'))
    AND abs(extract(epoch FROM now()) - ${at}) < 600`;
  assert.deepEqual(changes((await client.query<Line>(over(name, check))).rows), []);
  await client.query(`UPDATE ${name} SET at = at - interval '1 hour'`);
  const { rows } = await client.query<Line>(over(name, check));
  assert.deepEqual(changes(rows), ['id=1 accepted refused']);
  assert.deepEqual(
    changes((await client.query<Line>(over(name, check, '30 minutes'))).rows),
    [],
    'too old to be looked at',
  );
});

test('EXPLAIN … OVER reports verdicts as not known where the table did not keep what the check reads', async (t) => {
  const { headgate, client, name } = await started(t);
  await client.query(
    `ALTER TABLE ${name} VALIDATE SECRET ${name}_a AS secure_compare(headers->>'x-token', ${name}_a)`,
  );
  assert.equal((await headgate.post(`dev/public/${name}`, '{}', { 'x-token': first })).status, 200);
  const hidden = await client.query<Line>(
    over(name, `SECRET ${name}_b AS secure_compare(headers->>'x-token', ${name}_b)`),
  );
  assert.deepEqual(sums(hidden.rows), ['1 accepted not known']);
  assert.match(hidden.rows[0]?.reason ?? '', /^stored: header 'x-token' was not kept$/);
  const decided = `SECRET ${name}_b AS secure_compare(headers->>'x-token', ${name}_b) AND octet_length(payload) > 1000`;
  assert.deepEqual(sums((await client.query<Line>(over(name, decided))).rows), ['1 accepted refused']);
  await client.query(`ALTER TABLE ${name} DROP COLUMN at`);
  const { rows } = await client.query<Line>(over(name, decided));
  assert.match(rows[0]?.reason ?? '', /INCLUDE TIMESTAMP/);
});

test("EXPLAIN … OVER is for the table's owner only, with his own secrets and rows that he may read", async (t) => {
  const { headgate, client, name } = await started(t);
  await sendBoth(headgate, client, name);
  await client.query(
    `CREATE ROLE ${name}_o LOGIN; CREATE ROLE ${name}_s LOGIN; GRANT CREATE ON SCHEMA public TO ${name}_o`,
  );
  const owner = await headgate.clientAs(t, `${name}_o`);
  const stranger = await headgate.clientAs(t, `${name}_s`);
  const github = `SECRET ${name}_b USING github`;
  const code = (asking: Promise<unknown>, sqlstate: string, message: RegExp) =>
    assert.rejects(asking, (error: pg.DatabaseError) => {
      assert.equal(error.code, sqlstate, error.message);
      assert.match(error.message, message);
      return true;
    });
  await code(stranger.query(over(name, github)), '42501', /^must be owner of table/);
  await client.query(`ALTER TABLE ${name} OWNER TO ${name}_o`);
  await code(owner.query(over(name, github)), '42501', /^permission denied for secret/);
  await code(owner.query(over(name, `SECRET none USING github`)), '42704', /^secret "none" does not exist$/);
  await code(owner.query(over('none', github)), '42P01', /^relation "none" does not exist$/);
  await code(owner.query(over(name, github, 'a while')), '22007', /^invalid input syntax for type interval/);
  await code(owner.query(`EXPLAIN ALTER TABLE ${name} VALIDATE ${github}`), '42601', /./);
  await owner.query(`CREATE SECRET ${name}_own WITH (backend = 'meta') AS '${second}'`);
  const own = over(name, `SECRET ${name}_own USING github`);
  assert.equal(changes((await owner.query<Line>(own)).rows).length, 2);
  await owner.query(
    `CREATE POLICY none ON ${name} USING (false); ALTER TABLE ${name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`,
  );
  assert.deepEqual(sums((await owner.query<Line>(own)).rows), ['1 refused accepted']);
  await owner.query('BEGIN');
  await owner.query(`CREATE SECRET ${name}_new WITH (backend = 'meta') AS '${second}'`);
  await code(owner.query(over(name, `SECRET ${name}_new USING github`)), '55000', /not committed yet/);
  await code(owner.query('SELECT 1'), '25P02', /./);
  await owner.query('ROLLBACK');
  await code(
    owner.query(
      over(
        name,
        `SECRET ${name}_own AS secure_compare(headers->>'a', encode(hmac(${name}_own, other, 'sha256'), 'hex'))`,
      ),
    ),
    '42703',
    /^column "other" does not exist$/,
  );
  assert.equal(changes((await owner.query<Line>(own)).rows).length, 1, 'the session goes on');
});

/** Sends a CancelRequest, as psql does after Ctrl-C. */
async function cancel({ ports }: Headgate, client: Client): Promise<void> {
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const packet = Buffer.alloc(16);
  [16, 80_877_102, processID, secretKey].forEach((word, at) => packet.writeInt32BE(word, 4 * at));
  const socket = connect(ports.sql.port, '127.0.0.1').end(packet).resume();
  await once(socket, 'close');
}

/** Rows whose check takes seconds: longer than twenty requests that get their answers in between. */
async function manyRows(client: Client, name: string): Promise<string> {
  await client.query(`INSERT INTO ${name} (at, raw, signature, headers)
    SELECT now() - i * interval '1 ms', convert_to(repeat('x', 100000), 'UTF8'), 'sha256=00', '{}' FROM generate_series(1, 60) i`);
  const digest = (n: number): string => (n === 0 ? 'payload' : `sha512(payload || ${digest(n - 1)})`);
  return over(
    name,
    `SECRET ${name}_b AS secure_compare(headers->>'x-hub-signature-256', encode(hmac(${name}_b, ${digest(20)}, 'sha256'), 'hex'))`,
  );
}

test(
  'EXPLAIN … OVER ends with a CancelRequest or its client, and webhooks are answered meanwhile',
  { timeout: 180_000 },
  async (t) => {
    const { headgate, client, name } = await started(t);
    const sql = await manyRows(client, name);
    const asking = new pg.Client({
      host: '127.0.0.1',
      port: headgate.ports.sql.port,
      user: 'root',
      database: 'dev',
    });
    asking.on('error', () => {});
    await asking.connect();
    const { rows } = await asking.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const query = new pg.Query(sql);
    const failed = new Promise<Error | null>((resolve) => {
      query.on('error', resolve);
      query.on('end', () => resolve(null));
    });
    asking.query(query);
    let isOver = false;
    void failed.then(() => (isOver = true));
    for (let n = 0; n < 20; n++) {
      const { status } = await headgate.post(`dev/public/${name}`, '{}', signed(first, '{}'));
      assert.equal(status, 200);
    }
    assert(!isOver, 'it goes on');
    await cancel(headgate, asking);
    const error = (await failed) as pg.DatabaseError | null;
    assert.equal(error?.code, '57014', String(error));
    assert.deepEqual((await asking.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
    const began = performance.now();
    await client.query(sql);
    const wholeMs = performance.now() - began;
    const gone = asking.query(sql).catch((why: unknown) => why);
    const runs = async () => {
      const found = await client.query(`SELECT FROM pg_stat_activity WHERE pid = ${rows[0]?.pid ?? 0}`);
      return found.rowCount === 1;
    };
    await until(async () => {
      const found = await client.query<{ query: string }>(
        `SELECT query FROM pg_stat_activity WHERE pid = ${rows[0]?.pid ?? 0}`,
      );
      return found.rows[0]?.query.startsWith('FETCH') === true;
    });
    // With a query running it does not say good-bye. What it has asked for ends with it.
    await asking.end();
    await gone;
    await within(wholeMs / 2, async () => assert(!(await runs())));
    t.diagnostic(`the whole statement takes ${Math.round(wholeMs)} ms`);
    assert.equal((await headgate.post(`dev/public/${name}`, '{}', signed(first, '{}'))).status, 200);
  },
);
