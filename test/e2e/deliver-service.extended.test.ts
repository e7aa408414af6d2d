/** Rows that `headgate start` sends on by itself (HEADGATE_DELIVER): several tables, their owners' rights, stops, failures, metrics. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { run } from '../support/run.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const secret = `whsec_${Buffer.from('a secret of thirty-two bytes ...').toString('base64')}`;

/** Judges each request, and answers it with what `answers` says of its path; counts them by path and id. */
async function receiver(t: TestContext) {
  const webhook = new Webhook(secret);
  const answers = new Map<string, number>();
  const taken = new Map<string, Map<string, unknown>>();
  const asked = new Map<string, number>();
  const host = await startReceiver(t, (request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (part: string) => (text += part));
    request.on('end', () => {
      const path = request.url ?? '';
      const headers = request.headers as Record<string, string>;
      const data = webhook.verify(text, headers);
      asked.set(path, (asked.get(path) ?? 0) + 1);
      const status = answers.get(path) ?? 200;
      if (status === 200) {
        const rows = taken.get(path) ?? new Map<string, unknown>();
        taken.set(path, rows.set(headers['webhook-id'] ?? '', data));
      }
      if (status > 0) response.writeHead(status).end();
    });
  });
  return { host, answers, taken: (path: string) => taken.get(path)?.size ?? 0, asked };
}

async function planFile(t: TestContext, entries: readonly object[]): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'secret'), `${secret}\n`);
  await writeFile(join(folder, 'deliver.json'), JSON.stringify(entries));
  return join(folder, 'deliver.json');
}

const tableOf = async (name: string) =>
  (await commandsOf('docs/workers.md', 'table')).replaceAll('orders', name);

