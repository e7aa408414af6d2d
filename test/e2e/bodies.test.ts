import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { accepted, onSomeEngine } from '../support/doors.ts';

onSomeEngine('request bodies of every format are stored', async (t, { client, post, rows }) => {
  await t.test(
    'is_batched stores one document per line, all or none, and its errors name the line',
    async () => {
      await client.query(`
      CREATE TABLE lines (data JSONB) WITH (connector = 'webhook', is_batched = true);
      CREATE TABLE typed_lines (id INT, v INT CHECK (v < 100)) WITH (connector = 'webhook', is_batched = true);
      CREATE TABLE keyed_lines (id INT PRIMARY KEY, v INT) WITH (connector = 'webhook', is_batched = true)`);
      for (const table of ['lines', 'typed_lines', 'keyed_lines']) {
        await accepted(post(table, '{"id":1,"v":1}\r\n\n  \n{"id":2,"v":2}\n{"id":1,"v":3}'), 3);
        await accepted(post(table, '{"id":4}\n'), 1);
        const broken = await post(table, '{"id":5}\n\n{"id":6}\n{"id":\n{"id":7}');
        assert.equal(broken.status, 422);
        assert.match(broken.text, /line 4/, table);
      }
      const misfit = await post('typed_lines', '{"id":8}\n\r\n{"id":"eight"}\n');
      assert.deepEqual([misfit.status, misfit.code], [422, 'payload_undecodable']);
      assert.match(misfit.text, /line 3.*column \\"id\\".*eight/);
      const checked = await post('typed_lines', '{"id":9}\n{"id":10,"v":200}\n{"id":11}');
      assert.deepEqual([checked.status, checked.code], [422, 'row_refused']);
      assert.match(checked.text, /line 2/);
      assert.deepEqual(await rows('SELECT count(*) FROM lines'), [['4']]);
      assert.deepEqual(await rows('SELECT count(*), max(id) FROM typed_lines'), [['4', '4']]);
      assert.deepEqual(await rows('SELECT id, v FROM keyed_lines ORDER BY id'), [
        ['1', '3'],
        ['2', '2'],
        ['4', null],
      ]);
    },
  );

  await t.test('a large document gets more time to be stored than a small one', async () => {
    await client.query(`CREATE TABLE long (data JSONB) WITH (connector = 'webhook')`);
    await client.query(`
      CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ begin perform pg_sleep(2.6); return new; end $$`);
    await client.query('CREATE TRIGGER long BEFORE INSERT ON long FOR EACH ROW EXECUTE FUNCTION take_long()');
    await accepted(post('long', JSON.stringify('x'.repeat(20 * 2 ** 20))), 1);
    const small = await post('long', '1');
    assert.deepEqual([small.status, small.code], [503, 'deadline']);
  });

  await t.test('200,000 lines in one request are one transaction', async () => {
    const lines = Array.from({ length: 200_000 }, (_, id) => `{"id":${id},"v":${id % 90}}`).join('\n');
    await accepted(post('typed_lines', lines), 200_000);
    assert.deepEqual(await rows('SELECT count(distinct xmin::text) FROM typed_lines WHERE id > 1000'), [
      ['1'],
    ]);
  });

  await t.test('bodies as form, text and bytes are stored', async () => {
    await client.query(`
      CREATE TABLE forms (data JSONB) WITH (connector = 'webhook', format = 'form');
      CREATE TABLE sms ("From" TEXT, "Body" TEXT, "NumMedia" INT) WITH (connector = 'webhook', format = 'form');
      CREATE TABLE notes (note TEXT) WITH (connector = 'webhook', format = 'text');
      CREATE TABLE blobs (raw BYTEA, PRIMARY KEY (id)) INCLUDE HEADER 'x-id' AS id
        WITH (connector = 'webhook', format = 'bytes')`);
    const form = 'From=%2B4917&Body=Hello+w%C3%B6rld+%26+all%0A&NumMedia=0&empty=';
    await accepted(post('forms', form, { 'content-type': 'application/x-www-form-urlencoded' }));
    await accepted(post('sms', form));
    await accepted(post('notes', 'plain "text" ä\n'));
    await accepted(post('blobs', Buffer.from([0, 1, 0xff, 0x22]), { 'x-id': 'one' }));
    assert.deepEqual(await rows('SELECT data FROM forms'), [
      ['{"Body": "Hello wörld & all\\n", "From": "+4917", "empty": "", "NumMedia": "0"}'],
    ]);
    assert.deepEqual(await rows('SELECT * FROM sms'), [['+4917', 'Hello wörld & all\n', '0']]);
    assert.deepEqual(await rows('SELECT * FROM notes'), [['plain "text" ä\n']]);
    assert.deepEqual(await rows('SELECT id, raw FROM blobs'), [['one', String.raw`\x0001ff22`]]);
    assert.equal((await post('notes', Buffer.from([0xff, 0xfe]))).status, 422);
    assert.equal((await post('forms', 'a=%ff')).status, 422);
  });

  await t.test("the decoder's option headers apply per request", async () => {
    await client.query(`
      CREATE TABLE timed (at TIMESTAMPTZ, ts TIMESTAMP, t TIME, n NUMERIC, k INT PRIMARY KEY) WITH (connector = 'webhook')`);
    await client.query('SET timezone = UTC');
    await accepted(post('timed', '{"k":1,"at":1700000000,"ts":1700000000123}'));
    await accepted(
      post('timed', '{"k":2,"at":1700000000123456,"ts":1700000000123,"t":3723000,"n":"AeJA"}', {
        'x-rw-webhook-format': 'plain',
        'x-rw-webhook-encode': 'json',
        'x-rw-webhook-json-timestamptz-handling-mode': 'micro',
        'x-rw-webhook-json-timestamp-handling-mode': 'milli',
        'x-rw-webhook-json-time-handling-mode': 'milli',
        'x-rw-webhook-json-bigint-unsigned-handling-mode': 'precise',
      }),
    );
    assert.deepEqual(await rows('SELECT * FROM timed ORDER BY k'), [
      ['2023-11-14 22:13:20+00', '2023-11-14 22:13:20.123', null, null, '1'],
      ['2023-11-14 22:13:20.123456+00', '2023-11-14 22:13:20.123', '01:02:03', '123456', '2'],
    ]);
    const refused: [headers: Record<string, string>, error: string][] = [
      [{ 'x-rw-webhook-encode': 'csv' }, 'unsupported webhook payload encoding `csv`'],
      [
        { 'x-rw-webhook-json-time-handling-mode': 'nano' },
        'unrecognized value `nano` for `x-rw-webhook-json-time-handling-mode`',
      ],
    ];
    for (const [headers, error] of refused) {
      const answer = await post('timed', '{"k":3}', headers);
      assert.equal(answer.status, 400);
      assert.equal((JSON.parse(answer.text) as { error: string }).error, error);
    }
    await accepted(
      post('timed', '{"k":2,"at":"__debezium_unavailable_value","n":5}', {
        'x-rw-webhook-json-handle-toast-columns': 'true',
      }),
    );
    assert.deepEqual(await rows('SELECT at, n FROM timed WHERE k = 2'), [
      ['2023-11-14 22:13:20.123456+00', '5'],
    ]);
  });

  await t.test('VALIDATE checks the decompressed body, whose size is bounded', async () => {
    await client.query(`
      CREATE TABLE packed (data JSONB) WITH (connector = 'webhook')
        VALIDATE AS secure_compare(headers->>'x-sum', encode(hmac('key', data, 'sha256'), 'hex'))`);
    const body = Buffer.from('{"text":"compressed"}');
    const sum = createHmac('sha256', 'key').update(body).digest('hex');
    for (const [encoding, bytes] of [
      ['gzip', gzipSync(body)],
      ['deflate', deflateSync(body)],
      ['br', brotliCompressSync(body)],
    ] as const) {
      await accepted(post('packed', bytes, { 'content-encoding': encoding, 'x-sum': sum }));
    }
    const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
    assert.equal((await post('packed', bomb, { 'content-encoding': 'gzip', 'x-sum': sum })).status, 413);
    assert.equal((await post('packed', body, { 'content-encoding': 'zstd', 'x-sum': sum })).status, 415);
    assert.deepEqual(await rows('SELECT count(*) FROM packed'), [['3']]);
  });

  await t.test('a table with wait_for_persistence = false stores rows', async () => {
    await client.query(
      `CREATE TABLE quick (id INT PRIMARY KEY) WITH (connector = 'webhook', webhook.wait_for_persistence = false)`,
    );
    await accepted(post('quick', '{"id":1}'));
    assert.deepEqual(await rows('SELECT * FROM quick'), [['1']]);
  });
});
