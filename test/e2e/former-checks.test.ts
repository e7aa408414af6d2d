/** A table that USING made before an entry was changed: it keeps its check, and says so. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';

const before = JSON.parse(
  readFileSync(new URL('../../../test/former-checks.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;

test('a table of before keeps its check through SHOW CREATE TABLE and CREATE TABLE IF NOT EXISTS, each says so, and ALTER TABLE gives it the present one', async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const notices: string[] = [];
  client.on('notice', ({ message = '' }) => notices.push(message));
  await client.query(`CREATE SECRET lin WITH (backend = 'meta') AS 'signing secret'`);
  const text = (before['linear'] ?? assert.fail()).replaceAll(':secret', 'lin');
  await client.query(
    `CREATE TABLE issues (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin AS ${text}`,
  );
  const post = async (ageMs: number) => {
    const body = JSON.stringify({ type: 'Issue', webhookTimestamp: Date.now() - ageMs });
    const signature = createHmac('sha256', 'signing secret').update(body).digest('hex');
    const answer = await headgate.post('dev/public/issues', body, { 'Linear-Signature': signature });
    return answer.status;
  };
  assert.deepEqual([await post(0), await post(3_600_000)], [200, 401]);
  const shown = async () => {
    const { rows } = await client.query<{ 'Create Sql': string }>('SHOW CREATE TABLE issues');
    return rows[0]?.['Create Sql'] ?? '';
  };
  const isSaid = /USING linear stood for another check until .*a signature is valid for 8 hours/;
  notices.length = 0;
  assert(squeezed(await shown()).includes(squeezed(text)));
  assert.match(notices.join('\n'), /^table "issues" keeps a former check of its sender: /);
  assert.match(notices.splice(0).join('\n'), isSaid);

  await client.query(
    `CREATE TABLE IF NOT EXISTS issues (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin USING linear`,
  );
  assert.match(notices.join('\n'), /table "issues" keeps the check that it has; /);
  assert.match(notices.splice(0).join('\n'), isSaid);
  assert.equal(await post(3_600_000), 401);

  await client.query('ALTER TABLE issues VALIDATE SECRET lin USING linear');
  assert.match(notices.splice(0).join('\n'), isSaid);
  assert.deepEqual([await post(0), await post(3_600_000), await post(9 * 3_600_000)], [200, 200, 401]);
  assert(squeezed(await shown()).includes('28800000'));
  await client.query('ALTER TABLE issues VALIDATE SECRET lin USING linear');
  assert.deepEqual(notices, []);

  // Whoever begins now has nothing to learn of before.
  await client.query(
    `CREATE TABLE more (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin USING linear`,
  );
  assert.deepEqual(notices, []);
});

const squeezed = (text: string) => text.replaceAll(/\s+/g, ' ');