test(
  'headgate start delivers the rows of several tables as their owners and counts them in metrics',
  { timeout: 180_000 },
  async (t) => {
    const to = await receiver(t);
    const file = await planFile(t, [
      { table: 'orders', to: `http://${to.host}/orders`, secretFile: 'secret' },
      {
        table: 'public.calls',
        to: `http://${to.host}/calls`,
        secretFile: 'secret',
        key: 'id',
        concurrency: 2,
        attempts: 1,
      },
      { table: 'strange', to: `http://${to.host}/strange`, secretFile: 'secret' },
      { table: 'missing', to: `http://${to.host}/missing`, secretFile: 'secret' },
    ]);
    const env = { HEADGATE_DELIVER: file, HEADGATE_DELIVER_HOSTS: to.host };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    const logged = (line: RegExp) => within(60_000, async () => assert.match(headgate.stderr, line));
    const metric = async (name: string, table: string): Promise<number | null> => {
      const text = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
      const line = text
        .split('\n')
        .find((it) => it.startsWith(`${name}{`) && it.includes(`table="${table}"`));
      return line === undefined ? null : Number(line.split(' ').at(-1));
    };
    await root.query(
      'CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop; CREATE TABLE who (role TEXT, super TEXT); GRANT INSERT ON who TO PUBLIC',
    );
    const shop = await headgate.clientAs(t, 'shop');
    await shop.query(await tableOf('orders'));
    // A trigger of the owner runs at each change of a row: with the owner's rights, whoever sends rows on.
    await shop.query(`CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO public.who VALUES (current_user, current_setting('is_superuser')); RETURN NEW; END $$;
    CREATE TRIGGER spy BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION spy()`);
    await root.query(await tableOf('calls'));
    await root.query(`CREATE TABLE strange (id VARCHAR PRIMARY KEY, data JSONB, done_at TIMESTAMPTZ, attempts INT NOT NULL DEFAULT 0,
    run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT)`);
    await root.query(`INSERT INTO strange VALUES ('a', '{}')`);

    await t.test(
      "headgate start delivers each row, and marks it in a session of the table's owner",
      async () => {
        for (let n = 0; n < 20; n++)
          assert.equal((await headgate.post('dev/public/orders', `{"n":${n}}`)).status, 200);
        await headgate.post('dev/public/calls', '{"n":1}');
        await within(60_000, async () =>
          assert.deepEqual([to.taken('/orders'), to.taken('/calls')], [20, 1]),
        );
        await within(20_000, async () => {
          const { rows } = await root.query('SELECT count(*)::int AS n FROM orders WHERE done_at IS NULL');
          assert.deepEqual(rows, [{ n: 0 }]);
        });
        assert.deepEqual((await root.query('SELECT DISTINCT role, super FROM who')).rows, [
          { role: 'shop', super: 'off' },
        ]);
        assert.equal(await metric('headgate_deliver_attempts_total', 'orders'), 20);
      },
    );

    await t.test(
      'deliver metrics show a dead row, a failing receiver, and one that ended by 410',
      async () => {
        to.answers.set('/calls', 500).set('/orders', 503);
        await headgate.post('dev/public/calls', '{"n":2}');
        for (let n = 0; n < 8; n++) await headgate.post('dev/public/orders', `{"n":${n}}`);
        await within(60_000, async () => {
          assert.equal(await metric('headgate_deliver_working', 'orders'), 0);
          assert.equal(await metric('headgate_deliver_dead_rows', 'calls'), 1);
          assert.ok(((await metric('headgate_deliver_open_rows', 'orders')) ?? 0) >= 8);
          assert.ok(((await metric('headgate_deliver_oldest_seconds', 'orders')) ?? 0) > 0);
        });
        to.answers.set('/orders', 200).set('/calls', 410);
        await root.query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
        await within(60_000, async () => {
          await root.query(
            'UPDATE orders SET run_after = now() WHERE done_at IS NULL AND last_error IS NOT NULL AND run_after > now()',
          );
          assert.equal(to.taken('/orders'), 28);
          assert.equal(await metric('headgate_deliver_working', 'orders'), 1);
        });
        await headgate.post('dev/public/calls', '{"n":3}');
        await within(60_000, async () => assert.equal(await metric('headgate_deliver_working', 'calls'), 0));
        await logged(/"ended":true[^\n]*"delivery\.down"/);
        const asked = to.asked.get('/calls');
        await headgate.post('dev/public/calls', '{"n":4}');
        await headgate.post('dev/public/orders', '{"n":99}');
        await within(60_000, async () => assert.equal(to.taken('/orders'), 29));
        assert.equal(to.asked.get('/calls'), asked, 'nobody who wants no more is asked again');
      },
    );

    await t.test(
      'the log names a table whose rows cannot be delivered, and none of them is sent',
      async () => {
        await logged(/missing"[^\n]*does not exist[^\n]*"delivery\.failed"/);
        await logged(/strange"[^\n]*has no operators[^\n]*"delivery\.failed"/);
        assert.equal(to.asked.get('/strange'), undefined);
      },
    );

    await t.test(
      'headgate start stops cleanly during a delivery, and the next start repeats it',
      async () => {
        // The receiver takes the request and says nothing.
        to.answers.set('/orders', 0);
        await headgate.post('dev/public/orders', '{"n":100}');
        const before = to.asked.get('/orders') ?? 0;
        await within(60_000, async () => assert.ok((to.asked.get('/orders') ?? 0) > before));
        const { code } = await headgate.signal('SIGTERM');
        assert.equal(code, 0);
        to.answers.set('/orders', 200);
        const again = await startHeadgate(t, { env, dataDir: headgate.dataDir });
        await (await again.client(t)).query('UPDATE orders SET run_after = now() WHERE done_at IS NULL');
        await within(60_000, async () => assert.equal(to.taken('/orders'), 30));
      },
    );
  },
);

test('an invalid file of HEADGATE_DELIVER is refused with a reason', async (t) => {
  const good = { table: 'orders', to: 'http://127.0.0.1:3000/', secretFile: 'secret' };
  const cases: readonly [entries: readonly object[], says: RegExp][] = [
    [
      [{ ...good, to: 'http://127.0.0.1:3001/' }],
      /entry 1: HEADGATE_DELIVER_HOSTS does not list 127\.0\.0\.1:3001/,
    ],
    [[good, { ...good, table: 'calls', secretFile: 'none' }], /entry 2: none cannot be read: ENOENT/],
    [[{ ...good, headers: {} }], /there is no "headers"/],
    [[{ ...good, concurrency: 101 }], /concurrency is no whole number from 1 to 100/],
    [[{ to: good.to, secretFile: 'secret' }], /table is missing/],
    [[good, good], /has a table twice/],
  ];
  for (const [entries, says] of cases) {
    const file = await planFile(t, entries);
    const env = { ...process.env, HEADGATE_DELIVER: file, HEADGATE_DELIVER_HOSTS: '127.0.0.1:3000' };
    const { code, stderr, stdout } = await run(
      process.execPath,
      [cli, 'config', '--data-dir', join(file, '..', 'data')],
      { env },
    );
    assert.notEqual(code, 0, stdout);
    assert.match(`${stdout}${stderr}`, says);
  }
});

test("deliver runs code of a table's new owner with that owner's rights only", async (t) => {
  const to = await receiver(t);
  const entry = (table: string) => ({ table, to: `http://${to.host}/${table}`, secretFile: 'secret' });
  const file = await planFile(t, ['public.given', 'deal.moved', 'public.pathed'].map(entry));
  const env = { HEADGATE_DELIVER: file, HEADGATE_DELIVER_HOSTS: to.host };
  const headgate = await startHeadgate(t, { env });
  const root = await headgate.client(t);
  await root.query(`CREATE ROLE mallory LOGIN; CREATE SCHEMA deal AUTHORIZATION mallory; CREATE SCHEMA mal AUTHORIZATION mallory;
    GRANT CREATE ON DATABASE dev TO mallory; SET ROLE mallory; CREATE TABLE mal.seen (who text, won text);
    CREATE FUNCTION mal.evil() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
      EXECUTE 'ALTER ROLE mallory SUPERUSER'; INSERT INTO mal.seen VALUES (current_user, 'all');
    EXCEPTION WHEN insufficient_privilege THEN INSERT INTO mal.seen VALUES (current_user, 'nothing'); END $$;
    CREATE FUNCTION mal.fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM mal.evil(); RETURN NEW; END';
    CREATE FUNCTION mal.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN PERFORM mal.evil(); RETURN pg_catalog.now(); END';
    RESET ROLE; CREATE SCHEMA safe`);
  // It finds a function of its own by its name.
  await root.query(`CREATE FUNCTION safe.named() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM helps(); RETURN NEW; END';
    CREATE FUNCTION public.helps() RETURNS void LANGUAGE sql AS ''`);
  const trigger = (table: string, call: string) =>
    `CREATE TRIGGER code BEFORE UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION ${call}()`;
  for (const name of ['public.given', 'deal.moved', 'public.pathed']) {
    await root.query(await tableOf(name));
    await root.query(trigger(name, 'safe.named'));
  }
  const add = (table: string) => root.query(`INSERT INTO ${table} (data) VALUES ('{}')`);
  const arrived = async (table: string, count: number) =>
    within(90_000, async () => assert.equal(to.taken(`/${table}`), count, table));
  for (const table of ['public.given', 'deal.moved', 'public.pathed']) {
    await add(table);
    await arrived(table, 1);
  }
  // All of this while a session of root's delivers their rows.
  await root.query('ALTER TABLE given OWNER TO mallory; SET ROLE mallory');
  await root.query(`${trigger('given', 'mal.fired').replace('code', 'more')};
    ALTER SCHEMA deal RENAME TO before; CREATE SCHEMA deal`);
  await root.query(await tableOf('deal.moved'));
  await root.query(
    `${trigger('deal.moved', 'mal.fired')}; INSERT INTO deal.moved (id, data) OVERRIDING SYSTEM VALUE VALUES (100, '{}'); RESET ROLE`,
  );
  await add('given');
  await arrived('public.given', 2);
  await arrived('deal.moved', 2);
  await root.query('ALTER DATABASE dev SET search_path = mal, pg_catalog, public');
  await root.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate deliver'`,
  );
  await root.query(`INSERT INTO public.pathed (data) VALUES ('{}')`);
  await arrived('public.pathed', 2);
  const { rows } = await root.query('SELECT DISTINCT who, won FROM mal.seen');
  assert.deepEqual(rows, [{ who: 'mallory', won: 'nothing' }]);
});
