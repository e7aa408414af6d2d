/** A document is stored as the document it is, whatever stands beside its column and whatever type of JSON that is. */
import assert from 'node:assert/strict';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import type { Doors } from '../support/doors.ts';
import { accepted, onSomeEngine, refusedBy } from '../support/doors.ts';
import { batchText, WsClient } from '../support/ws-client.ts';

/** By name: what stands behind CREATE TABLE name. The column of the document is called `data`. */
const binary: Readonly<Record<string, string>> = {
  plain: '(data JSONB)',
  beside: `(data JSONB) INCLUDE HEADER 'x-id' AS id INCLUDE TIMESTAMP AS at`,
  computed: `(data JSONB, kind TEXT GENERATED ALWAYS AS (coalesce(data->>'type', 'none')) STORED PRIMARY KEY)`,
  required: `(data JSONB NOT NULL DEFAULT '{}') INCLUDE HEADERS AS h`,
  in_domain: '(data doc_b)',
  in_domain_beside: '(data doc_b) INCLUDE HEADERS AS h',
};
const text: Readonly<Record<string, string>> = {
  as_text: '(data JSON)',
  as_text_beside: `(data JSON NOT NULL) INCLUDE HEADER 'x-id' AS id`,
  as_text_computed: `(data JSON, kind TEXT GENERATED ALWAYS AS (coalesce(data->>'type', 'none')) STORED PRIMARY KEY)`,
  as_text_in_domain: '(data doc_t)',
};

const escapes = String.raw`"a\/b \u00e9 \" \\ é"`;
/** As they arrive in a body of their own. */
const documents = [
  'null',
  ' \r\n\tnull\n',
  escapes,
  ` \t${escapes}\r\n `,
  `{ "type" :\t"x",\n\n  "s":${escapes}, "n": 1.10e2,"type":"y" }\n`,
  '[ null , "", 0.10 ]',
  '-0.0',
];

async function open(doors: Doors): Promise<void> {
  await doors.client.query(`
    CREATE DOMAIN doc_b AS jsonb NOT NULL CHECK (jsonb_typeof(value) <> 'boolean');
    CREATE DOMAIN doc_t AS json NOT NULL CHECK (json_typeof(value) <> 'boolean');`);
  for (const batched of [false, true]) {
    for (const [name, columns] of Object.entries({ ...binary, ...text })) {
      const options = `connector = 'webhook'${batched ? ', is_batched = true' : ''}`;
      await doors.client.query(`CREATE TABLE ${name}${batched ? '_lines' : ''} ${columns} WITH (${options})`);
    }
  }
}

onSomeEngine('documents of JSONB and JSON columns are stored', async (t, doors) => {
  const { client, post, rows } = doors;
  await open(doors);
  /** The last row that was stored, and how jsonb prints what was sent. */
  const stored = async (table: string): Promise<unknown> =>
    (await rows(`SELECT data::text FROM ${table} ORDER BY ctid DESC LIMIT 1`))[0]?.[0];
  const printed = async (document: string): Promise<unknown> =>
    (await rows(`SELECT $doc$${document}$doc$::jsonb::text`))[0]?.[0];

  await t.test('documents in JSONB columns are stored as PostgreSQL casts them, null too', async () => {
    for (const table of Object.keys(binary)) {
      for (const document of documents) {
        await client.query(`DELETE FROM ${table}`);
        await accepted(post(table, document));
        assert.equal(await stored(table), await printed(document), `${table}: ${document}`);
      }
    }
  });

  await t.test('documents of JSON columns keep every byte', async () => {
    for (const table of Object.keys(text)) {
      for (const document of documents) {
        await client.query(`DELETE FROM ${table}`);
        await accepted(post(table, document));
        assert.equal(await stored(table), document, table);
      }
    }
  });

  await t.test('documents in batches keep the white space of their line in JSON columns', async () => {
    const lines = ['null', ` ${escapes}\t`, '{"a" : [1.0,null]}'];
    for (const table of [...Object.keys(binary), ...Object.keys(text)]) {
      // One a batch: where the computed key is the same, the last row stays.
      for (const line of lines) {
        await client.query(`DELETE FROM ${table}_lines`);
        await accepted(post(`${table}_lines`, `\r\n\n${line}\r\n\n`));
        const wanted = table in text ? line : await printed(line);
        assert.equal(await stored(`${table}_lines`), wanted, table);
      }
    }
    await client.query('DELETE FROM as_text_lines');
    await accepted(post('as_text_lines', lines.join('\n')), 3);
    assert.deepEqual(
      await rows('SELECT data FROM as_text_lines ORDER BY ctid'),
      lines.map((line) => [line]),
    );
  });

  await t.test('documents are stored through a WebSocket', async (t) => {
    for (const table of [...Object.keys(binary), ...Object.keys(text)]) {
      await client.query(`DELETE FROM ${table}`);
      const { port } = doors.headgate.ports.listen;
      const ws = await WsClient.open(`ws://127.0.0.1:${port}/ingest/${doors.database}/public/${table}`);
      onEnd(t, 'WebSocket', async () => void (await ws.kill()));
      for (const [i, document] of documents.entries()) {
        ws.ws.send(batchText(i + 1, []).replace(/\[\s*\]/, `[{"op":"insert","data":${document}}]`));
        await ws.acked(i + 1);
        const wanted = table in text ? document.trim() : await printed(document);
        assert.equal(await stored(table), wanted, table);
      }
    }
  });

  await t.test('documents that a domain refuses are refused, and never stored as NULL', async () => {
    await refusedBy(post('in_domain', 'true'), /doc_b_check/);
    await refusedBy(post('in_domain_beside', 'true'), /doc_b_check/);
    await refusedBy(post('as_text_in_domain', ' true'), /doc_t_check/);
    await client.query(
      `CREATE TABLE nulling (data doc_b) INCLUDE HEADERS AS h WITH (connector = 'webhook', on_type_error = 'null')`,
    );
    await refusedBy(post('nulling', 'true'), /doc_b_check/);
    assert.deepEqual(await rows('SELECT * FROM nulling'), []);
  });

  await t.test('members of a column of type JSON keep their bytes, in webhooks and in events', async () => {
    await client.query(
      `CREATE DOMAIN member AS json CHECK (json_typeof(value) <> 'boolean');
       CREATE TABLE members (id INT PRIMARY KEY, j JSON DEFAULT '"none"', d member, at TIMESTAMPTZ DEFAULT now()) WITH (connector = 'webhook')`,
    );
    const values = [escapes, String.raw`{ "s" : ${escapes}}`, '[1.0, null]', '0.10', 'null', '""'];
    for (const [i, value] of values.entries()) {
      await accepted(post('members', `{"j": 1, "id":${i}, "j" :  ${value} ,"d":${value}}`));
      const url = `${doors.headgate.gatewayUrl}/v1/events?name=members&database=${doors.database}`;
      const answer = await asked(url, {
        method: 'POST',
        body: `{"d":${value},"id":${i + 100},"j":${value}}`,
      });
      assert.equal(answer.status, 200, answer.text);
      const wanted = value === 'null' ? null : value;
      for (const id of [i, i + 100]) {
        assert.deepEqual(await rows(`SELECT j, d FROM members WHERE id = ${id}`), [[wanted, wanted]]);
      }
    }
    await accepted(post('members', '{"id":7}'));
    assert.deepEqual(await rows('SELECT j, d FROM members WHERE id = 7'), [['"none"', null]]);
    await refusedBy(post('members', '{"id":8,"d":true}'), /column "d".*member_check/);
  });
});
