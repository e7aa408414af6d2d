/** POST /v1/events in front of RisingWave: on the stand-in, or on the server of HEADGATE_RISINGWAVE_DSN. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { onStandInOnly, openRisingWave } from './support.ts';
import { within } from '../support/within.ts';

suite('events are stored in RisingWave', () => {
  test('events as one object and as lines fill RisingWave columns of every type, with every digit', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    const made = await gateway.sql(`CREATE TABLE ${name} (
      id BIGINT PRIMARY KEY, s STRING, n NUMERIC, f DOUBLE PRECISION, b BOOLEAN, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ,
      i INTERVAL, raw BYTEA, doc JSONB, big RW_INT256, list INT[], texts VARCHAR[], deep INT[][], docs JSONB[],
      place STRUCT<lat DOUBLE PRECISION, name VARCHAR, inner_one STRUCT<a INT, b VARCHAR[]>>,
      stops STRUCT<at TIMESTAMPTZ, note VARCHAR>[], tags MAP(VARCHAR, INT), named MAP(VARCHAR, STRUCT<a INT, b VARCHAR>))`);
    assert.equal(made.status, 200, made.text);
    const full = `{
      "id": 9007199254740993, "s": "it's \\\\ \\"quoted\\", ☃", "n": 1234567890.123456789, "f": 0.1, "b": true, "d": "2026-01-02",
      "ts": "2026-01-02 03:04:05", "tz": "2026-01-02T03:04:05Z", "i": "1 day", "raw": "\\\\xdeadbeef",
      "doc": {"a": [1, 2.50, "x"], "b": null}, "big": 123456789012345678901234567890123456789012345678901234567890,
      "list": [1, null, 3], "texts": ["a,b", "{}", "\\"q\\" \\\\", "", "NULL", null], "deep": [[1, 2], [3, 4]], "docs": [{"k": "v, w"}, [1]],
      "place": {"lat": 48.85, "name": "a,b)('", "inner_one": {"a": 7, "b": ["x", "y,z"]}},
      "stops": [{"at": "2026-01-01T00:00:00Z", "note": "first, of two"}, {"note": null}], "tags": {"a": 1, "b,c": 2}, "named": {"k": {"a": 1, "b": "x,y"}},
      "not_a_column": 1 }`;
    assert.deepEqual((await gateway.events(`name=${name}&flush=true`, full)).json, { rows: 1 });
    const lines =
      '{"id": 1, "s": "one", "n": "-0.5"}\n{"id": 2, "list": [], "texts": [], "stops": [], "tags": {}, "doc": "text"}\n\n{"id": 3}\n';
    assert.deepEqual((await gateway.events(`name=public.${name}&flush=true`, lines)).json, { rows: 3 });
    const { text } = await gateway.sql(`SELECT id, s, n, f, b, d, ts, i, raw, list, texts, deep, big,
      (place).name AS place_name, ((place).inner_one).b AS inner_b, stops[1] AS stop, doc FROM ${name} WHERE id > 100`);
    assert.match(text, /"id":9007199254740993,/);
    assert.match(text, /"n":1234567890.123456789,/);
    assert.match(text, /"big":123456789012345678901234567890123456789012345678901234567890[,}]/);
    const [row] = await gateway.rows(`SELECT s, b, raw, list, texts, deep, (place).name AS place_name,
      ((place).inner_one).b AS inner_b, (stops[1]).note AS note, doc FROM ${name} WHERE id > 100`);
    assert.deepEqual(row, {
      s: 'it\'s \\ "quoted", ☃',
      b: true,
      raw: '\\xdeadbeef',
      list: [1, null, 3],
      texts: ['a,b', '{}', '"q" \\', '', 'NULL', null],
      deep: [
        [1, 2],
        [3, 4],
      ],
      place_name: "a,b)('",
      inner_b: ['x', 'y,z'],
      note: 'first, of two',
      doc: { a: [1, 2.5, 'x'], b: null },
    });
    assert.deepEqual(await gateway.rows(`SELECT id, s, n FROM ${name} WHERE id < 3 ORDER BY id`), [
      { id: 1, s: 'one', n: -0.5 },
      { id: 2, s: null, n: null },
    ]);
  });

  test('an event that does not fit in RisingWave is named by its line, and nothing of its request is stored', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(`CREATE TABLE ${name} (id INT, at TIMESTAMP, needed VARCHAR NOT NULL)`);
    const good = '{"id": 1, "needed": "x"}\n';
    const refused = async (body: string, code: string, error: RegExp, line?: number) => {
      const { status, json } = await gateway.events(`name=${name}`, body);
      assert.deepEqual([status, json.code, json['line']], [422, code, line], JSON.stringify(json));
      assert.match(json.error ?? '', error);
    };
    const answers = await Promise.all([
      refused(
        `${good.repeat(40)}{"id": "seven", "needed": "x"}\n${good}`,
        'payload_undecodable',
        /^line 41: column "id": /,
        41,
      ),
      refused(`{"id": 99999999999, "needed": "x"}`, 'payload_undecodable', /column "id": /, 1),
      refused(`${good}{"id": 2}\n`, 'row_refused', /column "needed" must not be null/, 2),
      refused(`{"id": {}, "needed": "x"}`, 'payload_undecodable', /column "id": an object is no integer/, 1),
      refused(`{"at": "yesterday, maybe", "needed": "x"}`, 'payload_undecodable', /column "at": /, 1),
      gateway.events(`name=${name}&flush=true`, good.repeat(3)),
      gateway.events(`name=${name}&flush=true`, good),
    ]);
    assert.deepEqual(
      answers.slice(5).map((it) => it?.json),
      [{ rows: 3 }, { rows: 1 }],
    );
    assert.deepEqual(await gateway.rows(`SELECT count(*) AS n FROM ${name}`), [{ n: 4 }]);
    const skipping = await gateway.events(
      `name=${name}&on_error=skip&flush=true`,
      `${good}{"id": "x", "needed": "y"}\nnot json\n${good}{"id": 5}\n${good}`,
    );
    assert.equal(skipping.json['rows'], 3, skipping.text);
    const { skipped } = skipping.json as unknown as { skipped: { line: number; error: string }[] };
    assert.deepEqual(
      skipped.map(({ line }) => line),
      [2, 3, 5],
    );
    assert.deepEqual(await gateway.rows(`SELECT count(*) AS n FROM ${name}`), [{ n: 7 }]);
  });

  test('RisingWave numerics that would be rounded are refused', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(`CREATE TABLE ${name} (n NUMERIC)`);
    const kept = [
      '1.5',
      '1e3',
      '0.0000000000000000000000000001',
      '79228162514264337593543950335',
      '100.50000000000000000000000000000000000',
    ];
    assert.equal(
      (await gateway.events(`name=${name}&flush=true`, kept.map((n) => `{"n": ${n}}`).join('\n'))).status,
      200,
    );
    for (const n of [
      '0.12345678901234567890123456789',
      '98765432109876543210.123456789',
      '1e-29',
      '"1.00000000000000000000000000001"',
    ]) {
      const { status, json } = await gateway.events(`name=${name}`, `{"n": ${n}}`);
      assert.deepEqual(
        [status, json.error],
        [422, 'line 1: column "n": numeric has 28 digits, and would round the value'],
        n,
      );
    }
  });

  test("an existing key in RisingWave is handled by the table's ON CONFLICT", async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const [overwrites, ignores, keyless] = [table(), table(), table()];
    await gateway.sql(`CREATE TABLE ${overwrites} (id INT PRIMARY KEY, v VARCHAR)`);
    await gateway.sql(`CREATE TABLE ${ignores} (id INT PRIMARY KEY, v VARCHAR) ON CONFLICT DO NOTHING`);
    await gateway.sql(`CREATE TABLE ${keyless} (id INT, v VARCHAR)`);
    const twice = ['{"id": 1, "v": "first"}', '{"id": 1, "v": "second"}'];
    const stored = async (query: string) => {
      for (const body of twice) {
        const { status, text } = await gateway.events(`${query}&flush=true`, body);
        assert.equal(status, 200, text);
      }
    };
    await stored(`name=${overwrites}`);
    await stored(`name=${overwrites}&on_conflict=update`);
    await stored(`name=${ignores}&on_conflict=ignore`);
    await stored(`name=${keyless}&on_conflict=error`);
    assert.deepEqual(await gateway.rows(`SELECT v FROM ${overwrites}`), [{ v: 'second' }]);
    assert.deepEqual(await gateway.rows(`SELECT v FROM ${ignores}`), [{ v: 'first' }]);
    assert.deepEqual(await gateway.rows(`SELECT count(*) AS n FROM ${keyless}`), [{ n: 2 }]);
    const codes = await Promise.all(
      [
        `${overwrites}&on_conflict=error`,
        `${overwrites}&on_conflict=ignore`,
        `${ignores}&on_conflict=update`,
        `${keyless}&on_conflict=update`,
      ].map(async (query) => (await gateway.events(`name=${query}`, '{"id": 1}')).json.code),
    );
    assert.deepEqual(codes, [
      'relation_not_writable',
      'relation_not_writable',
      'relation_not_writable',
      'key_missing',
    ]);
  });

  test('RisingWave defaults fill columns that all events of a request leave out, and others are refused', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(
      `CREATE TABLE ${name} (id INT, kind VARCHAR DEFAULT 'usual, as ever', n INT DEFAULT 7)`,
    );
    await gateway.events(`name=${name}&flush=true`, '{"id": 1}\n{"id": 2}');
    await gateway.events(`name=${name}&flush=true`, '{"id": 3, "kind": null}');
    assert.deepEqual(await gateway.rows(`SELECT id, kind, n FROM ${name} ORDER BY id`), [
      { id: 1, kind: 'usual, as ever', n: 7 },
      { id: 2, kind: 'usual, as ever', n: 7 },
      { id: 3, kind: null, n: 7 },
    ]);
    const mixed = await gateway.events(`name=${name}`, '{"id": 4}\n{"id": 5, "n": 1}');
    assert.deepEqual([mixed.status, mixed.json.code, mixed.json['line']], [422, 'row_refused', 2]);
  });

  test('RisingWave table names resolve as in SQL, and other relations are refused', async (t) => {
    const { gateway, client, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(`CREATE TABLE ${name} (id INT)`);
    await client.query(`CREATE VIEW ${name}_view AS SELECT 1 AS id`);
    t.after(() => client.query(`DROP VIEW ${name}_view`).catch(() => undefined));
    const upper = encodeURIComponent(`"${name}"`);
    for (const it of [name, `PUBLIC.${name.toUpperCase()}`, upper])
      assert.equal((await gateway.events(`name=${it}`, '{"id": 1}')).status, 200, it);
    const refused = [
      'nowhere',
      `nowhere.${name}`,
      'rw_catalog.rw_columns',
      "x'; drop table y; --",
      '"',
      'a.b.c.d',
      '1',
    ];
    for (const it of refused)
      assert.equal(
        (await gateway.events(`name=${encodeURIComponent(it)}`, '{"id": 1}')).json.code,
        'relation_not_found',
        it,
      );
    assert.equal((await gateway.events(`name=${name}_view`, '{"id": 1}')).json.code, 'relation_not_writable');
  });

  test('a RisingWave table recreated with other columns accepts the next events', async (t) => {
    const { gateway, client, table } = await openRisingWave(t);
    const name = table();
    await client.query(`CREATE TABLE ${name} (id INT)`);
    assert.equal((await gateway.events(`name=${name}`, '{"id": 1}')).status, 200);
    await client.query(`DROP TABLE ${name}`);
    await client.query(`CREATE TABLE ${name} (other VARCHAR)`);
    const { status, text } = await gateway.events(`name=${name}&flush=true`, '{"id": 1, "other": "x"}');
    assert.equal(status, 200, text);
    assert.deepEqual(await gateway.rows(`SELECT other FROM ${name}`), [{ other: 'x' }]);
  });

  test('RisingWave refuses large event bodies and streams', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(`CREATE TABLE ${name} (v VARCHAR)`);
    const line = `{"v": "${'x'.repeat(1_000)}"}\n`;
    const large = await gateway.events(`name=${name}`, line.repeat(1_200));
    assert.deepEqual([large.status, large.json.code], [413, 'body_too_large']);
    const small = await gateway.events(`name=${name}&flush=true`, line.repeat(1_000));
    assert.deepEqual(small.json, { rows: 1_000 });
    const stream = await fetch(`${gateway.url}/v1/events?name=${name}`);
    assert.equal(((await stream.json()) as { code: string }).code, 'relation_not_streamed');
  });

  test(
    'concurrent events requests into RisingWave share INSERTs, which wait for their checkpoint',
    { skip: onStandInOnly },
    async (t) => {
      const { gateway, standIn, table } = await openRisingWave(t, { checkpointMs: 200 });
      const name = table();
      await gateway.sql(`CREATE TABLE ${name} (id INT)`);
      standIn.said.splice(0);
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, id) => gateway.events(`name=${name}`, `{"id": ${id}}`)),
      );
      assert.ok(answers.every(({ status }) => status === 200));
      const inserts = standIn.said.filter(({ word }) => word === 'insert');
      assert.ok(inserts.length < 20, `${inserts.length} INSERTs`);
      assert.ok(inserts.every(({ persistent }) => persistent));
      assert.equal(standIn.said.filter(({ word }) => word === 'flush').length, 0);
      await Promise.all(
        Array.from({ length: 50 }, () => gateway.events(`name=${name}&flush=true`, '{"id": 0}')),
      );
      const flushes = standIn.said.filter(({ word }) => word === 'flush').length;
      assert.ok(flushes > 0 && flushes < 20, `${flushes} FLUSHes`);
      assert.ok(
        standIn.said.findLastIndex(({ word }) => word === 'flush') >
          standIn.said.findLastIndex(({ word }) => word === 'insert'),
      );
    },
  );

  test(
    'an INSERT into RisingWave with unknown outcome gives 503 and blames no row',
    { skip: onStandInOnly },
    async (t) => {
      const { gateway, standIn, table } = await openRisingWave(t);
      const name = table();
      await gateway.sql(`CREATE TABLE ${name} (id INT)`);
      const send = async () => {
        const { status, json } = await gateway.events(`name=${name}`, '{"id": 1}');
        return [status, json.code];
      };
      standIn.fault = ({ word }) => (word === 'insert' ? { kind: 'cut' } : null);
      assert.deepEqual(await send(), [503, 'commit_unknown']);
      standIn.fault = ({ word }) =>
        word === 'insert'
          ? { kind: 'fail', causes: ['Scheduler error', 'Task got killed because cluster is recovering'] }
          : null;
      assert.deepEqual(await send(), [503, 'commit_unknown']);
      // Nothing at all can be read: no row is at fault.
      standIn.fault = ({ word }) =>
        word === 'insert' || word === 'values'
          ? { kind: 'fail', causes: ['no available compute node'] }
          : null;
      assert.deepEqual(await send(), [503, 'commit_unknown']);
      standIn.fault = ({ word }) => (word === 'flush' ? { kind: 'fail', causes: ['no checkpoint'] } : null);
      const unread = await gateway.events(`name=${name}&flush=true`, '{"id": 1}');
      assert.deepEqual([unread.status, unread.json.code], [503, 'commit_unknown']);
      standIn.fault = () => null;
      await standIn.leave();
      // The one connection that there was may be found out to be lost only now.
      await send();
      assert.deepEqual(await send(), [503, 'engine_unavailable']);
      await standIn.listen();
      await within(5_000, async () => assert.deepEqual(await send(), [200, undefined]));
    },
  );
});
