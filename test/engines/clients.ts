/** Clients of other languages at the SQL port, and a webhook into the table that each has made. `npm run test:engines` fetches them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const file = (name: string) =>
  fileURLToPath(new URL(`../../../test/engines/clients/${name}`, import.meta.url));
const {
  HEADGATE_ENGINES_PYTHON,
  HEADGATE_ENGINES_JDBC,
  HEADGATE_ENGINES_PGX,
  HEADGATE_ENGINES_PQ,
  HEADGATE_ENGINES_RUST,
} = process.env;
/** Asked for by SCRAM-SHA-256. */
const password = 'for clients';

interface Client {
  readonly name: string;
  readonly tables: readonly string[];
  /** Program and arguments. */
  readonly command: (at: string) => readonly string[];
}

/** One that is a program and takes a DSN; nothing without the program. */
const taking = (program: string | undefined, name: string, ...args: readonly string[]): readonly Client[] =>
  program === undefined
    ? []
    : [
        {
          name,
          tables: [`of_${name.replace('-', '_')}`],
          command: (at) => [program, ...args, `postgresql://root:${encodeURIComponent(password)}@${at}`],
        },
      ];
const python = (driver: string) => taking(HEADGATE_ENGINES_PYTHON, driver, file('clients.py'), driver);
const modes = ['simple', 'extended', 'extendedforprepared', 'extendedcacheeverything'];
const clients: readonly Client[] = [
  ...['psycopg2', 'psycopg', 'asyncpg', 'sqlalchemy'].flatMap(python),
  ...(HEADGATE_ENGINES_JDBC === undefined
    ? []
    : [
        {
          name: 'JDBC',
          tables: modes.map((mode) => `of_jdbc_${mode}`),
          command: (at: string) => [
            'java',
            '-cp',
            HEADGATE_ENGINES_JDBC,
            file('Clients.java'),
            at,
            'root',
            password,
          ],
        },
      ]),
  ...taking(HEADGATE_ENGINES_PGX, 'pgx'),
  ...taking(HEADGATE_ENGINES_PQ, 'pq'),
  ...['tokio-postgres', 'sqlx'].flatMap((driver) => taking(HEADGATE_ENGINES_RUST, driver, driver)),
];

test('PostgreSQL clients of other languages work through the SQL port', async (t) => {
  const headgate = await startHeadgate(t, { env: { HEADGATE_SQL_PASSWORD: password } });
  for (const { name, tables, command } of clients)
    await t.test(`the client ${name} creates tables and inserts rows through the SQL port`, async () => {
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
