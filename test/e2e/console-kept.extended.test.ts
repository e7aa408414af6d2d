/** What of refused requests is kept, and what a retry does: the console says it before somebody relies on it. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { listReplacing } from '../../src/console/retry-statements.ts';
import { digitsText } from '../../src/console/visible-text.ts';
import { openConsole } from '../support/console.ts';
import { serious } from '../support/console-walk.ts';
import { startHeadgate } from '../support/headgate.ts';
import { requireBrowser } from '../support/tools.ts';
import { within } from '../support/within.ts';

const webhook = `WITH (connector = 'webhook')`;
const kinds = [
  `CREATE TABLE t0 (id INT PRIMARY KEY, v TEXT) ${webhook}`,
  `CREATE TABLE t1 (data JSONB, id INT GENERATED ALWAYS AS ((data ->> 'id')::int) STORED PRIMARY KEY) ${webhook}`,
  `CREATE TABLE t2 (id BIGSERIAL PRIMARY KEY, data JSONB) ${webhook}`,
  `CREATE TABLE t3 (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v TEXT) ${webhook}`,
  `CREATE TABLE t4 (id INT, v TEXT) ${webhook}`,
  `CREATE TABLE t5 (id INT PRIMARY KEY, v TEXT, n INT) WITH (connector = 'webhook', version = 'n')`,
  `CREATE TABLE t6 (data JSONB, PRIMARY KEY (id)) INCLUDE HEADER 'x-id' AS id ${webhook}`,
  `CREATE TABLE t7 (id INT, v TEXT, part INT, PRIMARY KEY (id, part)) PARTITION BY LIST (part) ${webhook}; CREATE TABLE t7_1 PARTITION OF t7 DEFAULT`,
  `CREATE TABLE t8 (id INT UNIQUE, v TEXT) ${webhook}`,
  `CREATE TABLE t9 (id SERIAL PRIMARY KEY, v TEXT) ${webhook}`,
] as const;

suite('the console says what is kept of refused requests, and what a retry replaces', () => {
  test('tables of which the console says that a retry replaces newer rows are those whose later row of a key stays', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    for (const sql of kinds) await client.query(sql);
    const replaced: string[] = [];
    for (const i of kinds.keys()) {
      const send = (v: string, n: number) =>
        headgate.post(`dev/public/t${i}`, JSON.stringify({ id: 7, v, n, part: 1 }), { 'x-id': '7' });
      assert.equal((await send('newer', 2)).status, 200, kinds[i]);
      const { status } = await send('older', 1);
      const { rows } = await client.query<{ text: string }>(`SELECT t::text AS text FROM t${i} t`);
      if (status === 200 && rows.length === 1 && rows[0]?.text.includes('older') === true)
        replaced.push(`t${i}`);
    }
    const { rows } = await client.query<{ relname: string }>(listReplacing('true').replace('LIMIT 6', ''));
    assert.deepEqual(
      rows.map(({ relname }) => relname),
      replaced,
    );
    assert.deepEqual(replaced, ['t0', 't1', 't6', 't7']);
  });

  test('a retry in the console says before that it replaces a newer row, of one request and of all', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE orders (id INT PRIMARY KEY, address VARCHAR(12)) ${webhook};
      CREATE TABLE plain (n SMALLINT) ${webhook}`);
    const old = '{"id":8,"address":"the old address"}';
    assert.equal((await headgate.post('dev/public/orders', old)).status, 422);
    assert.equal((await headgate.post('dev/public/plain', '{"n":70000}')).status, 422);
    assert.equal((await headgate.post('dev/public/orders', '{"id":8,"address":"NEW"}')).status, 200);
    await client.query('ALTER TABLE orders ALTER address TYPE TEXT; ALTER TABLE plain ALTER n TYPE INT');
    let ids: string[] = [];
    await within(10_000, async () => {
      const { rows } = await client.query<{ id: string }>(
        'SELECT id FROM headgate.rejected_requests ORDER BY id',
      );
      ids = rows.map(({ id }) => id);
      assert.equal(ids.length, 2);
    });
    const { page, complaints } = await openConsole(t, headgate, chromium);
    for (const [table, twice] of [
      ['orders', 'replaces the row of its key, id'],
      ['plain', 'stored again'],
    ] as const) {
      await page.goto(`${headgate.adminUrl}/console/#/dev/endpoint/public/${table}`);
      await page.locator('.facts div', { hasText: 'A delivery sent twice' }).getByText(twice).waitFor();
    }
    const place = `${headgate.adminUrl}/console/#/dev/requests`;
    const warning = page.getByText(
      /it replaces the row of the same key, also one that came later: orders \(id\)/,
    );
    await page.goto(`${place}/r${ids[1]}`);
    await page.getByRole('button', { name: 'Retry', exact: true }).waitFor();
    await page.getByText('Then retry it here.').waitFor();
    assert.equal(await warning.count(), 0);
    await page.goto(`${place}/r${ids[0]}`);
    await warning.waitFor();
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), width);
    }
    // Of a table in which rows are only added, it is asked for at once; otherwise after a question.
    await page.goto(`${place}?result=refused&schema=public&table=orders`);
    await page.getByLabel('Select all that are shown').check();
    await page
      .getByRole('region', { name: 'Selected requests' })
      .getByRole('button', { name: 'Retry', exact: true })
      .click();
    await warning.waitFor();
    const { rows: before } = await client.query('SELECT address FROM orders');
    assert.deepEqual(before, [{ address: 'NEW' }]);
    assert.deepEqual(await serious(page), []);
    await page.getByRole('button', { name: 'Retry 1', exact: true }).click();
    await within(10_000, async () => {
      const { rows } = await client.query('SELECT address FROM orders');
      assert.deepEqual(rows, [{ address: 'the old address' }]);
    });
    // It is stored: a second retry is not offered.
    await page.goto(`${place}/r${ids[0]}`);
    await page.getByText('Retried: committed').first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'Retry', exact: true }).count(), 0);
    await page.goto(`${place}?result=refused&schema=public&table=plain`);
    await page.getByLabel('Select all that are shown').check();
    await page
      .getByRole('region', { name: 'Selected requests' })
      .getByRole('button', { name: 'Retry', exact: true })
      .click();
    await within(10_000, async () => {
      assert.deepEqual((await client.query('SELECT n FROM plain')).rows, [{ n: 70_000 }]);
    });
    assert.deepEqual(complaints, []);
  });

  test('the console says of how many refused requests as many are kept, and offers only those', async (t) => {
    const chromium = requireBrowser(t);
    if (chromium === null) return;
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE burst (must TEXT NOT NULL) ${webhook}`);
    const sent = 1_600;
    for (let i = 0; i < sent; i += 50)
      await Promise.all(
        Array.from({ length: 50 }, async (_, j) =>
          assert.equal((await headgate.post('dev/public/burst', `{"must":null,"n":${i + j}}`)).status, 422),
        ),
      );
    const { page, complaints } = await openConsole(t, headgate, chromium);
    const place = `${headgate.adminUrl}/console/#/dev`;
    await page.goto(`${place}/requests?result=refused&schema=public&table=burst`);
    // Counted by the database every 15 s.
    const says = page.getByText(
      /^[\d\s]+ of 1\s600 requests that were refused in the last 7 days are kept\.$/,
    );
    await says.waitFor({ timeout: 60_000 });
    const { rows } = await client.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM headgate.rejected_requests',
    );
    const kept = rows[0]?.n ?? 0;
    assert(kept >= 500 && kept < sent, `${kept}`);
    assert.match(await says.innerText(), new RegExp(`^${digitsText(String(kept))} of `));
    await says.click();
    await page
      .getByText(/1,000 that passed its check and 100 others are kept at once/)
      .first()
      .waitFor();
    const lines = page.locator('.lines .line');
    await within(15_000, async () => {
      const lost = lines.filter({ hasText: 'not kept ·' });
      assert((await lost.count()) > 0);
      assert.equal(await lost.locator('input').count(), 0);
      assert.equal(
        await lines
          .filter({ hasNotText: 'not kept ·' })
          .filter({ hasNot: page.locator('input') })
          .count(),
        0,
      );
    });
    await page.getByLabel('Select all that are shown').check();
    await page.getByRole('button', { name: `Select all ${kept} that match` }).waitFor();
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), width);
    }
    assert.deepEqual(await serious(page), []);
    // A line of which nothing is kept says why, and promises no retry.
    await lines.filter({ hasText: 'not kept ·' }).first().click();
    await page
      .getByText(/Only its line is known: of the requests that a table refuses 1,000 that passed/)
      .waitFor();
    await page.getByRole('link', { name: 'Explain', exact: true }).click();
    await page.getByText('Then let its sender send it again.').waitFor();
    assert.equal(await page.getByText('Then retry it here.').count(), 0);
    for (const other of ['/endpoint/public/burst/refused', '/']) {
      await page.goto(`${place}${other}`);
      await says.waitFor();
    }
    assert.deepEqual(complaints, []);
  });
});
