/** Partitioned webhook tables: their partitions are ordinary tables, made, attached and detached while rows arrive. */
import assert from 'node:assert/strict';
import { accepted, onSomeEngine, refusedBy } from '../support/doors.ts';
import { breath } from '../support/sample.ts';
import { within } from '../support/within.ts';

onSomeEngine('partitioned tables store webhooks', async (t, doors) => {
  const { client, post, rows } = doors;

  await t.test(
    'a partitioned table stores into its partitions, and a row that fits none is refused alone',
    async () => {
      await client.query(`
      CREATE TABLE events (data JSONB, kind TEXT GENERATED ALWAYS AS (data->>'kind') STORED, at TIMESTAMPTZ DEFAULT now())
        PARTITION BY RANGE (at) WITH (connector = 'webhook');
      CREATE TABLE events_now PARTITION OF events FOR VALUES FROM ('2000-01-01') TO ('2200-01-01')`);
      const all = Array.from({ length: 50 }, (_, i) => accepted(post('events', `{"kind":"k${i}"}`)));
      await Promise.all(all);
      assert.deepEqual(await rows('SELECT count(*) FROM events_now'), [['50']]);
      await client.query(`
      CREATE TABLE by_n (data JSONB, n INT) INCLUDE HEADER 'x-n' AS n PARTITION BY LIST (n) WITH (connector = 'webhook');
      CREATE TABLE by_n_1 PARTITION OF by_n FOR VALUES IN (1)`);
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, i) => post('by_n', '{}', { 'x-n': i % 4 === 3 ? '2' : '1' })),
      );
      assert.deepEqual(
        answers.map(({ status }) => status),
        Array.from({ length: 40 }, (_, i) => (i % 4 === 3 ? 422 : 200)),
      );
      await refusedBy(post('by_n', '{}', { 'x-n': '2' }), /^no partition of the table takes the row$/);
      assert.deepEqual(await rows('SELECT count(*) FROM by_n_1'), [['30']]);
    },
  );

  await t.test('a partitioned table stored by COPY refuses rows that no partition accepts', async () => {
    await client.query(`
      CREATE TABLE docs (data JSONB) PARTITION BY LIST ((data->>'kind')) WITH (connector = 'webhook');
      CREATE TABLE docs_a PARTITION OF docs FOR VALUES IN ('a')`);
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => post('docs', `{"kind":"${i % 5 === 0 ? 'b' : 'a'}"}`)),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      Array.from({ length: 40 }, (_, i) => (i % 5 === 0 ? 422 : 200)),
    );
    await refusedBy(post('docs', '{"kind":"b"}'), /^no partition of the table takes the row$/);
    assert.deepEqual(await rows('SELECT count(*) FROM docs_a'), [['32']]);
  });

  await t.test('a partitioned table upserts by a key that holds the partition key', async () => {
    await assert.rejects(
      client.query(
        `CREATE TABLE wrong (id INT PRIMARY KEY, day DATE) PARTITION BY RANGE (day) WITH (connector = 'webhook')`,
      ),
      /must include all partitioning columns/,
    );
    await client.query(`
      CREATE TABLE orders (id INT, day DATE, n INT, PRIMARY KEY (id, day))
        PARTITION BY RANGE (day) WITH (connector = 'webhook', is_batched = true);
      CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
      CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')`);
    const row = (id: number, day: string, n: number) => JSON.stringify({ id, day, n });
    await accepted(
      post('orders', [row(1, '2026-01-05', 1), row(1, '2026-02-05', 2), row(1, '2026-01-05', 3)].join('\n')),
      3,
    );
    assert.deepEqual(await rows('SELECT n FROM orders_1'), [['3']]);
    assert.deepEqual(await rows('SELECT n FROM orders_2'), [['2']]);
    await refusedBy(
      post('orders', `${row(2, '2026-01-06', 1)}\n${row(2, '2027-01-06', 1)}`),
      /^line 2: no partition of the table takes the row$/,
    );
  });

  await t.test('a partitioned table keeps accepting while partitions are attached and detached', async () => {
    await client.query(`
      CREATE TABLE busy (data JSONB) PARTITION BY LIST ((data->>'p')) WITH (connector = 'webhook');
      CREATE TABLE busy_0 PARTITION OF busy FOR VALUES IN ('0');
      CREATE TABLE busy_1 (data JSONB)`);
    let stored = 0;
    const state = { stopped: false };
    const others: number[] = [];
    const sender = async () => {
      while (!state.stopped) {
        const { status } = await post('busy', '{"p":"0"}');
        if (status === 200) stored++;
        else others.push(status);
        await breath();
      }
    };
    const senders = [sender(), sender(), sender()];
    for (let i = 0; i < 10; i++) {
      await client.query(`ALTER TABLE busy ATTACH PARTITION busy_1 FOR VALUES IN ('1')`);
      await within(5_000, () => accepted(post('busy', '{"p":"1"}')));
      await client.query('ALTER TABLE busy DETACH PARTITION busy_1');
      await refusedBy(post('busy', '{"p":"1"}'), /no partition/);
    }
    state.stopped = true;
    await Promise.all(senders);
    assert.deepEqual(others, []);
    assert.deepEqual(await rows('SELECT count(*) FROM busy_0'), [[String(stored)]]);
    assert.deepEqual(await rows('SELECT count(*) FROM busy_1'), [['10']]);
  });

  await t.test(
    'SHOW CREATE TABLE prints a partitioned table, and its partitions are no endpoints by default',
    async () => {
      const [[, sql] = []] = await rows('SHOW CREATE TABLE by_n');
      assert.match(sql ?? '', /PARTITION BY LIST \(n\)\nINCLUDE HEADER 'x-n' AS n\nWITH \(/);
      await client.query('DROP TABLE by_n');
      await client.query(sql ?? '');
      await client.query('CREATE TABLE by_n_all PARTITION OF by_n DEFAULT');
      await within(5_000, () => accepted(post('by_n', '{}', { 'x-n': '7' })));
      assert.equal((await post('by_n_all', '{}')).status, 404);
      await client.query(`
      DROP TABLE by_n_all;
      CREATE TABLE by_n_3 (data JSONB, n INT) INCLUDE HEADER 'x-n' AS n WITH (connector = 'webhook');
      ALTER TABLE by_n ATTACH PARTITION by_n_3 FOR VALUES IN (3)`);
      await within(5_000, () => accepted(post('by_n_3', '{}', { 'x-n': '3' })));
      await refusedBy(post('by_n_3', '{}', { 'x-n': '4' }), /^no partition of the table takes the row$/);
      await accepted(post('by_n', '{}', { 'x-n': '3' }));
      assert.deepEqual(await rows('SELECT count(*) FROM by_n'), [['2']]);
      await client.query('DROP TABLE by_n');
      await within(5_000, async () => assert.equal((await post('by_n', '{}')).status, 404));
    },
  );
});
