/** What becomes of keys that are no columns: no 2xx without the data, and three ways for those beside known ones. */
import assert from 'node:assert/strict';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { accepted, onSomeEngine, refusedBy } from '../support/doors.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

onSomeEngine(
  'keys without a column are refused, ignored or collected as the table says',
  async (t, doors) => {
    const { client, post, rows, headgate, database } = doors;
    const table = (name: string, columns: string, options = '') =>
      client.query(`CREATE TABLE ${name} ${columns} WITH (connector = 'webhook'${options})`);
    const notices: {
      severity?: string | undefined;
      message?: string | undefined;
      hint?: string | undefined;
    }[] = [];
    client.on('notice', (notice) => notices.push(notice));
    const event = async (name: string, body: string, more = '') => {
      const url = `${headgate.gatewayUrl}/v1/events?name=${name}&database=${database}${more}`;
      return { ...(await asked(url, { method: 'POST', body })), code: '' };
    };

    await t.test('a document without a key that is a column is refused by every protocol', async (t) => {
      await table('mix', '(id BIGINT, name TEXT, kind TEXT GENERATED ALWAYS AS (name) STORED)');
      await table('mix_lines', `(id BIGINT, name TEXT) INCLUDE HEADER 'x' AS h`, ', is_batched = true');
      await table('mix_form', '(id BIGINT, name TEXT)', ", format = 'form'");
      const lines =
        /^no key of the document is a column of the table: the document has "totally", the table "id", "name"$/;
      await refusedBy(post('mix', '{"totally":"other"}'), lines);
      assert.equal((await post('mix', '{"totally":"other"}')).code, 'no_column_matched');
      await refusedBy(post('mix', '{"kind":"generated"}'), /has "kind", the table "id", "name"$/);
      await refusedBy(
        post('mix', '{"ID":1,"Name":"x"}'),
        /has "ID", "Name", the table "id", "name"; "ID" and "id" differ in case$/,
      );
      await refusedBy(
        post('mix_lines', '{"id":1}\n{"h":"x"}\n'),
        /^line 2: no key of the document is a column/,
      );
      await refusedBy(post('mix_form', 'totally=other'), /^no key of the document is a column/);
      await refusedBy(event('mix', '{"totally":"other"}'), /no key of the document is a column/);
      const skipping = await event('mix', '{"totally":"other"}\n{"id":7}\n', '&on_error=skip');
      assert.deepEqual(
        [skipping.status, JSON.parse(skipping.text)],
        [
          200,
          {
            rows: 1,
            skipped: [
              {
                line: 1,
                error:
                  'no key of the document is a column of the table: the document has "totally", the table "id", "name"',
              },
            ],
            skippedTotal: 1,
          },
        ],
      );
      const ws = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/mix`,
      );
      onEnd(t, 'WebSocket', async () => void (await ws.kill()));
      ws.send(1, [
        { op: 'insert', data: { id: 8 } },
        { op: 'insert', data: { totally: 'other' } },
      ]);
      assert.match((await ws.ended).fatal ?? '', /item 2: no key of the document is a column of the table/);
      assert.deepEqual(await rows('SELECT id, name FROM mix'), [['7', null]]);
      assert.deepEqual(await rows('SELECT * FROM mix_lines'), []);
    });

    await t.test(
      "a refusal's quoted keys are bounded and contain no terminal control characters",
      async () => {
        const keys = Array.from({ length: 5_000 }, (_, i) => `"k${i}\\u001b\\u202e${'x'.repeat(200)}":1`);
        const { status, text } = await post('mix', `{${keys.join(',')}}`);
        assert.equal(status, 422);
        assert(text.length < 2_000, text);
        assert.match((JSON.parse(text) as { error: string }).error, /and 990 more, the table "id", "name"$/);
        // oxlint-disable-next-line no-control-regex
        assert.doesNotMatch((JSON.parse(text) as { error: string }).error, /[\u001b\u202e]/);
      },
    );

    await t.test('an empty document is stored as a row of defaults', async () => {
      await table('counted', '(id BIGSERIAL, n INT DEFAULT 3)');
      await accepted(post('counted', '{}'));
      assert.deepEqual(await rows('SELECT id, n FROM counted'), [['1', '3']]);
    });

    await t.test('unknown keys beside known ones are ignored, counted and shown to the owner', async () => {
      await table('ignoring', '(id BIGINT, name TEXT)');
      await accepted(post('ignoring', String.raw`{"id":1,"extra":{"id":2},"\u006eame":"x","na\u006de2":1}`));
      await accepted(post('ignoring', '{"id":2,"more":1}'));
      await accepted(post('ignoring', '{"id":3}'));
      assert.deepEqual(await rows('SELECT * FROM ignoring ORDER BY id'), [['1', 'x'], ['2', null], ['3', null]]); // prettier-ignore
      const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
      assert.match(metrics, /^headgate_ignored_keys_documents_total\{[^}]*table="ignoring"[^}]*\} 2$/m);
      assert.doesNotMatch(metrics, /ignored_keys_documents_total\{[^}]*table="counted"/);
      await within(15_000, async () =>
        assert.deepEqual(
          await rows(
            `SELECT documents, array_to_string(keys, ' ') FROM headgate.ignored_keys WHERE relation = 'ignoring'::regclass`,
          ),
          [['2', 'extra name2 more']],
        ),
      );
    });

    await t.test("on_unknown = 'reject' refuses unknown keys", async () => {
      await table('strict', '(id BIGINT PRIMARY KEY, name TEXT)', ", on_unknown = 'reject'");
      await accepted(post('strict', '{"id":1,"name":"x"}'));
      const { text, code } = await post('strict', '{"id":2,"Name":"x","z":1}');
      assert.equal(code, 'key_unknown', text);
      assert.match(text, /the document has a key that is not a column of the table: \\"Name\\"/);
      const ws = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/strict`,
      );
      ws.send(1, [{ op: 'delete', data: { id: 1, before: 'x' } }]);
      await ws.acked(1);
      await ws.kill();
      assert.deepEqual(await rows('SELECT * FROM strict'), []);
    });

    await t.test("on_unknown = 'collect' stores unknown keys in the column of collect_into", async () => {
      await table(
        'collecting',
        `(id BIGINT, at TIMESTAMPTZ, rest JSONB, h TEXT) INCLUDE HEADER 'x-h' AS h`,
        ", on_unknown = 'collect', collect_into = 'rest'",
      );
      await client.query('SET timezone = UTC');
      const send = (body: string) => accepted(post('collecting', body, { 'x-h': 'H' }));
      await send(' { "a" : [1, {"id":5}] ,"id":1, "h":"theirs","at":86400,\n"rest":{"b":1}, "a":2 } ');
      await send('{"id":2}');
      await send('{"z":null}');
      assert.deepEqual(await rows('SELECT id, at, rest, h FROM collecting ORDER BY id'), [
        ['1', '1970-01-02 00:00:00+00', '{"a": 2, "h": "theirs", "rest": {"b": 1}}', 'H'],
        ['2', null, null, 'H'],
        [null, null, '{"z": null}', 'H'],
      ]);
      await client.query('ALTER TABLE collecting RENAME COLUMN rest TO "Übrig"');
      await send('{"id":4,"x":true}');
      assert.deepEqual(await rows('SELECT "Übrig" FROM collecting WHERE id = 4'), [['{"x": true}']]);
      assert.match(
        (await rows('SHOW CREATE TABLE collecting'))[0]?.[1] ?? '',
        /collect_into = 'Übrig',\n {2}on_unknown = 'collect'/,
      );
      await client.query('ALTER TABLE collecting DROP COLUMN "Übrig"');
      await within(5_000, async () => assert.equal((await post('collecting', '{"id":5}')).status, 503));
    });

    await t.test('only ALTER TABLE changes the handling of unknown keys', async () => {
      await table('changing', '(id BIGINT, rest JSONB)');
      await client.query(`ALTER TABLE changing SET (on_unknown = 'reject')`);
      await within(5_000, () =>
        refusedBy(post('changing', '{"id":1,"x":1}'), /not a column of the table: "x"/),
      );
      await client.query(
        `ALTER TABLE IF EXISTS public.changing SET (on_unknown = collect, collect_into = rest)`,
      );
      await within(5_000, () => accepted(post('changing', '{"id":1,"x":1}')));
      await client.query(`ALTER TABLE changing SET (on_type_error = 'null')`);
      await within(5_000, () => accepted(post('changing', '{"id":"none","y":2}')));
      await client.query(`ALTER TABLE changing SET (on_unknown = 'ignore')`);
      await within(5_000, async () => {
        await accepted(post('changing', '{"id":3,"z":3}'));
        assert.deepEqual(await rows('SELECT rest FROM changing WHERE id = 3 AND rest IS NULL LIMIT 1'), [
          [null],
        ]);
      });
      assert.deepEqual(
        await rows(`SELECT id, rest FROM changing WHERE rest IS NOT NULL AND NOT rest ? 'z'`),
        [
          ['1', '{"x": 1}'],
          [null, '{"y": 2}'],
        ],
      );
      // PostgreSQL's own parameters pass as they are.
      await client.query('ALTER TABLE changing SET (fillfactor = 70)');
      const refusals: readonly (readonly [string, RegExp])[] = [
        [`ALTER TABLE changing SET (on_unknown = 'collect')`, /need each other/],
        [`ALTER TABLE changing SET (on_unknown = 'perhaps')`, /"perhaps" is not known/],
        [`ALTER TABLE changing SET (on_unknown = 'reject', collect_into = 'rest')`, /collect_into needs/],
        [`ALTER TABLE changing SET (on_unknown = 'collect', collect_into = 'id')`, /"id" cannot take keys/],
        [
          `ALTER TABLE changing SET (on_unknown = 'collect', document = 'rest')`,
          /"document" is given to CREATE TABLE only/,
        ],
        [`ALTER TABLE nosuch SET (on_unknown = 'reject')`, /"nosuch" does not exist/],
        [`CREATE TABLE no (data JSONB) WITH (connector = 'webhook', on_unknown = 'reject')`, /says nothing/],
        [
          `CREATE TABLE no (rest JSONB) WITH (connector = 'webhook', document = '', on_unknown = collect, collect_into = rest)`,
          /no column that a key could fill/,
        ],
      ];
      for (const [sql, words] of refusals) await assert.rejects(client.query(sql), words, sql);
    });

    await t.test(
      'a table with one JSONB column among columns with defaults stores whole documents there',
      async () => {
        notices.length = 0;
        await table('whole', '(id BIGSERIAL PRIMARY KEY, data JSONB, received_at TIMESTAMPTZ DEFAULT now())');
        const notice = notices.find(({ message }) => message?.includes('whole document'));
        assert.equal(notice?.severity, 'NOTICE');
        assert.equal(
          notice.message,
          'the whole document goes into column "data", and the other columns keep their defaults',
        );
        assert.match(notice.hint ?? '', /document = ''/);
        await accepted(post('whole', '{"id":99,"data":1}'));
        // Decided once: a column that comes later changes nothing.
        await client.query('ALTER TABLE whole ADD COLUMN done BOOLEAN, ADD COLUMN more JSONB');
        await within(5_000, () => accepted(post('whole', '{"done":true}')));
        assert.deepEqual(await rows('SELECT id, data, done FROM whole ORDER BY id LIMIT 1'), [
          ['1', '{"id": 99, "data": 1}', null],
        ]);
        assert.match((await rows('SHOW CREATE TABLE whole'))[0]?.[1] ?? '', /document = 'data'/);
        notices.length = 0;
        await table('by_keys', '(id BIGSERIAL PRIMARY KEY, data JSONB)', ", document = ''");
        assert(
          notices.some(({ message }) =>
            message?.includes('a sequence fills the key of table "by_keys" (id)'),
          ),
        );
        // A number that a document names is none that the sequence could come to.
        for (const body of ['{"id":2,"data":5}', '{"data":6}']) await accepted(post('by_keys', body));
        assert.deepEqual(await rows('SELECT id, data FROM by_keys ORDER BY id'), [['1', '5'], ['2', '6']]); // prettier-ignore
        assert.match((await rows('SHOW CREATE TABLE by_keys'))[0]?.[1] ?? '', /document = ''/);
        await table('also_by_keys', '(id BIGSERIAL PRIMARY KEY, data JSONB, note TEXT)');
        await accepted(post('also_by_keys', '{"data":6}'));
        assert.deepEqual(await rows('SELECT data FROM also_by_keys'), [['6']]);
      },
    );

    await t.test(
      'defaults that are the same for all rows of a transaction do not fill a key unseen',
      async () => {
        const key = (of: string) => `at TIMESTAMPTZ DEFAULT ${of}`;
        for (const of of ['now()', 'CURRENT_TIMESTAMP', "'yesterday'::text::timestamptz"])
          await assert.rejects(table('moments', `(${key(of)} PRIMARY KEY, data JSONB)`), {
            code: '0A000',
            message:
              'no request fills the primary key, and its default is the same for all rows of a transaction',
          });
        notices.length = 0;
        for (const [name, columns] of [
          ['each', `(${key('clock_timestamp()')} PRIMARY KEY, data JSONB)`],
          ['tenants', '(tenant INT DEFAULT 0, id INT, PRIMARY KEY (tenant, id))'],
        ] as const)
          await table(name, columns);
        const said = () =>
          notices.filter(({ message }) => message?.includes('the default of')).map(({ message }) => message);
        assert.deepEqual(said(), []);
        await table('told', `(id INT, ${key('now()')}, PRIMARY KEY (id, at))`);
        assert.deepEqual(said(), [
          'the default of "at" in the key of table "told" is the same for all rows of a transaction: requests that come together may get one key',
        ]);
      },
    );

    await t.test(
      'a row that another constraint refuses is refused beside a key that no request fills',
      async () => {
        for (const [name, columns] of [
          ['beside', '(id BIGSERIAL PRIMARY KEY, ext TEXT UNIQUE)'],
          [
            'computed',
            `(id UUID PRIMARY KEY DEFAULT gen_random_uuid(), data JSONB, k TEXT GENERATED ALWAYS AS (data ->> 'ext') STORED UNIQUE)`,
          ],
          ['late', '(ext TEXT)'],
        ] as const)
          await table(name, columns);
        await client.query(
          'ALTER TABLE late ADD CONSTRAINT late_k PRIMARY KEY (ext) DEFERRABLE INITIALLY DEFERRED',
        );
        for (const name of ['beside', 'computed', 'late']) {
          await accepted(post(name, '{"ext":"one"}'));
          await within(10_000, () =>
            refusedBy(post(name, '{"ext":"one"}'), /^the row violates the constraint \w+_k(?:ey)?$/),
          );
        }
      },
    );

    await t.test(
      'a sequence that is behind its table refuses the row by the name of the constraint',
      async () => {
        await table('behind', '(id BIGSERIAL PRIMARY KEY, data JSONB)');
        for (let i = 0; i < 2; i++) await accepted(post('behind', '{}'));
        await client.query(`SELECT setval('behind_id_seq', 1, false)`);
        await refusedBy(post('behind', '{"late":1}'), /^the row violates the constraint behind_pkey$/);
        await within(10_000, async () =>
          assert.deepEqual(
            await rows(
              `SELECT convert_from(body, 'UTF8') FROM headgate.rejected_requests WHERE table_name = 'behind'`,
            ),
            [['{"late":1}']],
          ),
        );
        await client.query(`SELECT setval('behind_id_seq', 10)`);
        await client.query(
          `SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE table_name = 'behind'`,
        );
        await within(
          10_000,
          async () =>
        assert.deepEqual(await rows('SELECT id, data FROM behind ORDER BY id'), [['1', '{}'], ['2', '{}'], ['11', '{"late": 1}']]), // prettier-ignore
        );
      },
    );
  },
);
