/** Tables of many owners, while they change hands: whose session stores a row, as PostgreSQL itself says. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { createClient } from '../../src/client/client.ts';
import { request } from '../support/gateway.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { isLong, times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

const shared = sharedHeadgate();

suite('each row is stored in a session with the right role', () => {
  test('a table that changes its owner under load runs its code only as the owner of that moment', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE a; CREATE ROLE b; CREATE SCHEMA s; GRANT ALL ON SCHEMA s TO a, b;
      CREATE TABLE s.hands (owner name, at timestamptz);
      CREATE FUNCTION s.said() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.who := current_user; NEW.session := session_user; NEW.at := clock_timestamp(); RETURN NEW; END $$`);
    await root.query(
      `CREATE TABLE s.t (id INT, who NAME, session NAME, at TIMESTAMPTZ, printed NAME DEFAULT current_user) WITH (connector = 'webhook')`,
    );
    await root.query(`CREATE TRIGGER said BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.said();
      INSERT INTO s.hands VALUES ('root', '-infinity')`);
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
    const hands = times(24, 1_000);
    for (let i = 0; i < hands; i++) {
      const next = ['a', 'b', 'root'][i % 3] ?? 'a';
      // Both moments are under a lock that the other one waits for.
      await changer.query(
        `BEGIN; ALTER TABLE s.t OWNER TO ${next}; INSERT INTO s.hands VALUES ('${next}', clock_timestamp()); COMMIT`,
      );
      // Some rows meet several owners, others are stored in between.
      const before = stored;
      if (i % 4 === 3) await until(() => stored > before + 2);
      else await delay(3);
    }
    const before = stored;
    await until(() => stored > before + 20);
    over.abort();
    await Promise.all(senders);
    const { rows } = await root.query<{ owner: string; own: boolean }>(`
      SELECT h.owner, count(*)::int AS n, bool_and(h.owner = t.who AND h.owner = t.printed
        AND t.session ~ CASE h.owner WHEN 'root' THEN '^root$' ELSE format('^headgate_as_%s_', to_regrole(h.owner::text)::oid) END) AS own
      FROM s.t CROSS JOIN LATERAL (SELECT h.owner FROM s.hands h WHERE h.at < t.at ORDER BY h.at DESC LIMIT 1) AS h GROUP BY 1 ORDER BY 1`);
    t.diagnostic(JSON.stringify({ hands, sent, stored, rows }));
    assert.deepEqual(
      rows.map(({ owner, own }) => ({ owner, own })),
      ['a', 'b', 'root'].map((owner) => ({ owner, own: true })),
    );
    const { rows: all } = await root.query<{ n: number }>('SELECT count(*)::int AS n FROM s.t');
    assert.ok((all[0]?.n ?? 0) >= stored, 'every row that was answered 200 is there');
  });

  test('a delivery id claimed by a former owner of a table does not count for the next owner', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(`CREATE ROLE former; CREATE ROLE next; CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO former, next;
      CREATE FUNCTION ids.one() RETURNS int LANGUAGE sql AS 'SELECT 1'`);
    await root.query(
      `CREATE TABLE ids.t (id TEXT, n INT DEFAULT ids.one()) WITH (connector = 'webhook', dedupe = '$.id')`,
    );
    const post = async (id: string) => (await headgate.post('dev/ids/t', JSON.stringify({ id }))).status;
    const stored = async () =>
      (await root.query<{ id: string }>('SELECT id FROM ids.t ORDER BY 1')).rows.map(({ id }) => id);
    assert.equal(await post('x'), 200, 'claimed by Headgate itself');
    await root.query('ALTER TABLE ids.t OWNER TO former');
    await until(async () => (await post('y')) === 200);
    assert.deepEqual([await post('x'), await post('y')], [200, 200]);
    assert.deepEqual(await stored(), ['x', 'y']);
    await root.query('TRUNCATE ids.t; ALTER TABLE ids.t OWNER TO next');
    await until(async () => (await post('z')) === 200);
    assert.deepEqual(
      [await post('x'), await post('y'), await post('y'), await post('z')],
      [200, 200, 200, 200],
    );
    assert.deepEqual(
      await stored(),
      ['y', 'z'],
      'y was claimed by the former owner, which could have stored nothing',
    );
    await root.query('TRUNCATE ids.t; ALTER ROLE next RENAME TO renamed');
    await until(async () => (await post('v')) === 200);
    assert.deepEqual([await post('y'), await post('z')], [200, 200]);
    assert.deepEqual(await stored(), ['v'], 'the role is the same under another name');
    await root.query('ALTER TABLE ids.t OWNER TO former');
    await until(async () => (await post('u')) === 200);
    await root.query('ALTER TABLE ids.t OWNER TO renamed');
    await until(async () => (await post('w')) === 200);
    assert.deepEqual([await post('y'), await post('z')], [200, 200]);
    assert.deepEqual(await stored(), ['u', 'v', 'w'], 'the table is back');
    await root.query(
      'TRUNCATE ids.t; REASSIGN OWNED BY renamed TO former; DROP OWNED BY renamed; DROP ROLE renamed',
    );
    await until(async () => (await post('t')) === 200);
    assert.deepEqual([await post('x'), await post('y'), await post('u')], [200, 200, 200]);
    assert.deepEqual(
      await stored(),
      ['t', 'y'],
      'the former owner is gone, the claim of y is not that of the next one',
    );
  });

  test('no superuser session locks a webhook table, except one of the superuser who owns it', async (t) => {
    const headgate = await shared();
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
      for (const [name, columns, more = ''] of [
        ['plain', '(data JSONB)'],
        ['typed', '(id INT PRIMARY KEY, v TEXT)', ", dedupe = '$.id'"],
        ['coded', '(id INT, v TEXT)'],
        ['kept', '(data JSONB) INCLUDE TIMESTAMP AS at', ", keep = '1 minutes'"],
        ['spooled', '(id INT)', ", spool = 'fallback'"],
        ['retried', '(id INT CHECK (id > 0))'],
      ] as const)
        await client.query(`CREATE TABLE ${schema}.${name} ${columns} WITH (connector = 'webhook'${more})`);
      await client.query(triggers(schema));
      await client.query(
        `INSERT INTO ${schema}.kept SELECT '1', now() - interval '1 hour' FROM generate_series(1, 50)`,
      );
    }
    await app.query(
      'GRANT USAGE ON SCHEMA app TO headgate_gateway; GRANT ALL ON ALL TABLES IN SCHEMA app TO headgate_gateway',
    );
    // Locks on the tables show which session touches them: PostgreSQL keeps them until the transaction ends. And so does what it says that it runs.
    const watcher = await headgate.client(t);
    const seen = new Set<string>();
    const over = new AbortController();
    const named = `'(app|mine)"?[.]"?(plain|typed|coded|kept|spooled|retried)'`;
    const watching = (async () => {
      while (!over.signal.aborted) {
        const { rows } = await watcher.query<{ who: string }>(
          `WITH sessions AS MATERIALIZED (SELECT a.pid, a.usename, a.query, r.rolsuper FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
             WHERE a.application_name LIKE 'headgate%')
           SELECT usename || ': ' || l.relation::regclass AS who FROM sessions JOIN pg_locks l USING (pid) JOIN pg_class c ON c.oid = l.relation
           WHERE l.relation::regclass::text ~ ('^' || ${named}) AND c.relkind = 'r' AND l.mode <> 'AccessShareLock'
           UNION SELECT 'superuser: ' || translate(substring(query FROM ${named.replace('(plain', '(?:plain').replace('(app|mine)', '(?:app|mine)')}), '"', '')
           FROM sessions WHERE rolsuper AND query ~ ${named}`,
        );
        for (const { who } of rows) seen.add(who);
      }
    })();
    // What reads a table as a superuser reads the catalog.
    const followed = ['app', 'mine'].map(async (schema) => {
      const client = createClient({ url: headgate.gatewayUrl });
      let read = 0;
      for await (const _ of client.follow(`${schema}.plain`, { after: '0', signal: over.signal }))
        if (++read === 5) break;
      return read;
    });
    const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/`;
    // A busy machine may have answered some with 503.
    const stored = { app: 0, mine: 0 };
    for (const schema of ['app', 'mine'] as const) {
      const ws = await WsClient.open(`${url}${schema}/typed`);
      for (let n = 0; n < times(12, 300); n++) {
        const [coded, event] = await Promise.all([
          headgate.post(`dev/${schema}/coded`, `{"id":${n},"v":"x"}`),
          request(`${headgate.gatewayUrl}/v1/events?name=${schema}.coded`, {
            method: 'POST',
            body: `{"id":${n}}`,
          }),
          ...['plain', 'typed', 'kept'].map((table) =>
            headgate.post(`dev/${schema}/${table}`, `{"id":${n},"v":"x"}`),
          ),
        ]);
        for (const { status } of [coded, event]) if (status === 200) stored[schema] += 1;
        ws.send(2 * n + 1, [{ op: 'upsert', data: { id: 1_000 + n, v: 'y' } }]);
        ws.send(2 * n + 2, [{ op: 'delete', data: { id: 1_000 + n } }]);
      }
      await ws.acked(2 * times(12, 300));
      await ws.close();
    }
    // By the disk: the tables are locked for longer than their senders wait.
    const holder = await headgate.client(t);
    await holder.query('BEGIN; LOCK TABLE app.spooled, mine.spooled');
    const kept = await Promise.all(
      ['app', 'mine'].flatMap((schema) =>
        Array.from({ length: 8 }, (_, id) => headgate.post(`dev/${schema}/spooled`, `{"id":${id}}`)),
      ),
    );
    await holder.query('COMMIT');
    assert.ok(
      kept.some(({ status }) => status === 202),
      kept.map(({ status }) => status).join(),
    );
    await until(async () => (await root.query('SHOW SPOOL')).rows.length === 0);
    for (const [client, schema] of [
      [app, 'app'],
      [root, 'mine'],
    ] as const) {
      assert.equal((await headgate.post(`dev/${schema}/retried`, '{"id":-1}')).status, 422);
      await client.query(`ALTER TABLE ${schema}.retried DROP CONSTRAINT retried_id_check`);
      await until(async () => {
        const { rows } = await client.query<{ o: string | null }>(
          `SELECT retry_outcome AS o FROM headgate.rejected_requests WHERE table_name = 'retried' AND schema_name = '${schema}'`,
        );
        if (rows[0]?.o === null)
          await client.query(
            `SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE table_name = 'retried' AND schema_name = '${schema}'`,
          );
        return rows[0]?.o === 'committed';
      });
    }
    // Rows are removed once a minute.
    if (isLong)
      await until(async () => {
        const { rows } = await root.query<{ n: number }>(
          `SELECT (SELECT count(*) FROM app.kept WHERE data = '1')::int + (SELECT count(*) FROM mine.kept WHERE data = '1')::int AS n`,
        );
        return rows[0]?.n === 0;
      });
    assert.deepEqual(await Promise.all(followed), [5, 5]);
    // A session that waits for a table is seen for certain.
    await holder.query('BEGIN; LOCK TABLE app.coded, mine.coded, app.plain IN SHARE MODE');
    const awaited = ['app/coded', 'mine/coded', 'app/plain'].map((table) =>
      headgate.post(`dev/${table}`, '{"id":-1}'),
    );
    const wanted = [
      /^root: mine\.coded$/,
      /^headgate_as_\d+_\w+: app\.coded$/,
      /^headgate_commit: app\.plain$/,
    ];
    await until(() => wanted.every((it) => [...seen].some((who) => it.test(who))));
    await holder.query('COMMIT');
    await Promise.all(awaited);
    over.abort();
    await watching;
    // Of root's own tables, rows of one with code are stored, and rows are looked for to be deleted (docs/security.md).
    const own = new Set(['mine.coded', 'mine.typed', 'mine.kept']);
    const supers = [...seen].filter((it) => /^(root|superuser): /.test(it));
    assert.deepEqual(
      supers.filter((it) => !own.has(it.replace(/^\w+: /, ''))),
      [],
    );
    // Nobody else gets such a session.
    const { rows: logins } = await root.query<{ name: string }>(
      `SELECT rolname AS name FROM pg_roles WHERE rolname ~ '^headgate_(as_|commit)' ORDER BY 1`,
    );
    assert.ok(logins.length >= 2);
    for (const { name } of logins) {
      await assert.rejects(headgate.clientAs(t, name), { code: '28000' });
      for (const by of [`SET ROLE ${name}`, `SET SESSION AUTHORIZATION ${name}`, `GRANT ${name} TO app`])
        await assert.rejects(app.query(by), { code: '42501' });
    }
    const { rows } = await root.query<typeof stored>(
      `SELECT (SELECT count(*)::int FROM app.coded) AS app, (SELECT count(*)::int FROM mine.coded) AS mine`,
    );
    for (const schema of ['app', 'mine'] as const)
      assert.ok(
        stored[schema] > 0 && (rows[0]?.[schema] ?? 0) >= stored[schema],
        JSON.stringify([rows, stored]),
      );
  });
});
