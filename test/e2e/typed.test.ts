import assert from 'node:assert/strict';
import { accepted, onSomeEngine } from '../support/doors.ts';

onSomeEngine('a table of typed columns stores documents by their keys', async (t, { client, post, rows }) => {
  await t.test('typed columns accept every type as PostgreSQL reads it, with every digit', async () => {
    await client.query(`
      CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
      CREATE DOMAIN percent AS numeric CHECK (value BETWEEN 0 AND 100);
      CREATE TYPE place AS (city text, lat numeric);
      CREATE TABLE everything (
        "Id" BIGINT, big NUMERIC, money NUMERIC(10,2), ratio DOUBLE PRECISION, ok BOOLEAN, note STRING, tags STRING[],
        grid INT[][], at TIMESTAMPTZ, day DATE, span INTERVAL, feeling mood, share percent, home place, homes place[],
        raw BYTEA, doc JSONB, plain JSON, key UUID, addr INET, ranged INT4RANGE, code VARCHAR(3)
      ) WITH (connector = 'webhook')`);
    await accepted(
      post(
        'everything',
        String.raw`{ "Id":9223372036854775807, "big":12345678901234567890.123456789012345678901234567890, "money":12.3,
          "ratio":0.1, "ok":true, "note":"\"ä\ud83d\ude00\n", "tags":["a","b,c",null], "grid":[[1,2],[3,4]],
          "at":"2026-02-03T04:05:06.789+02:00", "day":"2026-02-03", "span":"1 day 02:00", "feeling":"happy", "share":99.5,
          "home":{"city":"Berlin","lat":52.50}, "homes":[{"city":"A"},{"lat":1}], "raw":"\\xdeadbeef",
          "doc":{"n":1.10,"x":[1e2]}, "plain":{"n": 1.10}, "key":"6f1b7c1e-7d0c-4a0e-9a53-1f3c2b8c9d10",
          "addr":"10.0.0.1/8", "ranged":"[1,5)", "code":"abc", "unknown":{"ignored":true} }`,
      ),
    );
    await client.query('SET timezone = UTC');
    const [row] = await rows('SELECT * FROM everything');
    assert.deepEqual(row, [
      '9223372036854775807',
      '12345678901234567890.123456789012345678901234567890',
      '12.30',
      '0.1',
      't',
      '"ä😀\n',
      '{a,"b,c",NULL}',
      '{{1,2},{3,4}}',
      '2026-02-03 02:05:06.789+00',
      '2026-02-03',
      '1 day 02:00:00',
      'happy',
      '99.5',
      '(Berlin,52.50)',
      '{"(A,)","(,1)"}',
      String.raw`\xdeadbeef`,
      '{"n": 1.10, "x": [100]}',
      '{"n": 1.10}',
      '6f1b7c1e-7d0c-4a0e-9a53-1f3c2b8c9d10',
      '10.0.0.1/8',
      '[1,5)',
      'abc',
    ]);
  });

  await t.test(
    'in typed tables a missing key gives NULL or the default, null gives NULL, and unknown keys are ignored',
    async () => {
      await client.query(`
      CREATE TABLE filled (n INT GENERATED ALWAYS AS IDENTITY, a INT, b TEXT DEFAULT 'none', c TIMESTAMPTZ DEFAULT now(),
        d BIGSERIAL, twice INT GENERATED ALWAYS AS (a * 2) STORED) WITH (connector = 'webhook')`);
      await accepted(post('filled', '{"a":1}'));
      await accepted(post('filled', '{"a":2,"b":null,"c":null,"d":7,"twice":77,"n":99}'));
      await accepted(post('filled', '{"b":"given","d":50,"else":1}'));
      assert.deepEqual(await rows('SELECT n, a, b, c IS NULL, d, twice FROM filled ORDER BY n'), [
        ['1', '1', 'none', 'f', '1', '2'],
        ['2', '2', null, 't', '7', '4'],
        ['3', null, 'given', 'f', '50', null],
      ]);
    },
  );

  await t.test('a value that does not fit its column is refused with column and reason', async () => {
    await client.query(`
      CREATE TABLE strict (id INT NOT NULL, amount NUMERIC(6,2) CONSTRAINT positive CHECK (amount > 0), at TIMESTAMPTZ,
        who UUID) WITH (connector = 'webhook')`);
    const refused: [body: string, code: string, message: RegExp][] = [
      ['{"id":"x"}', 'payload_undecodable', /column "id": invalid input syntax for type integer: "x"/],
      [
        '{"id":1,"amount":"much"}',
        'payload_undecodable',
        /column "amount": invalid input syntax for type numeric: "much"/,
      ],
      [
        '{"id":1,"amount":123456}',
        'payload_undecodable',
        /column "amount": numeric field overflow: A field with precision 6, scale 2 must/,
      ],
      ['{"id":1,"who":{"a":1}}', 'payload_undecodable', /column "who": invalid input syntax for type uuid/],
      [
        '{"id":1,"at":"yesterdayish"}',
        'payload_undecodable',
        /column "at": invalid input syntax for type timestamp/,
      ],
      ['{"amount":1}', 'row_refused', /column "?id"?/],
      ['{"id":1,"amount":-1}', 'row_refused', /constraint "?positive"?/],
      ['[{"id":1}]', 'payload_undecodable', /^failed to decode webhook JSON payload/],
      ['7', 'payload_undecodable', /^failed to decode webhook JSON payload/],
      ['{"id":1', 'payload_undecodable', /^failed to decode webhook JSON payload/],
      ['', 'payload_undecodable', /^failed to decode webhook JSON payload/],
    ];
    for (const [body, code, message] of refused) {
      const answer = await post('strict', body);
      assert.deepEqual([answer.status, answer.code], [422, code], `${body}: ${answer.text}`);
      assert.match((JSON.parse(answer.text) as { error: string }).error, message);
    }
    await accepted(post('strict', '{"id":1,"amount":"2.50"}'));
    assert.deepEqual(await rows('SELECT id, amount FROM strict'), [['1', '2.50']]);
  });

  await t.test(
    'of many concurrent requests each bad one gets its own reason, and each good one is stored',
    async () => {
      await client.query(`CREATE TABLE mixed (id INT, v INT) WITH (connector = 'webhook')`);
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          post('mixed', `{"id":${i},"v":${i % 7 === 0 ? `"bad-${i}"` : i}}`),
        ),
      );
      answers.forEach((answer, i) => {
        assert.equal(answer.status, i % 7 === 0 ? 422 : 200, `${i}: ${answer.text}`);
        if (i % 7 === 0)
          assert(answer.text.includes(`bad-${i}\\"`), `its own value and no other: ${answer.text}`);
      });
      assert.deepEqual(await rows('SELECT count(*), count(distinct id) FROM mixed'), [['171', '171']]);
    },
  );

  await t.test("a table with on_type_error = 'null' stores the values that fit", async () => {
    await client.query(
      `CREATE TABLE lenient (id INT, n INT, at TIMESTAMPTZ) WITH (connector = 'webhook', on_type_error = 'null')`,
    );
    await Promise.all([
      accepted(post('lenient', '{"id":1,"n":"x","at":"2026-01-01T00:00:00Z"}')),
      accepted(post('lenient', '{"id":2,"n":5,"at":"never"}')),
      accepted(post('lenient', '{"id":3,"n":6}')),
    ]);
    assert.deepEqual(await rows('SELECT id, n, at IS NULL FROM lenient ORDER BY id'), [
      ['1', null, 'f'],
      ['2', '5', 't'],
      ['3', '6', 't'],
    ]);
    assert.equal((await post('lenient', '[]')).status, 422);
  });
});
