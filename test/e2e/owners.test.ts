/** Tables of many owners, while they change hands: whose session stores a row, as PostgreSQL itself says. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { request } from '../support/gateway.ts';
import { startHeadgate } from '../support/headgate.ts';
import { times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

suite('whose session stores a row', () => {
  test('the first rows of many owners with code at once are all stored, each by its owner', async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    const count = times(100, 500);
    await root.query(`CREATE SCHEMA o; GRANT ALL ON SCHEMA o TO PUBLIC;
      CREATE FUNCTION o.who() RETURNS text LANGUAGE sql VOLATILE AS 'SELECT current_user'; CREATE PROCEDURE o.owners(n int) LANGUAGE plpgsql AS $$
      BEGIN FOR i IN 1..n LOOP EXECUTE format('CREATE ROLE o%s', i); END LOOP; END $$; CALL o.owners(${count})`);
    for (let i = 1; i <= count; i++)
      await root.query(
        `CREATE TABLE o.t${i} (id INT, who TEXT DEFAULT o.who(), session TEXT DEFAULT session_user) WITH (connector = 'webhook')`,
      );
    await root.query(
      `DO $$ BEGIN FOR i IN 1..${count} LOOP EXECUTE format('ALTER TABLE o.t%s OWNER TO o%s', i, i); END LOOP; END $$`,
    );
    await until(async () => (await headgate.post(`dev/o/t${count}`, '{"id":0}')).status === 200);
    const answers = await Promise.all(
      Array.from({ length: count }, (_, i) => headgate.post(`dev/o/t${i + 1}`, '{"id":1}')),
    );
    assert.deepEqual(
      answers.filter(({ status }) => status !== 200).map(({ status, text }) => `${status} ${text}`),
      [],
    );
    for (let i = 1; i <= count; i++) {
      const { rows } = await root.query(
        `SELECT DISTINCT who, session = 'headgate_as_' || 'o${i}'::regrole::oid AS own FROM o.t${i} WHERE id = 1`,
      );
      assert.deepEqual(rows, [{ who: `o${i}`, own: true }]);
    }
    // Those that were closed for others may not have ended yet.
    await until(async () => {
      const { rows } = await root.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename LIKE 'headgate_as_%'`,
      );
      return (rows[0]?.n ?? 0) <= limits.ownerSessionsMax;
    });
  });

  test('a table that changes hands under load gets no row of a role that was not its owner', async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE a; CREATE ROLE b; CREATE SCHEMA s; GRANT ALL ON SCHEMA s TO a, b; CREATE TABLE s.hands (owner name, xact xid8);
      GRANT SELECT ON s.hands TO a, b;
      CREATE FUNCTION s.said() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.who := current_user; NEW.owner := (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID); RETURN NEW; END $$`);
    await root.query(`CREATE TABLE s.t (id INT, who NAME, owner NAME) WITH (connector = 'webhook')`);
    await root.query(`CREATE TRIGGER said BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.said()`);
    const over = new AbortController();
    let [sent, stored] = [0, 0];
    const senders = Array.from({ length: 8 }, async () => {
      while (!over.signal.aborted) {
        const { status } = await headgate.post('dev/s/t', `{"id":${sent++}}`);
        if (status === 200) stored++;
        else assert.equal(status, 503);
      }
    });
    const changer = await headgate.client(t);
    const hands = times(100, 1_000);
    for (let i = 0; i < hands; i++) {
      await changer.query(`ALTER TABLE s.t OWNER TO ${['a', 'b', 'root'][i % 3] ?? 'a'}`);
      await delay(3);
    }
    const before = stored;
    await until(() => stored > before + 20);
    over.abort();
    await Promise.all(senders);
    const { rows } = await root.query('SELECT count(*)::int AS n FROM s.t WHERE who IS DISTINCT FROM owner');
    assert.deepEqual(rows, [{ n: 0 }]);
    const { rows: all } = await root.query<{ n: number }>('SELECT count(*)::int AS n FROM s.t');
    assert.ok((all[0]?.n ?? 0) >= stored, 'every row that was answered 200 is there');
  });

  test('an id that a former owner of a table has claimed is not taken for a delivery of the next one', async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE a; CREATE ROLE b; CREATE SCHEMA s; GRANT ALL ON SCHEMA s TO a, b;
      CREATE FUNCTION s.one() RETURNS int LANGUAGE sql AS 'SELECT 1'`);
    await root.query(
      `CREATE TABLE s.t (id TEXT, n INT DEFAULT s.one()) WITH (connector = 'webhook', dedupe = '$.id')`,
    );
    const post = async (id: string) => (await headgate.post('dev/s/t', JSON.stringify({ id }))).status;
    const stored = async () =>
      (await root.query<{ id: string }>('SELECT id FROM s.t ORDER BY 1')).rows.map(({ id }) => id);
    assert.equal(await post('x'), 200, 'claimed by Headgate itself');
    await root.query('ALTER TABLE s.t OWNER TO a');
    await until(async () => (await post('y')) === 200);
    assert.deepEqual([await post('x'), await post('y')], [200, 200]);
    assert.deepEqual(await stored(), ['x', 'y']);
    await root.query('TRUNCATE s.t; ALTER TABLE s.t OWNER TO b');
    await until(async () => (await post('z')) === 200);
    assert.deepEqual(
      [await post('x'), await post('y'), await post('y'), await post('z')],
      [200, 200, 200, 200],
    );
    assert.deepEqual(await stored(), ['y', 'z'], 'y was claimed by a, which could have stored nothing');
  });

  test('no session of a superuser touches a table, except those of one who owns that table with code', async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app; CREATE SCHEMA mine`);
    const app = await headgate.clientAs(t, 'app');
    const triggers = (
      schema: string,
    ) => `CREATE FUNCTION ${schema}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
      CREATE TRIGGER f BEFORE INSERT ON ${schema}.coded FOR EACH ROW EXECUTE FUNCTION ${schema}.f()`;
    for (const [client, schema] of [
      [app, 'app'],
      [root, 'mine'],
    ] as const) {
      await client.query(`CREATE TABLE ${schema}.plain (data JSONB) WITH (connector = 'webhook')`);
      await client.query(
        `CREATE TABLE ${schema}.typed (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook', dedupe = '$.id')`,
      );
      await client.query(`CREATE TABLE ${schema}.coded (id INT, v TEXT) WITH (connector = 'webhook')`);
      await client.query(
        `CREATE TABLE ${schema}.kept (data JSONB) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook', keep = '1 minutes')`,
      );
      await client.query(triggers(schema));
    }
    await app.query(
      'GRANT USAGE ON SCHEMA app TO headgate_gateway; GRANT ALL ON ALL TABLES IN SCHEMA app TO headgate_gateway',
    );
    await root.query(
      `INSERT INTO app.kept SELECT '1', now() - interval '1 hour' FROM generate_series(1, 50)`,
    );
    // Locks on the tables show which session touches them: PostgreSQL keeps them until the transaction ends.
    const watcher = await headgate.client(t);
    const seen = new Set<string>();
    const over = new AbortController();
    const watching = (async () => {
      while (!over.signal.aborted) {
        const { rows } = await watcher.query<{ who: string }>(
          `SELECT DISTINCT a.usename || ': ' || l.relation::regclass AS who FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
           WHERE l.relation::regclass::text ~ '^(app|mine)[.]' AND c.relkind = 'r' AND a.application_name LIKE 'headgate%'
             AND l.mode <> 'AccessShareLock'`,
        );
        for (const { who } of rows) seen.add(who);
      }
    })();
    const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/`;
    for (const schema of ['app', 'mine']) {
      const ws = await WsClient.open(`${url}${schema}/typed`);
      for (let n = 0; n < times(60, 300); n++) {
        await Promise.all([
          ...['plain', 'typed', 'coded', 'kept'].map((table) =>
            headgate.post(`dev/${schema}/${table}`, `{"id":${n},"v":"x"}`),
          ),
          request(`${headgate.gatewayUrl}/v1/events?name=${schema}.coded`, {
            method: 'POST',
            body: `{"id":${n}}`,
          }),
        ]);
        ws.send(2 * n + 1, [{ op: 'upsert', data: { id: 1_000 + n, v: 'y' } }]);
        ws.send(2 * n + 2, [{ op: 'delete', data: { id: 1_000 + n } }]);
      }
      await ws.acked(2 * times(60, 300));
      await ws.close();
    }
    over.abort();
    await watching;
    const supers = [...seen].filter((it) => it.startsWith('root: '));
    assert.deepEqual(
      new Set([...supers, 'root: mine.coded']),
      new Set(['root: mine.coded', ...supers.filter((it) => it === 'root: mine.typed')]),
    );
    assert.ok(
      [...seen].some((it) => /^headgate_commit: (app|mine)\./.test(it)),
      [...seen].join(),
    );
    assert.ok(
      [...seen].some((it) => /^headgate_as_\d+: app\.coded$/.test(it)),
      [...seen].join(),
    );
    const { rows } = await root.query(
      `SELECT (SELECT count(*)::int FROM app.coded) AS app, (SELECT count(*)::int FROM mine.coded) AS mine`,
    );
    assert.deepEqual(rows, [{ app: 2 * times(60, 300), mine: 2 * times(60, 300) }]);
  });
});
