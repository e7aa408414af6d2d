/** Every way by which a row comes in, into tables whose owner wants more rights than it has: nothing is gained. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { request } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startHeadgate } from '../support/headgate.ts';
import { clientOf, codes, nothingGained, setTraps, setUp } from '../support/owners.ts';
import { onEnd } from '../support/cleanup.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { embeddedBin, startServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

const events = (url: string, name: string, body: string, more = '') =>
  request(`${url}/v1/events?name=${name}${more}`, { method: 'POST', body });

/** Above what goes the way of webhooks. */
const large = (from: number): string =>
  Array.from({ length: 300 }, (_, i) => JSON.stringify({ id: from + i, v: 'y'.repeat(4_000) })).join('\n');

/** What a superuser asks about a table of somebody else's, in psql or in the console. */
const shown = [
  'SHOW ENDPOINTS',
  'SHOW TABLES',
  'DESCRIBE mal.t',
  'SHOW CREATE TABLE mal.t',
  `EXPLAIN VALIDATE mal.t WITH (headers = '{}', body = '{"id":1,"v":"a"}')`,
  'SELECT * FROM headgate.endpoints',
  'SELECT * FROM headgate.keep_log',
];

const count = async (client: Client): Promise<number> => {
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM mal.t');
  return rows[0]?.n ?? 0;
};

