import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { accepted, onSomeEngine } from '../support/doors.ts';

onSomeEngine(
  'tables with PRIMARY KEY and INCLUDE columns store webhooks',
  async (t, { client, post, rows }) => {
    await t.test('a primary key upserts: the last writer replaces the whole row', async () => {
      await client.query(
        `CREATE TABLE orders (id INT PRIMARY KEY, status TEXT, n INT) WITH (connector = 'webhook')`,
      );
      await accepted(post('orders', '{"id":1,"status":"new","n":1}'));
      await accepted(post('orders', '{"id":1,"status":"paid"}'));
      await accepted(post('orders', '{"id":2,"status":"new"}'));
      assert.deepEqual(await rows('SELECT * FROM orders ORDER BY id'), [
        ['1', 'paid', null],
        ['2', 'new', null],
      ]);
      const missing = await post('orders', '{"status":"no id"}');
      assert.deepEqual([missing.status, missing.code], [422, 'row_refused'], missing.text);
    });

    await t.test('concurrent upserts of one key give one row, and none is refused', async () => {
      await client.query(
        `CREATE TABLE hot (a INT, b TEXT, n INT, PRIMARY KEY (b, a)) WITH (connector = 'webhook')`,
      );
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, n) => post('hot', `{"n":${n},"a":${n % 3},"b":"k"}`)),
      );
      assert(answers.every(({ status }) => status === 200));
      assert.deepEqual(await rows('SELECT a, b, n % 3 FROM hot ORDER BY a'), [
        ['0', 'k', '0'],
        ['1', 'k', '1'],
        ['2', 'k', '2'],
      ]);
    });

    await t.test('a document column can be the primary key of a webhook table', async () => {
      await client.query(`CREATE TABLE facts (data JSONB PRIMARY KEY) WITH (connector = 'webhook')`);
      await accepted(post('facts', '{"a":1,"b":[2]}'));
      await accepted(post('facts', '{ "b":[2.0], "a":1 }'));
      await accepted(post('facts', '{"a":2}'));
      assert.deepEqual(await rows('SELECT count(*) FROM facts'), [['2']]);
    });

    await t.test('a generated column can be the primary key of a webhook table', async () => {
      await client.query(`
      CREATE TABLE issues (data JSONB, id BIGINT GENERATED ALWAYS AS ((data->>'id')::bigint) STORED PRIMARY KEY)
        WITH (connector = 'webhook')`);
      await Promise.all(
        [1, 2, 1, 2, 3].map((id, n) => accepted(post('issues', `{"id":${id},"n":${n},"big":1.10}`))),
      );
      assert.deepEqual(await rows(`SELECT id, data->>'big' FROM issues ORDER BY id`), [
        ['1', '1.10'],
        ['2', '1.10'],
        ['3', '1.10'],
      ]);
      const missing = await post('issues', '{"n":1}');
      assert.equal(missing.status, 422, missing.text);
    });

    await t.test('a redelivered webhook is answered 200 and stored once', async () => {
      await client.query(`
      CREATE SECRET s WITH (backend = 'meta') AS 'key';
      CREATE TABLE deliveries (data JSONB, PRIMARY KEY (id))
        INCLUDE HEADER 'x-github-delivery' AS id
        INCLUDE HEADER 'x-github-event' AS event
        INCLUDE HEADERS AS all_headers
        INCLUDE TIMESTAMP AS arrived
        WITH (connector = 'webhook')
        VALIDATE SECRET s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
      const body = '{"n": 1.50}';
      const send = (id: string, event: string) =>
        post('deliveries', body, {
          'x-hub-signature-256': `sha256=${createHmac('sha256', 'key').update(body).digest('hex')}`,
          'x-github-delivery': id,
          'x-github-event': event,
          authorization: 'Bearer secret',
          cookie: 'session=secret',
        });
      const answers = await Promise.all(['a', 'b', 'a', 'a'].map((id) => send(id, 'push')));
      assert.deepEqual(
        answers.map(({ text }) => text),
        Array.from({ length: 4 }, () => '{"rows":1}'),
      );
      await accepted(send('a', 'ping "quoted" ä'.replace('ä', '\u00e4')));
      const stored =
        await rows(`SELECT id, event, data->>'n', arrived BETWEEN now() - interval '1 minute' AND now(),
      all_headers->>'x-github-delivery', all_headers ?| array['authorization', 'cookie', 'x-hub-signature-256'] FROM deliveries ORDER BY id`);
      assert.deepEqual(stored, [
        ['a', 'ping "quoted" ä', '1.50', 't', 'a', 'f'],
        ['b', 'push', '1.50', 't', 'b', 'f'],
      ]);
      const [shown] = await rows('SHOW CREATE TABLE deliveries');
      assert.match(String(shown?.[1]), /INCLUDE HEADER 'x-github-delivery' AS id/i);
      const missing = await post('deliveries', body, {
        'x-hub-signature-256': `sha256=${createHmac('sha256', 'key').update(body).digest('hex')}`,
      });
      assert.deepEqual([missing.status, missing.code], [422, 'row_refused'], missing.text);
    });

    await t.test('INCLUDE columns keep all that a signature needs to be checked again', async () => {
      await client.query(`CREATE TABLE ledger (data JSONB) INCLUDE BODY AS raw INCLUDE METHOD AS method INCLUDE PATH AS path
      INCLUDE QUERY AS query INCLUDE REMOTE ADDRESS AS sender INCLUDE HEADER 'x-mark' AS mark WITH (connector = 'webhook')`);
      const body = ' {"b": 1.50,\r\n "a":"\\u00e9"}\n';
      const mark = createHmac('sha256', 'key').update(body).digest('hex');
      await accepted(post('ledger?x=%20&y', body, { 'x-mark': mark }));
      const [[stored, ...rest] = []] = await rows(
        `SELECT convert_from(raw, 'UTF8'), method, path, query, sender = '127.0.0.1', mark FROM ledger`,
      );
      assert.equal(
        createHmac('sha256', 'key')
          .update(stored ?? '')
          .digest('hex'),
        mark,
      );
      assert.deepEqual(rest.slice(0, 1).concat(rest.slice(2)), ['POST', 'x=%20&y', 't', mark]);
      assert.match(rest[1] ?? '', /^\/webhook\/[^/]+\/public\/ledger$/);
      const [shown] = await rows('SHOW CREATE TABLE ledger');
      assert.match(
        String(shown?.[1]),
        /raw bytea[^]*sender inet[^]*INCLUDE BODY AS raw\n[^]*INCLUDE REMOTE ADDRESS AS sender\n/,
      );
      await assert.rejects(
        client.query(
          `CREATE TABLE l (data JSONB, raw TEXT) INCLUDE BODY AS raw WITH (connector = 'webhook')`,
        ),
        /column "raw" is of type text: INCLUDE BODY needs BYTEA/,
      );
      const types = await rows(`SELECT pg_typeof(raw), pg_typeof(query) FROM ledger`);
      assert.deepEqual(types, [['bytea', 'text']]);
    });

    await t.test('an INCLUDE column of a typed table wins over a key of the body', async () => {
      await client.query(`
      CREATE TABLE typed_includes (n INT, event TEXT) INCLUDE HEADER 'x-event' AS event INCLUDE HEADER 'x-id' AS id
        WITH (connector = 'webhook')`);
      await accepted(post('typed_includes', '{"event":"forged","id":"forged","n":5}', { 'x-event': 'real' }));
      assert.deepEqual(await rows('SELECT n, event, id FROM typed_includes'), [['5', 'real', null]]);
    });
  },
);
