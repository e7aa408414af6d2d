/** The option `readers`: a role that may SELECT looks at refused requests, endpoints and EXPLAIN of a table, and changes nothing; attacks on it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { findEndpoints, readFacts } from '../../src/console/endpoint-list.ts';
import { findTables } from '../../src/console/request-statements.ts';
import { ownedTable } from '../../src/console/statements.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const key = 'a long random key that nobody knows';
const dsnOf = ({ ports }: Headgate, role: string) => `postgresql://${role}@127.0.0.1:${ports.sql.port}/dev`;
const codeOf = async (client: Client, sql: string): Promise<string> =>
  client.query(sql).then(
    () => 'done',
    (error: unknown) => (error as { code?: string }).code ?? 'none',
  );

const shared = sharedHeadgate();

/** `agent` may SELECT and is named; `plain` may only SELECT, `named` is only named, `other` has a table of its own. */
async function prepared(t: TestContext) {
  const headgate = await shared();
  const root = await headgate.client(t);
  await root.query(`CREATE ROLE shop LOGIN; CREATE ROLE agent LOGIN; CREATE ROLE plain LOGIN; CREATE ROLE named LOGIN; CREATE ROLE other LOGIN;
    GRANT CREATE ON SCHEMA public TO shop, other, agent`);
  const clientOf = async (role: string) => headgate.clientAs(t, role);
  const [shop, agent, plain, named, other] = await Promise.all(
    ['shop', 'agent', 'plain', 'named', 'other'].map(clientOf),
  );
  assert.ok(shop && agent && plain && named && other);
  for (const [owner, table] of [
    [shop, 'orders'],
    [other, 'notes'],
  ] as const) {
    await owner.query(`CREATE SECRET ${table}_key WITH (backend = 'meta') AS '${key} ${table}'`);
    await owner.query(`CREATE TABLE ${table} (data JSONB) INCLUDE TIMESTAMP AS received_at WITH (connector = 'webhook')
      VALIDATE SECRET ${table}_key AS secure_compare(headers ->> 'x-key', ${table}_key)`);
    await headgate.post(`dev/public/${table}`, '{"n":1}', { 'x-key': `${key} ${table}` });
    await headgate.post(`dev/public/${table}`, '{"wrong":true}', { 'x-key': 'wrong' });
  }
  await until(async () => (await root.query('SELECT FROM headgate.rejected_requests')).rowCount === 2);
  await shop.query('GRANT SELECT ON orders TO agent, plain');
  await other.query('GRANT SELECT ON notes TO agent, plain');
  return { headgate, root, shop, agent, plain, named, other };
}

const refused = 'SELECT schema_name, table_name, code, body FROM headgate.rejected_requests';
const seenBy = async (client: Client): Promise<(number | null)[]> => [
  (await client.query(refused)).rowCount,
  (await client.query('SELECT FROM headgate.endpoints')).rowCount,
  (await client.query('SHOW ENDPOINTS')).rows.length,
  (await client.query('SELECT FROM headgate.rejected_summary')).rowCount,
];
const explain = `EXPLAIN VALIDATE orders WITH (headers = '{"x-key": "wrong"}', body = '{}')`;

