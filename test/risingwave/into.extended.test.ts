/** Webhooks whose rows go into RisingWave: one Headgate, and the stand-in, or the server of HEADGATE_RISINGWAVE_DSN. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Client } from 'pg';
import { startHeadgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';
import { onStandInOnly, openServer } from './support.ts';

const token = { 'x-token': 'known to both' };

test('tables with the option into store webhooks in RisingWave', async (t) => {
  const server = await openServer(t);
  const { dsn } = server;
  // The stand-in cuts off whoever is there when it leaves.
  const there = async (sql: string): Promise<unknown[]> => {
    const client = new Client(dsn);
    await client.connect();
    try {
      return (await client.query<{ v: unknown }>(sql)).rows.map(({ v }) => v);
    } finally {
      await client.end();
    }
  };
  const { host } = new URL(dsn);
  const headgate = await startHeadgate(t, { env: { HEADGATE_INTO_HOSTS: `elsewhere.test:4566, ${host}` } });
  const root = await headgate.client(t);
  const told: string[] = [];
  const run = async (sql: string): Promise<string> => {
    const said = await root.query(sql).then(
      ({ rows }) => JSON.stringify(rows),
      (error: unknown) => (error as Error).message,
    );
    told.push(said);
    return said;
  };
  const ok = async (sql: string) => void (await root.query(sql));
  await ok(`CREATE SECRET rw WITH (backend = 'meta') AS '${dsn}'`);
  await ok(`CREATE SECRET s WITH (backend = 'meta') AS '${token['x-token']}'`);
  /** A table on both sides; `options` behind `into`. */
  const make = async (
    columnsThere: string,
    columns: string,
    options = '',
    includes = '',
  ): Promise<string> => {
    const name = server.table();
    await there(`CREATE TABLE ${name} ${columnsThere}`);
    await ok(`CREATE TABLE ${name} ${columns} ${includes} WITH (connector = 'webhook', into = 'rw' ${options})
      VALIDATE SECRET s AS secure_compare(headers->>'x-token', s)`);
    return name;
  };
  const post = async (name: string, body: string, headers: Record<string, string> = token) => {
    const answer = await headgate.post(`dev/public/${name}`, body, headers);
    told.push(answer.text);
    return answer.status;
  };
  /** What `expression` gives there, once rows can be read. */
  const read = async (name: string, expression: string): Promise<unknown> => {
    await there('FLUSH');
    return there(`SELECT ${expression} AS v FROM ${name}`);
  };

  await t.test(
    'rows of a table with into arrive in RisingWave with their types, and none is stored locally',
    async () => {
      const name = await make(
        "(id BIGINT, amount NUMERIC, tags VARCHAR[], place STRUCT<lat DOUBLE PRECISION, name VARCHAR>, doc JSONB, at TIMESTAMPTZ, how VARCHAR, raw BYTEA, kind VARCHAR DEFAULT 'usual')",
        '(id BIGINT, amount NUMERIC, tags TEXT[], place JSONB, doc JSONB, at TIMESTAMPTZ, how TEXT, raw BYTEA)',
        '',
        `INCLUDE METHOD AS how INCLUDE BODY AS raw`,
      );
      const body = `{"id": 9007199254740993, "amount": 12345678901234567890.5, "tags": ["a,b", null], "place": {"lat": 1.5, "name": "it's"}, "doc": {"a": [1]}, "at": 1767225600, "more": 1}`;
      assert.equal(await post(name, body, { 'x-token': 'guessed' }), 401);
      assert.equal(await post(name, body), 200);
      assert.deepEqual(
        await read(
          name,
          `id || ' ' || amount || ' ' || tags[1] || ' ' || (place).name || ' ' || how || ' ' || kind`,
        ),
        ["9007199254740993 12345678901234567890.5 a,b it's POST usual"],
      );
      assert.deepEqual(await read(name, 'raw'), [Buffer.from(body)]);
      assert.deepEqual(await read(name, `at = '2026-01-01T00:00:00Z' AND doc = '{"a": [1]}'`), [true]);
      assert.equal(await run(`SELECT count(*)::int AS n FROM ${name}`), '[{"n":0}]');
      assert.match(await run(`INSERT INTO ${name} (id) VALUES (1)`), /rows_are_elsewhere/);
      const event = await fetch(`${headgate.gatewayUrl}/v1/events?name=${name}`, {
        method: 'POST',
        body: '{"id": 1}',
      });
      assert.equal(event.status, 422);
    },
  );

  await t.test('the documented statements of into work', async () => {
    const page = readFileSync(new URL('../../../docs/operating/into-risingwave.md', import.meta.url), 'utf8');
    const [made = '', shown = ''] = [...page.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql);
    const name = server.table();
    await there(made.replace('orders', name));
    await ok(`CREATE SECRET shop WITH (backend = 'meta') AS 'key'`);
    const [secret = '', table = ''] = shown.split(';\n');
    await ok(secret.replace('SECRET rw', 'SECRET page').replace(/'postgresql:.*'/, `'${dsn}'`));
    await ok(table.replace('orders', name).replace(`'rw'`, `'page'`));
    const body = '{"id": 1, "status": "paid", "total": 12.50, "more": [1]}';
    const signature = createHmac('sha256', 'key').update(body).digest('hex');
    assert.equal(await post(name, body, { 'x-signature': signature }), 200);
    assert.equal(await post(name, `${body} `, { 'x-signature': signature }), 401);
    assert.deepEqual(await read(name, `id || ' ' || status || ' ' || total || ' ' || (raw ->> 'more')`), [
      '1 paid 12.50 [1]',
    ]);
  });

  await t.test('into stores whole documents, batches and a null body', async () => {
    const name = await make('(data JSONB)', '(data JSONB)', ', is_batched = true');
    assert.equal(await post(name, '{"n": 1}\n[2]\nnull\n"3"\n'), 200);
    assert.deepEqual(((await read(name, 'data::varchar')) as string[]).toSorted(), [
      '"3"',
      '[2]',
      'null',
      '{"n": 1}',
    ]);
    assert.equal(await post(name, '{"n": 1}\n{"n": \n'), 422);
    assert.equal(await post(name, `{"n": "${'x'.repeat(9 * 1024 * 1024)}"}`), 413);
    assert.equal(((await read(name, '1')) as unknown[]).length, 4);
    const texts = await make('(body VARCHAR)', '(body TEXT)', ", format = 'text'");
    assert.equal(await post(texts, "it's \\ null"), 200);
    assert.deepEqual(await read(texts, 'body'), ["it's \\ null"]);
  });

  await t.test('a row that does not fit in RisingWave is refused alone and kept for its owner', async () => {
    const name = await make('(id INT, v VARCHAR NOT NULL)', '(id INT, v TEXT)');
    const sent = Array.from({ length: 60 }, (_, i) =>
      post(
        name,
        i % 20 === 7 ? '{"id": "seven", "v": "x"}' : i % 20 === 9 ? '{"id": 1}' : `{"id": ${i}, "v": "x"}`,
      ),
    );
    const statuses = await Promise.all(sent);
    assert.deepEqual(
      statuses.filter((status) => status !== 200),
      [422, 422, 422, 422, 422, 422],
    );
    assert.equal(((await read(name, 'id')) as unknown[]).length, 54);
    const shown = JSON.parse(await run('SHOW ENDPOINTS')) as Record<string, unknown>[];
    assert.ok(shown.some((it) => JSON.stringify(it).includes(name)));
    const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
    const rows = new RegExp(`^headgate_rows_total\\{[^}]*${name}[^}]*\\} 54$`, 'm');
    assert.match(metrics, rows);
    const refused = `SELECT count(*)::int AS n FROM headgate.rejected_requests WHERE relation = '${name}'::regclass`;
    await until(async () => (await run(refused)) === '[{"n":6}]');
  });

  await t.test('options that need local rows are refused for tables with into', async () => {
    const refused = async (columns: string, options: string, sentence: RegExp, include = '') =>
      assert.match(
        await run(
          `CREATE TABLE refused ${columns} ${include} WITH (connector = 'webhook', into = 'rw' ${options})`,
        ),
        sentence,
        options,
      );
    for (const option of ["dedupe = 'header:x-id'", "distribute = 'id'", "on_type_error = 'null'"])
      await refused('(id INT)', `, ${option}`, /is not supported for a table whose rows go elsewhere/);
    await refused(
      '(id INT)',
      ', webhook.wait_for_persistence = false',
      /wait_for_persistence = false is not supported/,
    );
    for (const columns of [
      '(id INT PRIMARY KEY)',
      '(id INT, n INT DEFAULT 3)',
      '(id INT NOT NULL)',
      '(id INT CHECK (id > 0))',
      '(id INT UNIQUE)',
    ])
      await refused(columns, '', /neither keys nor defaults nor constraints/);
    await refused('(id INT) PARTITION BY RANGE (id)', '', /neither partitioned nor UNLOGGED/);
    await refused('(id INT)', ", keep = '90 days'", /keep is not supported/, 'INCLUDE timestamp AS at');
    await refused('(data JSON)', '', /of type JSON, which RisingWave does not have/);
    assert.match(
      await run(`CREATE TABLE refused (data JSONB) WITH (connector = 'webhook', into = 'nowhere')`),
      /secret "nowhere" does not exist/,
    );
    const name = await make('(id INT)', '(id INT)');
    assert.match(
      await run(`ALTER TABLE ${name} SET (dedupe = 'header:x-id')`),
      /is not supported for a table/,
    );
    assert.match(await run(`ALTER TABLE ${name} SET (into = 'rw')`), /./);
    assert.match(await run('DROP SECRET rw'), /cannot drop secret rw because other objects depend on it/);
    const shown = JSON.parse(await run(`SHOW CREATE TABLE ${name}`)) as { 'Create Sql': string }[];
    const sql = shown[0]?.['Create Sql'] ?? '';
    assert.match(sql, /into = 'public.rw'/);
    await ok(`DROP TABLE ${name}`);
    await ok(sql);
    assert.equal(await post(name, '{"id": 1}'), 200);
    await ok(`ALTER TABLE ${name} DROP VALIDATE`);
    const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/${name}`;
    await until(async () => {
      const socket = await WsClient.open(url);
      return /accepts no WebSockets/.test((await socket.ended).fatal ?? '');
    });
  });

  await t.test('a missing or different RisingWave table gives 503, and the log says why', async () => {
    const name = await make('(id INT)', '(id INT, v TEXT)');
    assert.equal(await post(name, '{"id": 1, "v": "x"}'), 503);
    await until(() => headgate.stderr.includes(`has no column \\"v\\"`));
    await there(`ALTER TABLE ${name} ADD COLUMN v VARCHAR`);
    await until(async () => (await post(name, '{"id": 1, "v": "x"}')) === 200);
    await there(`DROP TABLE ${name}`);
    assert.equal(await post(name, '{"id": 2, "v": "x"}'), 503);
    await there(`CREATE TABLE ${name} (id INT, v VARCHAR)`);
    await until(async () => (await post(name, '{"id": 2, "v": "x"}')) === 200);
  });

  await t.test(
    'into without a spool gives 503 during an outage of RisingWave',
    { skip: onStandInOnly },
    async () => {
      const name = await make('(id INT)', '(id INT)');
      assert.equal(await post(name, '{"id": 1}'), 200);
      await server.standIn.leave();
      await until(async () => (await post(name, '{"id": 2}')) === 503);
      assert.match(told.at(-1) ?? '', /engine_unavailable|commit_unknown/);
      assert.equal(await post(name, '{"id": 3}'), 503);
      await server.standIn.listen();
      await until(async () => (await post(name, '{"id": 4}')) === 200);
    },
  );

  await t.test(
    'into with a spool loses no request in an outage of RisingWave under load',
    { skip: onStandInOnly },
    async () => {
      const [plain, keyed] = [
        await make('(id INT)', '(id INT)', ", spool = 'fallback'"),
        await make('(id INT PRIMARY KEY)', '(id INT)', ", spool = 'fallback'"),
      ];
      for (const name of [plain, keyed]) {
        await until(async () => (await post(name, '{"id": -1}')) === 200);
        const acknowledged = new Map<number, number>();
        let next = 0;
        const load = { goesOn: true };
        const senders = Array.from({ length: 16 }, async () => {
          while (load.goesOn) {
            const id = next++;
            const status = await post(name, `{"id": ${id}}`);
            if (status < 300) acknowledged.set(id, status);
            else assert.equal(status, 503);
          }
        });
        const spooled = () => [...acknowledged.values()].filter((status) => status === 202).length;
        await until(() => acknowledged.size > 200);
        await server.standIn.leave();
        await until(() => spooled() > 300);
        await server.standIn.listen();
        await until(async () => (await post(name, '{"id": -2}')) === 200);
        load.goesOn = false;
        await Promise.all(senders);
        await until(async () => (await run('SHOW SPOOL')) === '[]');
        const ids = (await read(name, 'id')) as number[];
        const count = new Map<number, number>();
        for (const id of ids) count.set(id, (count.get(id) ?? 0) + 1);
        assert.deepEqual(
          [...acknowledged.keys()].filter((id) => !count.has(id)),
          [],
        );
        const doubled = [...count].filter(([id, times]) => id >= 0 && times > 1).length;
        // Those of the one INSERT that was under way.
        t.diagnostic(
          `${acknowledged.size} acknowledged, ${spooled()} of them by the spool, ${doubled} doubled`,
        );
        assert.ok(doubled <= (name === keyed ? 0 : 16), `${doubled} doubled`);
      }
    },
  );

  await t.test(
    'a spooled row that RisingWave refuses is kept, and its neighbours are stored',
    { skip: onStandInOnly },
    async () => {
      const name = await make('(id INT)', '(id INT)', ", spool = 'fallback'");
      assert.equal(await post(name, '{"id": 0}'), 200);
      await server.standIn.leave();
      await until(async () => (await post(name, '{"id": 1}')) === 202);
      assert.equal(await post(name, '{"id": "seven"}'), 202);
      assert.equal(await post(name, '{"id": 2}'), 202);
      await server.standIn.listen();
      await until(async () => (await post(name, '{"id": 3}')) === 200);
      const refused = `SELECT count(*)::int AS n FROM headgate.rejected_requests WHERE relation = '${name}'::regclass`;
      await until(async () => (await run(refused)) === '[{"n":1}]');
      assert.deepEqual(await read(`${name} WHERE id = 2`, 'id'), [2]);
      // Its owner gives the table there a column that takes it, and tries it again.
      await there(`DROP TABLE ${name}`);
      await there(`CREATE TABLE ${name} (id VARCHAR)`);
      await ok(
        `SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE relation = '${name}'::regclass`,
      );
      await until(async () => JSON.stringify(await read(name, 'id')) === '["seven"]');
    },
  );

  await t.test(
    'an INSERT by into with unknown outcome is kept and repeated',
    { skip: onStandInOnly },
    async () => {
      const tables = [
        await make('(id INT)', '(id INT)', ", spool = 'fallback'"),
        await make('(id INT PRIMARY KEY)', '(id INT)', ", spool = 'fallback'"),
        await make('(id INT)', '(id INT)'),
      ] as const;
      const stored: unknown[] = [];
      for (const name of tables) {
        assert.equal(await post(name, '{"id": 0}'), 200);
        // Run, and cut off before the answer.
        server.standIn.fault = ({ word }) => {
          if (word !== 'insert') return null;
          server.standIn.fault = () => null;
          return { kind: 'cut' };
        };
        const status = await post(name, '{"id": 1}');
        await until(async () => (await run('SHOW SPOOL')) === '[]');
        stored.push([status, await read(`${name} WHERE id = 1`, 'id')]);
      }
      // At least once; with a key once; and without a spool nobody tries again but the sender.
      assert.deepEqual(stored, [
        [202, [1, 1]],
        [202, [1]],
        [503, [1]],
      ]);
    },
  );

  await t.test('each INSERT into RisingWave waits for its checkpoint', { skip: onStandInOnly }, () => {
    const inserts = server.standIn.said.filter(({ word }) => word === 'insert');
    assert.ok(inserts.length > 0 && inserts.every(({ persistent }) => persistent));
  });

  await t.test('the password of into appears in no log, answer or view', async () => {
    const everywhere = [
      headgate.stderr,
      headgate.stdout,
      ...told,
      await run('SHOW SECRETS'),
      await run('SELECT * FROM headgate.endpoints'),
    ].join('\n');
    const { password } = new URL(dsn);
    assert.ok(password === '' || !everywhere.includes(password), password);
  });
});
