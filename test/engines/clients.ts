/** Clients of other languages at the SQL port, and a webhook into the table that each has made. `npm run test:engines` fetches them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const file = (name: string) =>
  fileURLToPath(new URL(`../../../test/engines/clients/${name}`, import.meta.url));
const { HEADGATE_ENGINES_PYTHON, HEADGATE_ENGINES_JDBC, HEADGATE_ENGINES_PGX } = process.env;

interface Client {
  readonly name: string;
  readonly tables: readonly string[];
  /** Program and arguments. */
  readonly command: (at: string) => readonly string[];
}

const python = (driver: string): readonly Client[] =>
  HEADGATE_ENGINES_PYTHON === undefined
    ? []
    : [
        {
          name: driver,
          tables: [`of_${driver}`],
          command: (at) => [HEADGATE_ENGINES_PYTHON, file('clients.py'), driver, `postgresql://root@${at}`],
        },
      ];
const modes = ['simple', 'extended', 'extendedforprepared', 'extendedcacheeverything'];
const clients: readonly Client[] = [
  ...['psycopg2', 'psycopg', 'asyncpg', 'sqlalchemy'].flatMap(python),
  ...(HEADGATE_ENGINES_JDBC === undefined
    ? []
    : [
        {
          name: 'JDBC',
          tables: modes.map((mode) => `of_jdbc_${mode}`),
          command: (at: string) => ['java', '-cp', HEADGATE_ENGINES_JDBC, file('Clients.java'), at, 'root'],
        },
      ]),
  ...(HEADGATE_ENGINES_PGX === undefined
    ? []
    : [
        {
          name: 'pgx',
          tables: ['of_pgx'],
          command: (at: string) => [HEADGATE_ENGINES_PGX, `postgresql://root@${at}`],
        },
      ]),
];

test('clients of other languages', async (t) => {
  const headgate = await startHeadgate(t);
  for (const { name, tables, command } of clients)
    await t.test(name, async () => {
      const [program = '', ...args] = command(`127.0.0.1:${headgate.ports.sql.port}/dev`);
      const { code, stderr } = await run(program, args);
      assert.equal(code, 0, stderr);
      for (const table of tables)
        assert.equal(
          (await headgate.post(`dev/public/${table}`, '{"id":5000,"v":"sent"}')).status,
          200,
          table,
        );
    });
});
