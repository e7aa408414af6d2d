/** What the pages of the console ask of the engine is bounded, for a role with many endpoints: by PostgreSQL's own count. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { routes } from '../../src/console/routes.ts';
import { openBrowser, openPage } from '../support/console.ts';
import { addressesOf, costsOf, countingSettings } from '../support/console-costs.ts';
import { startHeadgate } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf } from '../support/sample.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** More than a page of any list. */
const tables = 120;
const refused = 150;
/** A list has 100 lines, or 50 endpoints with a statement for their day; menus have their first entries. */
const rowsMax = 450;
/** The SQL port asks for the role's rights before each. */
const statementsMax = 30;

suite("the console's pages cost a bounded amount of work", () => {
  test('each page of the console costs the engine a bounded number of statements and rows', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const server = await MortalServer.start(t, countingSettings);
    const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
    const client = await headgate.client(t, 'postgres');
    await client.query(
      'CREATE EXTENSION pg_stat_statements; CREATE ROLE looker LOGIN; GRANT CREATE ON SCHEMA public TO looker',
    );
    const owner = await headgate.clientAs(t, 'looker', 'postgres');
    await owner.query('BEGIN');
    for (let i = 0; i < tables; i++)
      await owner.query(`CREATE TABLE t_${i} (n SMALLINT) WITH (connector = 'webhook')`);
    await owner.query('COMMIT');
    for (let i = 0; i < refused; i++)
      assert.equal((await headgate.post('postgres/public/t_0', `{"n":${70_000 + i}}`)).status, 422);
    let id = '';
    await within(20_000, async () => {
      const { rows } = await client.query<{ id: string; all: number }>(
        'SELECT max(id)::text AS id, count(*)::int AS all FROM headgate.rejected_requests',
      );
      assert.equal(rows[0]?.all, refused);
      id = rows[0].id;
    });
    const { page, complaints } = await openPage(await openBrowser(t, chromium, 'attacker.example'));
    await page.goto(`${headgate.adminUrl}/console/`);
    await page.getByLabel('Role').fill('looker');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const stats = await server.connect(t);
    const some = sampleOf(routes, 4);
    const base = `${headgate.adminUrl}/console/#/postgres`;
    for (const { route, opening } of await costsOf(
      page,
      base,
      stats,
      'looker',
      addressesOf('t_0', id),
      0,
      some,
    )) {
      t.diagnostic(`${route === '' ? 'overview' : route}: ${JSON.stringify(opening)}`);
      assert(opening.statements > 0, route);
      assert(opening.statements <= statementsMax, `${route}: ${opening.statements} statements`);
      assert(opening.rows <= rowsMax, `${route}: ${opening.rows} rows`);
    }
    assert.deepEqual(complaints, []);
  });
});
