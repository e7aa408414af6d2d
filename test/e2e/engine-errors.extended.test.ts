/** PostgreSQL's own words about a refused row: its owner reads them at every door, and no sender does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from 'pg';
import { run } from '../support/run.ts';
import { startHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

interface Kept {
  readonly id: string;
  readonly door: string;
  readonly reason: string;
  readonly engine_error: string | null;
}

async function kept(client: Client, table: string, count = 1): Promise<readonly Kept[]> {
  return within(10_000, async () => {
    const { rows } = await client.query<Kept>(
      'SELECT id, door, reason, engine_error FROM headgate.rejected_requests WHERE table_name = $1 ORDER BY id',
      [table],
    );
    assert.equal(rows.length, count);
    return rows;
  });
}

/** A table whose trigger runs `body`. */
const withTrigger = (name: string, body: string, options = '', columns = 'data JSONB'): string => `
  CREATE TABLE ${name} (${columns}) WITH (connector = 'webhook'${options});
  CREATE FUNCTION ${name}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} RETURN new; END $$;
  CREATE TRIGGER t BEFORE INSERT ON ${name} FOR EACH ROW EXECUTE FUNCTION ${name}_f()`;

/** The causes, and what PostgreSQL says of each when the owner inserts by hand. */
const causes = {
  raised: withTrigger(
    'raised',
    `RAISE EXCEPTION 'canary of customer 7' USING ERRCODE = '22023', DETAIL = 'canary detail';`,
  ),
  no_schema: withTrigger('no_schema', `PERFORM canary_jobs.add_job('x');`),
  no_right: withTrigger('no_right', `PERFORM canary_private.f();`),
  batched: withTrigger('batched', `RAISE EXCEPTION 'canary in a batch';`, `, is_batched = true`),
  form: withTrigger('form', `RAISE EXCEPTION 'canary in a form';`, `, format = 'form'`),
  typed: withTrigger('typed', `RAISE EXCEPTION 'canary of columns';`, '', 'id INT, note TEXT'),
  checked: `CREATE TABLE checked (data JSONB CHECK (data ? 'canary_member')) WITH (connector = 'webhook')`,
};

test("a table's owner reads the engine error of a refused request, and the sender does not", async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  await root.query(`CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; CREATE ROLE bob LOGIN;
    CREATE SCHEMA canary_private; CREATE FUNCTION canary_private.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`);
  const alice = await headgate.clientAs(t, 'alice');
  for (const [table, statement] of Object.entries(causes)) {
    await alice.query(statement);
    const body = table === 'form' ? 'a=1' : '{"id":1}';
    const answer = await headgate.post(`dev/public/${table}`, body);
    assert.equal(answer.status, 422, table);
    const [row] = await kept(alice, table);
    // The outside witness: the same row by SQL.
    const insert = table === 'typed' ? `(id) VALUES (1)` : `VALUES ('{"id":1}')`;
    const said = await alice.query(`INSERT INTO ${table} ${insert}`).then(
      () => assert.fail(),
      (error: unknown) => error as { code: string; message: string; where?: string },
    );
    const where = said.where === undefined ? '' : ` — ${said.where.split('\n')[0] ?? ''}`;
    assert.equal(row?.engine_error, `${said.code} ${said.message}${where}`);
    assert(!JSON.stringify([answer.text, answer.headers, row.reason]).includes('canary'), answer.text);
    assert(!row.engine_error.includes('detail'));
  }
  await t.test('an engine error over a WebSocket is reported like over HTTP', async () => {
    const client = await WsClient.open(
      `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/dev/public/typed`,
    );
    client.send(1, [{ op: 'insert', data: { id: 1 } }]);
    const { fatal } = await client.ended;
    assert.match(fatal ?? '', /the row does not fit/);
    const [, row] = await kept(alice, 'typed', 2);
    assert.deepEqual([row?.door, fatal?.includes('canary')], ['websocket', false]);
    assert.match(row?.engine_error ?? '', /^P0001 canary of columns — PL\/pgSQL function typed_f\(\)/);
  });
  await t.test('a retry that fails replaces the recorded engine error', async () => {
    await alice.query(
      `CREATE OR REPLACE FUNCTION raised_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'canary two'; END $$`,
    );
    const [refused] = await kept(alice, 'raised');
    await alice.query('SELECT headgate.retry_rejected($1)', [refused?.id]);
    await within(10_000, async () => {
      const [row] = await kept(alice, 'raised');
      assert.match(row?.engine_error ?? '', /^P0001 canary two/);
    });
  });
  await t.test('details of an engine error are hidden from other roles and from the log', async () => {
    const bob = await headgate.clientAs(t, 'bob');
    assert.deepEqual(await kept(bob, 'raised', 0), []);
    assert(!headgate.stderr.includes('canary'));
  });
  await t.test('headgate explain prints the engine error of a refused request', async () => {
    const cli = new URL('../../src/app/cli.js', import.meta.url).pathname;
    const { stdout } = await run(process.execPath, [cli, 'explain', '--data-dir', headgate.dataDir]);
    assert.match(stdout, /PostgreSQL: \S{5} /);
  });
  await t.test('a long engine error is cut at 2 KiB, between two characters', async () => {
    await alice.query(withTrigger('long', `RAISE EXCEPTION '%', repeat('ä', 5000);`));
    await headgate.post('dev/public/long', '{}');
    const [row] = await kept(alice, 'long');
    assert.equal(row?.engine_error, `P0001 ${'ä'.repeat((2_048 - 6) / 2)}`);
  });
});
