import assert from 'node:assert/strict';
import { accepted, onSomeEngine, refusedBy } from '../support/doors.ts';
import { within } from '../support/within.ts';

const mark = '\ufeff';

onSomeEngine(
  'documents with text that JSONB or a parser refuses',
  async (t, { client, post, rows, headgate, database }) => {
    await client.query(`
    CREATE TABLE docs (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE texts (data JSON) WITH (connector = 'webhook');
    CREATE TABLE text_lines (data JSON) WITH (connector = 'webhook', is_batched = true);
    CREATE TABLE replacing (data JSONB) WITH (connector = 'webhook', on_unstorable = 'replace');
    CREATE TABLE replacing_lines (data JSONB) WITH (connector = 'webhook', on_unstorable = 'replace', is_batched = true);
    CREATE TABLE replacing_columns (id INT, name TEXT) WITH (connector = 'webhook', on_unstorable = 'replace');
    CREATE TABLE marked (id INT, name TEXT, raw BYTEA) INCLUDE BODY AS raw WITH (connector = 'webhook');
    CREATE TABLE marked_lines (data JSONB) WITH (connector = 'webhook', is_batched = true);
    CREATE TABLE once (data JSONB) WITH (connector = 'webhook', dedupe = '$.id');
    CREATE SECRET client_state WITH (backend = 'meta') AS 'state';
    CREATE TABLE lists (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET client_state USING sharepoint`);

    await t.test('a byte order mark is not part of a document', async () => {
      await accepted(post('docs', `${mark}{"a":1}`));
      await accepted(post('texts', `${mark}{"a":1}`));
      await accepted(post('marked', `${mark}{"id":1,"name":"x"}`));
      await accepted(post('marked_lines', `${mark}{"a":1}\n{"a":2}`), 2);
      await accepted(post('once', `${mark}{"id":"x"}`));
      assert.deepEqual(await rows('SELECT data FROM docs UNION ALL SELECT data::jsonb FROM texts'), [
        ['{"a": 1}'],
        ['{"a": 1}'],
      ]);
      assert.deepEqual(await rows('SELECT count(*) FROM marked_lines'), [['2']]);
      // What the sender signed is what was sent.
      assert.deepEqual(await rows('SELECT id, name, raw FROM marked'), [
        ['1', 'x', `\\x${Buffer.from(`${mark}{"id":1,"name":"x"}`).toString('hex')}`],
      ]);
      await refusedBy(post('docs', `${mark}${mark}{}`), /unexpected character/);
    });

    await t.test('SharePoint notifications are accepted with their byte order mark', async () => {
      const notification = (state: string) =>
        `${mark}${JSON.stringify({ value: [{ clientState: state, resource: 'r' }] })}`;
      const path = `${database}/public/lists`;
      assert.equal((await headgate.post(path, notification('state'))).status, 200);
      assert.equal((await headgate.post(path, notification('other'))).status, 401);
      assert.deepEqual(await rows(`SELECT data #>> '{value,0,resource}' FROM lists`), [['r']]);
    });

    const odd = [
      '"\\u0000"',
      '{"a\\u0000":"\\ud800 \\udc00\\ud800"}',
      '["\\uDFFF",1e999999,0.5e-99999]',
      '{"a":1,"a":2}',
    ];

    await t.test('a JSON column stores every document that PostgreSQL accepts, unchanged', async () => {
      for (const document of odd) {
        // PostgreSQL's own answer.
        const { rows: own } = await client.query<{ kept: string }>('SELECT $1::json::text AS kept', [
          document,
        ]);
        await accepted(post('texts', ` ${document}`));
        assert.deepEqual(await rows(`SELECT data::text FROM texts ORDER BY ctid DESC LIMIT 1`), [
          [` ${own[0]?.kept}`],
        ]);
      }
      await accepted(post('text_lines', odd.join('\n')), odd.length);
      assert.deepEqual(
        await rows('SELECT data::text FROM text_lines'),
        odd.map((document) => [document]),
      );
      for (const document of ['"\\u00"', '"\\u000g"', '{"a":01}', '"\\x"']) {
        await assert.rejects(client.query('SELECT $1::json', [document]));
        assert.equal((await post('texts', document)).status, 422, document);
      }
    });

    await t.test(
      "on_unstorable = 'replace' stores what JSONB refuses, with U+FFFD in its place",
      async () => {
        const [zero = '', surrogates = ''] = odd;
        for (const document of [zero, surrogates]) {
          await refusedBy(post('docs', document), /\\u0000|surrogate/);
          await accepted(post('replacing', document));
        }
        assert.deepEqual(await rows('SELECT data::text FROM replacing'), [
          ['"\ufffd"'],
          ['{"a\ufffd": "\ufffd \ufffd\ufffd"}'],
        ]);
        await accepted(post('replacing', Buffer.from([0x22, 0xff, 0x22])));
        await accepted(post('replacing_lines', `{"a":"\\u0000"}\n{"a":"\\ud83d\\ude00"}`), 2);
        assert.deepEqual(await rows(`SELECT data->>'a' FROM replacing_lines`), [['\ufffd'], ['😀']]);
        await accepted(post('replacing_columns', '{"id":1,"name":"a\\u0000b"}'));
        assert.deepEqual(await rows('SELECT name FROM replacing_columns'), [['a\ufffdb']]);
        await refusedBy(post('replacing', '{"a":1e999999}'), /number out of range/);
        await client.query(`ALTER TABLE replacing SET (on_unstorable = 'reject')`);
        await within(5_000, () => refusedBy(post('replacing', zero), /cannot be stored/));
      },
    );
  },
);
