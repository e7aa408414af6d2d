/** Who wants in where rows go into another server: whose secret, whose table, which host, which names. One Headgate, and the stand-in. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { quoteIdentifier } from '../../src/kit/sql-text.ts';
import { startHeadgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { onStandInOnly, openServer } from './support.ts';

test('attacks through the option into are refused', { skip: onStandInOnly }, async (t) => {
  const server = await openServer(t);
  const { dsn, client: there } = server;
  const headgate = await startHeadgate(t, {
    env: { HEADGATE_INTO_HOSTS: new URL(dsn).host, HEADGATE_BODY_BYTES_MAX: String(25 * 1024 * 1024) },
  });
  const root = await headgate.client(t);
  const passwords = ['guess-1', 'guess-2', 'guess-3', 'first-password', 'second-password'] as const;
  const [guess1, guess2, guess3, first, second] = passwords;
  const withPassword = (password: string) => dsn.replace('root@', `root:${password}@`);
  const told: string[] = [];
  for (const sql of [
    'CREATE ROLE mallory LOGIN',
    'CREATE SCHEMA mal AUTHORIZATION mallory',
    `CREATE SECRET rw WITH (backend = 'meta') AS '${dsn}'`,
  ])
    await root.query(sql);
  await there.query('CREATE SCHEMA mal');
  const mallory = await headgate.clientAs(t, 'mallory');
  const attempt = async (sql: string) => {
    const said = await mallory.query(sql).then(
      () => 'done',
      (error: unknown) => (error as Error).message,
    );
    told.push(said);
    return said;
  };
  const post = async (path: string, body = '{"id": 1}') => {
    const answer = await headgate.post(`dev/${path}`, body);
    told.push(answer.text);
    return answer.status;
  };
  const says = (path: string, why: string) =>
    until(async () => (await post(path)) === 503 && headgate.stderr.includes(why));

  await t.test('a table with into sends nothing after it is given to another owner', async () => {
    for (const name of ['gift', 'ledger']) await there.query(`CREATE TABLE ${name} (id INT)`);
    await there.query('CREATE TABLE mal.gift (id INT)');
    await root.query(`CREATE TABLE gift (id INT) WITH (connector = 'webhook', into = 'rw')`);
    assert.equal(await post('public/gift'), 200);
    await root.query('GRANT CREATE ON SCHEMA public TO mallory; ALTER TABLE gift OWNER TO mallory');
    await says('public/gift', 'its owner may not use the secret \\"rw\\", which says where its rows go');
    for (const [done, path] of [
      ['ALTER TABLE gift RENAME TO ledger', 'public/ledger'],
      ['ALTER TABLE ledger RENAME TO gift', 'public/gift'],
      ['ALTER TABLE gift DROP CONSTRAINT rows_are_elsewhere', 'public/gift'],
      ['ALTER TABLE gift SET SCHEMA mal', 'mal/gift'],
    ] as const) {
      assert.equal(await attempt(done), 'done');
      await until(async () => (await post(path)) === 503);
    }
    const rows = await there.query('SELECT FROM ledger UNION ALL SELECT FROM mal.gift');
    assert.equal(rows.rowCount, 0);
    // Who may use the secret gets on.
    await root.query('CREATE ROLE trusted; GRANT root TO trusted; ALTER TABLE mal.gift OWNER TO trusted');
    await until(async () => (await post('mal/gift')) === 200);
    await root.query('REVOKE root FROM trusted');
    await until(async () => (await post('mal/gift')) === 503);
    assert.equal((await root.query('SELECT FROM mal.gift')).rowCount, 0);
    await root.query('DROP TABLE mal.gift; DROP ROLE trusted');
  });

  await t.test('names and values sent into RisingWave are never read as SQL', async () => {
    const names = [`"; DROP TABLE x; --`, `it's\n"new"`, '$1', 'Größe \\ ', 'UPPER'];
    for (const [i, name] of names.entries()) {
      const columns = `(${quoteIdentifier(name)} VARCHAR, ${quoteIdentifier(`${name}2`)} INT[])`;
      await there.query(`CREATE TABLE ${quoteIdentifier(name)} ${columns}`);
      await root.query(
        `CREATE TABLE ${quoteIdentifier(name)} ${columns} WITH (connector = 'webhook', into = 'rw')`,
      );
      const value = `${name}\\'); SELECT pg_sleep(1); --${i}`;
      const path = `public/${encodeURIComponent(name)}`;
      assert.equal(await post(path, JSON.stringify({ [name]: value, [`${name}2`]: [i] })), 200, name);
      await there.query('FLUSH');
      const { rows } = await there.query({
        text: `SELECT * FROM ${quoteIdentifier(name)}`,
        rowMode: 'array',
      });
      assert.deepEqual(rows, [[value, [i]]], name);
      assert.equal(await post(path, JSON.stringify({ [`${name}2`]: ['1}); --'] })), 422, name);
    }
  });

  await t.test('into refuses a body of 25 MiB, survives a truncated one and stores the next', async () => {
    await there.query('CREATE TABLE large (data JSONB)');
    await root.query(`CREATE TABLE large (data JSONB) WITH (connector = 'webhook', into = 'rw')`);
    const { port } = headgate.ports.listen;
    const body = JSON.stringify('x'.repeat(25 * 1024 * 1024 - 2));
    assert.equal(await post('public/large', body), 413);
    assert.equal(await post('public/large', `${body} `), 413);
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(
      `POST /webhook/dev/public/large HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await new Promise<void>((resolve) => socket.write(body.slice(0, 1_000_000), () => resolve()));
    socket.resetAndDestroy();
    assert.equal(await post('public/large', '"next"'), 200);
    await there.query('FLUSH');
    assert.deepEqual((await there.query('SELECT data FROM large')).rows, [{ data: 'next' }]);
  });

  await t.test(
    'into refuses secrets of others, unlisted hosts and servers that ask for no password',
    async () => {
      const table = `CREATE TABLE mal.x (id INT) WITH (connector = 'webhook', into = `;
      assert.match(await attempt(`${table} 'public.rw')`), /permission denied for secret "public.rw"/);
      await there.query('CREATE TABLE mal.x (id INT)');
      // The server lets everybody in who comes from Headgate's address.
      await attempt(`CREATE SECRET mal.own WITH (backend = 'meta') AS '${withPassword(guess1)}'`);
      assert.equal(await attempt(`${table} 'mal.own')`), 'done');
      await says('mal/x', 'did not ask for the password');
      // Another host, another way in, a file of this machine: destination.test.ts has more.
      for (const [other, why] of [
        [`postgresql://u:${guess2}@127.0.0.1:1/dev`, 'HEADGATE_INTO_HOSTS does not name 127.0.0.1:1'],
        [`${dsn}?sslmode=verify-full&sslkey=/etc/${guess3}`, 'is not of the form'],
      ] as const) {
        assert.equal(await attempt(`ALTER SECRET mal.own AS '${other}'`), 'done');
        await says('mal/x', why);
      }
      server.standIn.password = first;
      await attempt(`ALTER SECRET mal.own AS '${withPassword(first)}'`);
      await until(async () => (await post('mal/x')) === 200);
      // Rotated there, and then here.
      server.standIn.password = second;
      await server.standIn.leave();
      await server.standIn.listen();
      await until(async () => (await post('mal/x')) === 503);
      await attempt(`ALTER SECRET mal.own AS '${withPassword(second)}'`);
      await until(async () => (await post('mal/x')) === 200);
      server.standIn.password = null;
      assert.equal(await attempt('DROP TABLE mal.x'), 'done');
      assert.equal(await attempt('DROP SECRET mal.own'), 'done');
    },
  );

  await t.test('passwords of into appear in no answer, log or SHOW SECRETS during attacks', async () => {
    const shown = await mallory.query('SHOW SECRETS');
    const everywhere = [headgate.stderr, headgate.stdout, ...told, JSON.stringify(shown.rows)].join('\n');
    for (const password of passwords) assert.ok(!everywhere.includes(password), password);
  });
});
