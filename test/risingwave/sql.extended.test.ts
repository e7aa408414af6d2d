/** POST /v1/sql in front of RisingWave, and what is not promised there. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { onStandInOnly, openRisingWave } from './support.ts';

suite('/v1/sql works with RisingWave', () => {
  test('RisingWave SQL results look like those of PostgreSQL', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    const made = await gateway.sql(
      `CREATE TABLE ${name} (id BIGINT, s STRING, big RW_INT256, tags MAP(VARCHAR, INT), list INT[], b BOOLEAN, doc JSONB)`,
    );
    assert.deepEqual([made.status, made.json['command']], [200, 'CREATE TABLE'], made.text);
    assert.equal((await fetch(`${gateway.url}/v1/healthz`)).status, 200);
    const { json } = await gateway.sql(
      `INSERT INTO ${name} (id, s, big, b) VALUES (12345678901234567, 'é', '5'::rw_int256, true)`,
    );
    assert.equal(json['rowsAffected'], 1);
    await gateway.sql('FLUSH');
    const { text } = await gateway.sql(`SELECT id, s, s, big, list, b, doc FROM ${name}`);
    assert.match(
      text,
      /"rows":\[\{"id":12345678901234567,"s":"é","s_2":"é","big":5,"list":null,"b":true,"doc":null\}\]/,
    );
    assert.match(text, /"name":"big","type":"rw_int256"/);
    const bound = await gateway.sql(
      `{"sql": "SELECT s FROM ${name} WHERE id = $1", "params": [12345678901234567]}`,
    );
    assert.deepEqual(bound.json['rows'], [{ s: 'é' }]);
    const [{ version } = {}] = await gateway.rows('SELECT version()');
    assert.match(String(version), /-RisingWave-/);
  });

  test('RisingWave SQL leaves nothing of one request for the next', async (t) => {
    const { gateway } = await openRisingWave(t);
    await gateway.sql("SET timezone = 'Asia/Tokyo'");
    const shown = await gateway.rows("SELECT current_setting('timezone') AS zone");
    assert.equal(shown.length, 1);
    assert.notEqual(shown[0]?.['zone'], 'Asia/Tokyo');
  });

  test('RisingWave SQL reports that statements are not one transaction', async (t) => {
    const { gateway, table } = await openRisingWave(t);
    const name = table();
    await gateway.sql(`CREATE TABLE ${name} (id INT)`);
    const both = await gateway.sql(`INSERT INTO ${name} VALUES (1); INSERT INTO ${name} VALUES (2)`);
    assert.deepEqual(
      (both.json['notices'] as { message: string }[]).map(({ message }) => message),
      ['each statement was committed by itself: RisingWave has no transactions'],
    );
    const failed = await gateway.sql(`BEGIN; INSERT INTO ${name} VALUES (3); SELECT nonsense; COMMIT`);
    assert.equal(failed.status, 400);
    assert.match(failed.json.error ?? '', /^Failed to run the query/);
    assert.equal(
      failed.json['hint'],
      '2 statements before it were committed by themselves: RisingWave has no transactions.',
    );
    await gateway.sql('FLUSH');
    assert.deepEqual(await gateway.rows(`SELECT count(*) AS n FROM ${name}`), [{ n: 3 }]);
  });

  test('SQL with more parameters than RisingWave supports is refused', async (t) => {
    const { gateway } = await openRisingWave(t);
    const params = Array.from({ length: 32_768 }, () => 1);
    const { status, json } = await gateway.sql(JSON.stringify({ sql: 'SELECT $1::int', params }));
    assert.deepEqual([status, json.error], [400, 'a statement has at most 32767 parameters here']);
  });

  test('COPY from a client is refused before RisingWave gets it', async (t) => {
    const { gateway } = await openRisingWave(t);
    const { status, json } = await gateway.sql('COPY x FROM STDIN');
    assert.deepEqual([status, json.code], [400, '0A000']);
  });

  test(
    'a running SQL statement of RisingWave is cancelled when its HTTP client leaves',
    { skip: onStandInOnly },
    async (t) => {
      const { gateway, client } = await openRisingWave(t);
      const leaving = new AbortController();
      const asked = gateway.sql('SELECT pg_sleep(60)', '/v1/sql', { signal: leaving.signal });
      const running = async () => {
        const { rows } = await client.query(
          "select 1 from pg_stat_activity where query = 'SELECT pg_sleep(60)' and state = 'active' limit 1",
        );
        return rows.length === 1;
      };
      while (!(await running()));
      leaving.abort();
      await assert.rejects(asked);
      while (await running());
    },
  );
});
