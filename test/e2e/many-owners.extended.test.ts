/** The first rows of many owners arrive at one time, as after a restart of the service that sends to all of them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { sampleOf } from '../support/sample.ts';

const owners = 24;

suite('first rows of many owners at one time are stored', () => {
  for (const listeners of sampleOf(['1', '3'], 1))
    test(`the first rows of many simultaneous owners are stored at the first attempt (listener processes: ${listeners})`, async (t) => {
      const headgate = await startHeadgate(t, { env: { HEADGATE_LISTENERS: listeners } });
      const root = await headgate.client(t);
      for (let i = 0; i < owners; i++)
        await root.query(
          `CREATE ROLE owner_${i}; CREATE SCHEMA s${i} AUTHORIZATION owner_${i};
           CREATE TABLE s${i}.t (id INT) WITH (connector = 'webhook'); ALTER TABLE s${i}.t OWNER TO owner_${i}`,
        );
      // On a server whose statements take long, transactions that grant rights meet each other every time.
      await root.query(`CREATE FUNCTION public.slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); END';
        CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('GRANT') EXECUTE FUNCTION public.slow()`);
      const answers = await Promise.all(
        Array.from({ length: owners }, (_, i) => headgate.post(`dev/s${i}/t`, `{"id":${i}}`)),
      );
      assert.deepEqual(
        new Set(answers.map(({ status, text }) => `${status} ${text}`)),
        new Set(['200 {"rows":1}']),
      );
      const stored = Array.from({ length: owners }, (_, i) => `SELECT id FROM s${i}.t`).join(' UNION ALL ');
      const { rows } = await root.query(`SELECT count(DISTINCT id)::int AS n FROM (${stored}) AS s`);
      assert.deepEqual(rows, [{ n: owners }]);
    });
});