test('a role in the option readers reads refused requests of the table and changes nothing', async (t) => {
  const { headgate, root, shop, agent, plain, named, other } = await prepared(t);
  // GRANT SELECT alone discloses nothing of what strangers sent.
  assert.deepEqual(await seenBy(agent), [0, 0, 0, 0]);
  assert.equal(await codeOf(agent, explain), '42501');
  await shop.query(`ALTER TABLE orders SET (readers = 'agent, Named')`);

  await t.test('a role in readers sees refused requests of that table, and other roles do not', async () => {
    assert.deepEqual(await seenBy(agent), [1, 1, 1, 1]);
    const [row] = (await agent.query<Record<string, unknown>>(refused)).rows;
    assert.deepEqual(
      [row?.['table_name'], row?.['code'], String(row?.['body'])],
      ['orders', 'signature_failed', '{"wrong":true}'],
    );
    const [endpoint] = (await agent.query<Record<string, unknown>>('SHOW ENDPOINTS')).rows;
    assert.match(String(endpoint?.['URL']), /\/webhook\/dev\/public\/orders$/);
    assert.equal(
      endpoint?.['Check'],
      (await shop.query<Record<string, unknown>>('SHOW ENDPOINTS')).rows[0]?.['Check'],
    );
    const steps = JSON.stringify((await agent.query(explain)).rows);
    assert.match(steps, /key differs/);
    for (const client of [plain, named]) assert.deepEqual(await seenBy(client), [0, 0, 0, 0]);
    for (const client of [plain, named, other]) assert.equal(await codeOf(client, explain), '42501');
    assert.equal((await other.query(`${refused} WHERE table_name = 'orders'`)).rowCount, 0);
    const seen = [
      steps,
      JSON.stringify(row),
      JSON.stringify(
        (await agent.query('SELECT * FROM headgate.show_create_table($1::regclass)', ['orders'])).rows,
      ),
    ];
    assert.ok(!seen.join('').includes(key));
  });

  await t.test(
    "commands and console statements show a role in readers the table's refused requests",
    async () => {
      const shown = await Promise.all(
        [
          ['endpoints', '--json'],
          ['explain', '--json'],
          ['doctor', '--json'],
        ].map((args) => run(process.execPath, [cli, ...args, '--dsn', dsnOf(headgate, 'agent')])),
      );
      assert.deepEqual(
        shown.slice(0, 2).map(({ code }) => code),
        [0, 0],
        JSON.stringify(shown),
      );
      const [endpoints, explained] = shown.map(({ stdout }) => stdout);
      assert.equal(endpoints?.trim().split('\n').length, 1);
      assert.match(endpoints ?? '', /"schema":"public"[^]*"refused":1/);
      assert.match(
        explained ?? '',
        /"table_name":"orders","door":"http","status":401,"code":"signature_failed"/,
      );
      const told = await run(process.execPath, [cli, 'explain', '--dsn', dsnOf(headgate, 'agent')]);
      assert.match(told.stdout, /\n\nOnly the owner of the table can store it\.\n$/);
      const ref = { schema: 'public', table: 'orders' };
      for (const sql of [findEndpoints('', 9), findTables(''), readFacts(ref)]) {
        assert.equal((await agent.query(sql)).rowCount, 1, sql);
        assert.equal((await plain.query(sql)).rowCount, 0, sql);
      }
      // What accepted requests held, and is in memory, stays with the owner.
      assert.equal((await agent.query(ownedTable(ref))).rowCount, 0);
      assert.ok(!JSON.stringify(shown).includes(key));
    },
  );

  await t.test('a role in readers can retry, delete or change nothing', async () => {
    const id = (await agent.query<{ id: string }>('SELECT id FROM headgate.rejected_requests')).rows[0]?.id;
    await assert.rejects(
      agent.query(`SELECT headgate.retry_rejected(${id})`),
      /there is no rejected request \d+ of a table that you own/,
    );
    const oid = `'orders'::regclass::oid::bigint`;
    const attacks: readonly [sql: string, code: string][] = [
      ['INSERT INTO orders VALUES (\'{"n":2}\')', '42501'],
      [`SELECT headgate.retry_rejected(${id}, force => true)`, 'P0002'],
      ['DELETE FROM headgate.rejected_requests', '42501'],
      [`UPDATE headgate.rejected_requests SET retry_outcome = 'waiting'`, '42501'],
      [`ALTER TABLE orders SET (readers = 'agent, plain')`, '42501'],
      [`ALTER TABLE notes SET (readers = 'agent')`, '42501'],
      ['ALTER TABLE orders DROP VALIDATE', '42501'],
      [`ALTER TABLE orders SET (inspect = 'bodies')`, '42501'],
      [`UPDATE headgate.webhook_table SET options = '{"readers": "agent"}'`, '42501'],
      [
        `INSERT INTO headgate.request (action, given) VALUES ('options', jsonb_build_object('relation', 'notes'::regclass::oid::bigint, 'options', '{"readers": "agent"}'::jsonb, 'private', '[]'::jsonb))`,
        '42501',
      ],
      [
        `INSERT INTO headgate.request (action, given) VALUES ('forget ignored keys', jsonb_build_object('relation', ${oid}))`,
        '42501',
      ],
      ['SELECT sealed FROM headgate.secret', '42501'],
      ["ALTER SECRET orders_key AS 'mine'", '42501'],
      ['DROP TABLE orders', '42501'],
      ['SET ROLE shop', '42501'],
    ];
    for (const [sql, code] of attacks) assert.equal(await codeOf(agent, sql), code, sql);
    assert.equal(await codeOf(agent, `SELECT headgate.forget_rejected(${id})`), 'P0002');
    // Of the same names, found first: neither decides who sees what.
    await root.query('CREATE SCHEMA agent_s AUTHORIZATION agent');
    await agent.query(`CREATE VIEW agent_s.pg_roles AS SELECT 'public'::name AS rolname, 10::oid AS oid;
      SET search_path = agent_s, pg_catalog, public`);
    assert.equal((await agent.query(`${refused} WHERE table_name = 'notes'`)).rowCount, 0);
    await agent.query('RESET search_path');
    assert.deepEqual((await root.query('SELECT count(*)::int AS n FROM orders')).rows, [{ n: 1 }]);
    assert.equal((await root.query('SELECT FROM headgate.rejected_requests')).rowCount, 2);
  });

  await t.test('the option readers takes role names as GRANT does, and follows renamed roles', async () => {
    const set = (readers: string) => `ALTER TABLE orders SET (readers = '${readers}')`;
    assert.equal(await codeOf(shop, set('agent, nobody_at_all')), '42704');
    for (const wrong of ['agent plain', 'agent,', 'agent, agent', "agent'') x"])
      assert.notEqual(await codeOf(shop, set(wrong)), 'done', wrong);
    await root.query(`CREATE ROLE "a, plain" LOGIN; CREATE ROLE team; GRANT team TO plain`);
    await shop.query(set('"a, plain"'));
    assert.deepEqual([(await seenBy(plain))[0], (await seenBy(agent))[0]], [0, 0]);
    const [made] = (await shop.query<Record<string, string>>('SHOW CREATE TABLE orders')).rows;
    assert.match(made?.['Create Sql'] ?? '', /readers = '"a, plain"'/);
    await shop.query(set('team'));
    assert.deepEqual([(await seenBy(plain))[0], (await seenBy(agent))[0]], [1, 0]);
    await shop.query(set('public'));
    assert.deepEqual(
      [(await seenBy(plain))[0], (await seenBy(agent))[0], (await seenBy(named))[0]],
      [1, 1, 0],
    );
    await shop.query('REVOKE SELECT ON orders FROM plain');
    assert.equal((await seenBy(plain))[0], 0);
    await shop.query(set(''));
    assert.deepEqual(await seenBy(agent), [0, 0, 0, 0]);
    assert.equal(await codeOf(agent, explain), '42501');
    assert.doesNotMatch(
      (await shop.query<Record<string, string>>('SHOW CREATE TABLE orders')).rows[0]?.['Create Sql'] ?? '',
      /readers/,
    );
    // A renamed role, and another one that gets its name.
    await shop.query(set('agent'));
    await root.query('ALTER ROLE agent RENAME TO former; CREATE ROLE agent LOGIN');
    assert.equal((await seenBy(agent))[0], 0);
    assert.equal((await seenBy(await headgate.clientAs(t, 'agent')))[0], 0);
  });
});

test('psql creates a table with readers', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const headgate = await shared();
  const sql = `CREATE ROLE support; CREATE TABLE calls (data JSONB) WITH (connector = 'webhook', readers = 'support'); SHOW CREATE TABLE calls`;
  const { code, stdout, stderr } = await run('psql', [
    '-XAtqd',
    dsnOf(headgate, 'root'),
    ...sql.split('; ').flatMap((it) => ['-c', it]),
  ]);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /readers = 'support'/);
});