suite("code of a table's owner runs with that owner's rights only", () => {
  test("code of a table's owner gains no rights through any port", async (t) => {
    const headgate = await startHeadgate(t, { args: ['--events-role=root'] });
    const root = await headgate.client(t);
    await root.query(setUp);
    await root.query(`CREATE SECRET hidden WITH (backend = 'meta') AS 'value'`);
    const mallory = await headgate.clientAs(t, 'mallory');
    t.diagnostic(sampleSeed);
    for (const { name, columns, after } of sampleOf(codes, 4)) {
      await root.query(`DROP SCHEMA mal CASCADE; CREATE SCHEMA mal AUTHORIZATION mallory`);
      await mallory.query(setTraps);
      // By turns with a key, and then as a batch where there is none.
      const keyed = codes.findIndex((it) => it.name === name) % 2 === 0 && name !== 'a rule';
      const how = `connector = 'webhook', ${keyed ? `dedupe = '$.id'` : 'is_batched = true'}`;
      await mallory.query(
        `CREATE TABLE mal.t (id INT${keyed ? ' PRIMARY KEY' : ''}, ${columns}) WITH (${how})`,
      );
      if (after !== '') await mallory.query(after);
      const post = (body: string) => headgate.post('dev/mal/t', body);
      const one = await post('{"id":1,"v":"a"}');
      assert.equal(one.status, 200, `${name}: ${one.text}`);
      if (keyed) assert.equal((await post('{"id":1,"v":"a"}')).status, 200, name);
      const together = await Promise.all([2, 3, 4, 5].map((id) => post(`{"id":${id},"v":"b"}`)));
      assert.deepEqual(new Set(together.map(({ status }) => status)), new Set([200]), name);
      if (!keyed) assert.equal((await post('{"id":6}\n{"id":7}')).status, 200, name);
      const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/mal/t`;
      const ws = await WsClient.open(url);
      ws.send(1, [{ op: keyed ? 'upsert' : 'insert', data: { id: 8, v: 'c' } }]);
      if (keyed) ws.send(2, [{ op: 'delete', data: { id: 8 } }]);
      await ws.acked(keyed ? 2 : 1);
      await ws.close();
      assert.equal((await events(headgate.gatewayUrl, 'mal.t', '{"id":9,"v":"d"}')).status, 200, name);
      const many = await events(headgate.gatewayUrl, 'mal.t', large(100), keyed ? '&on_conflict=update' : '');
      assert.equal(many.status, 200, `${name}: ${many.text}`);
      assert.equal(await count(root), keyed ? 306 : 309, name);
      const ran = await nothingGained(root, name);
      assert(ran > 0, name);
      for (const statement of shown) await root.query(statement);
      assert.equal(await nothingGained(root, name), ran, `${name}: what shows a table runs nothing of it`);
    }
  });

  test("code of a table's owner does not gain rights through a retried request or a view", async (t) => {
    const headgate = await startHeadgate(t, { args: ['--events-role=root'] });
    const root = await headgate.client(t);
    await root.query(setUp);
    const mallory = await headgate.clientAs(t, 'mallory');
    await mallory.query(setTraps);
    await mallory.query(`CREATE TABLE mal.t (id INT CHECK (id > 0), v TEXT) WITH (connector = 'webhook')`);
    await mallory.query(codes[0]?.after ?? '');
    assert.equal((await headgate.post('dev/mal/t', '{"id":-1}')).status, 422);
    await mallory.query('ALTER TABLE mal.t DROP CONSTRAINT t_id_check');
    const retried = 'SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests';
    await until(async () => (await mallory.query(retried)).rowCount === 1);
    await until(async () => {
      const { rows } = await mallory.query<{ o: string }>(
        'SELECT retry_outcome AS o FROM headgate.rejected_requests',
      );
      const outcome = String(rows[0]?.o);
      assert(['waiting', 'running', 'committed'].includes(outcome), outcome);
      return outcome === 'committed';
    });
    assert.equal(await count(root), 1);
    await mallory.query(`
      CREATE VIEW mal.simple AS SELECT id, v FROM mal.t;
      CREATE VIEW mal.clever AS SELECT id, v FROM mal.t;
      CREATE FUNCTION mal.instead() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN PERFORM mal.evil(); INSERT INTO mal.t VALUES (NEW.id, NEW.v); RETURN NEW; END$$;
      CREATE TRIGGER i INSTEAD OF INSERT ON mal.clever FOR EACH ROW EXECUTE FUNCTION mal.instead()`);
    for (const [i, view] of ['mal.simple', 'mal.clever'].entries()) {
      assert.equal((await events(headgate.gatewayUrl, view, `{"id":${10 + i},"v":"x"}`)).status, 200, view);
      const many = await events(headgate.gatewayUrl, view, large(1_000 * (i + 1)));
      assert.equal(many.status, 200, `${view}: ${many.text}`);
    }
    assert.equal(await count(root), 603);
    assert((await nothingGained(root, 'views')) > 0);
    // A view of another's table: the code of one runs as it would for the other's own INSERT.
    await root.query('CREATE ROLE eve; GRANT ALL ON mal.t TO eve; GRANT USAGE ON SCHEMA mal TO eve');
    await root.query(
      'CREATE VIEW public.borrowed AS SELECT id, v FROM mal.t; ALTER VIEW public.borrowed OWNER TO eve',
    );
    const refused = await events(headgate.gatewayUrl, 'borrowed', '{"id":1}');
    assert.equal(refused.status, 422, refused.text);
    await nothingGained(root, 'borrowed');
  });

  test("/v1/events runs code of a superuser's table as the gateway's role, and that of others in sessions of the owner", async (t) => {
    const headgate = await startHeadgate(t);
    const root = await headgate.client(t);
    await root.query(`${setUp}; CREATE SCHEMA shop; CREATE TABLE shop.t (id INT, who TEXT, session TEXT);
      CREATE FUNCTION shop.look() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.who := current_user; NEW.session := session_user; RETURN NEW; END$$;
      CREATE TRIGGER t BEFORE INSERT ON shop.t FOR EACH ROW EXECUTE FUNCTION shop.look()`);
    for (const body of ['{"id":1}', large(10)]) {
      const { status, text } = await events(headgate.gatewayUrl, 'shop.t', body);
      assert.equal(status, 200, text);
    }
    const { rows } = await root.query('SELECT who, session, count(*)::int AS n FROM shop.t GROUP BY 1, 2');
    assert.deepEqual(rows, [{ who: 'headgate_gateway', session: 'headgate_gateway', n: 301 }]);
    const mallory = await headgate.clientAs(t, 'mallory');
    await mallory.query(setTraps);
    await mallory.query(`CREATE TABLE mal.t (id INT, v TEXT); ${codes[0]?.after ?? ''};
      GRANT USAGE ON SCHEMA mal TO headgate_gateway; GRANT INSERT, SELECT ON mal.t TO headgate_gateway`);
    for (const body of ['{"id":1,"v":"a"}', large(10)]) {
      const { status, text } = await events(headgate.gatewayUrl, 'mal.t', body);
      assert.equal(status, 200, text);
    }
    assert.equal(await count(root), 301);
    assert((await nothingGained(root, 'by the gateway')) > 0);
    // What the gateway's role may not do is not done with the owner's rights.
    await mallory.query(
      'REVOKE INSERT ON mal.t FROM headgate_gateway; GRANT INSERT (id) ON mal.t TO headgate_gateway',
    );
    assert.notEqual((await events(headgate.gatewayUrl, 'mal.t', '{"id":1,"v":"a"}')).status, 200);
    await mallory.query(`GRANT INSERT ON mal.t TO headgate_gateway; ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY;
      CREATE POLICY few ON mal.t FOR INSERT TO headgate_gateway WITH CHECK (id < 5)`);
    for (let tries = 0; tries < 2; tries++)
      assert.notEqual((await events(headgate.gatewayUrl, 'mal.t', '{"id":9}')).status, 200);
    assert.equal(await count(root), 301);
  });

  test("code of a table's owner does not gain rights in a database new to Headgate", async (t) => {
    const server = await startServer(embeddedBin);
    onEnd(t, 'server', () => server.close());
    const config = { host: server.socketDir, database: 'postgres' };
    const root = await clientOf(t, { ...config, user: 'root' });
    await root.query(`${setUp}; CREATE ROLE gate LOGIN; GRANT CREATE ON DATABASE postgres TO gate`);
    const mallory = await clientOf(t, { ...config, user: 'mallory' });
    await mallory.query(`${setTraps}; CREATE TABLE mal.t (id INT, v TEXT); CREATE TABLE mal.still (id INT, at TIMESTAMPTZ DEFAULT now());
      GRANT USAGE ON SCHEMA mal TO gate; GRANT INSERT, SELECT, UPDATE ON mal.t, mal.still TO gate; ${codes[1]?.after ?? ''}`);
    const dsn = `postgresql://gate@/postgres?host=${encodeURIComponent(server.socketDir)}`;
    const { url } = await startGatewayProcess(t, { EVENTS_API_DEV_DSN: dsn });
    const refused = await events(url, 'mal.t', '{"id":1}');
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.text, /run code of its owner .*mallory.*role .*gate.* does not run/);
    assert.equal((await events(url, 'mal.still', '{"id":1}')).status, 200, 'nothing of it runs code');
    // What nobody may act for is looked at before the row, whatever was remembered of it.
    await mallory.query('ALTER TABLE mal.still ALTER id SET DEFAULT length(mal.evil())');
    assert.equal((await events(url, 'mal.still', '{"at":null}')).status, 400);
    assert.equal(await count(root), 0);
    assert.equal(await nothingGained(root, 'alone'), 0);
    // A superuser's session stores nothing into tables of others, not even what runs no code.
    await mallory.query('CREATE TABLE mal.plain (id INT)');
    const asRoot = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
    const superuser = await startGatewayProcess(t, { EVENTS_API_DEV_DSN: asRoot });
    for (const name of ['mal.plain', 'mal.t'])
      assert.equal((await events(superuser.url, name, '{"id":1}')).status, 400, name);
    await root.query('CREATE TABLE mine (id INT)');
    assert.equal((await events(superuser.url, 'mine', '{"id":1}')).status, 200);
  });
});
