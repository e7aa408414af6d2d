import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { cpSync, existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { temporaryFolder } from '../support/headgate.ts';
import type { Answer } from '../support/asked.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const secret = 'canary-secret-4711';
const signed = (body: string) => ({
  'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
});
const mebibyte = 1024 * 1024;

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const body = (id: number, more: object = {}) => JSON.stringify({ id, ...more });

test('webhooks while the database is away', async (t) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  await stage.sql(`
    CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE kept (data JSONB) INCLUDE BODY AS raw INCLUDE QUERY AS query INCLUDE REMOTE ADDRESS AS sender
      WITH (connector = 'webhook', spool = 'fallback');
    CREATE TABLE other (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE latest (id INT PRIMARY KEY, n INT CHECK (n <> 13), "from" TEXT) INCLUDE HEADER 'x-from' AS "from"
      WITH (connector = 'webhook', spool = 'fallback', spool_status = '200');
    CREATE TABLE guarded (data JSONB) WITH (connector = 'webhook')
      VALIDATE SECRET s AS secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'));
    ALTER TABLE guarded SET (spool = 'fallback')`);
  // Written down, with all tables in it.
  await within(10_000, async () => {
    await delay(10);
    assert(statSync(join(stage.folder, 'postgres', 'tables.sealed')).size > 4_000);
  });

  await t.test('requests during an outage get 202, and are rows afterwards, in order', async () => {
    assert.equal((await stage.post('kept', body(0))).status, 200);
    assert.equal((await stage.post('latest', body(1, { n: 1 }), { 'x-from': 'a' })).text, '{"rows":1}');
    await stage.killServer();
    const first = await stage.post('kept?a=%20b', body(1));
    assert.deepEqual([first.status, first.text], [202, '{"rows":0,"spooled":1}']);
    assert.equal(first.headers.get('headgate-stored'), 'spool');
    assert.deepEqual(
      await stage.statuses(
        'kept',
        range(2, 40).map((id) => body(id)),
      ),
      range(2, 40).map(() => 202),
    );
    for (const n of range(2, 12)) {
      const answer = await stage.post('latest', body(1, { n }), { 'x-from': `b${n}` });
      assert.deepEqual([answer.status, answer.text], [200, '{"rows":0,"spooled":1}']);
    }
    const ready = await asked(`${stage.headgate.adminUrl}/readyz`);
    const told = JSON.parse(ready.text) as { status: string; spool: { takes: boolean; tables: number } };
    assert.deepEqual(
      [ready.status, told.status, told.spool.takes, told.spool.tables],
      [200, 'spooling', true, 2],
    );
    const metrics = (await asked(`${stage.headgate.adminUrl}/metrics`)).text;
    assert.match(
      metrics,
      /^headgate_spool_requests\{database="postgres",schema="public",table="kept"\} 39$/m,
    );
    assert.match(metrics, /^headgate_ready 0$/m);
    // A table that does not spool.
    assert.equal((await stage.post('other', '{}')).status, 503);
    await server.start();
    await stage.untilDirect('kept', body(40));
    await stage.untilDirect('latest', body(2, { n: 0 }));
    assert.deepEqual(await stage.ids('kept'), range(0, 41));
    assert.deepEqual(
      await stage.ask(
        `select convert_from(raw, 'UTF8') as raw, query, sender from kept where query is not null`,
      ),
      [{ raw: body(1), query: 'a=%20b', sender: '127.0.0.1' }],
    );
    assert.deepEqual(await stage.ask(`select n, "from" from latest where id = 1`), [{ n: 11, from: 'b11' }]);
  });

  await t.test(
    'requests that fail VALIDATE or are no JSON are refused at once during an outage',
    async () => {
      await stage.killServer();
      const good = await stage.post('guarded', body(1), signed(body(1)));
      assert.equal(good.status, 202);
      // The next segment is made ahead.
      let before: unknown = null;
      const look = () =>
        [...stage.files()].map((path) => [path, statSync(path).size, statSync(path).mtimeMs]);
      await within(5_000, async () => {
        before = look();
        await delay(300);
        assert.deepEqual(look(), before);
      });
      for (const headers of [{}, signed('other'), { 'x-hub-signature-256': 'sha256=00' }]) {
        assert.equal((await stage.post('guarded', body(2), headers)).status, 401);
      }
      assert.equal((await stage.post('guarded', '{', signed('{'))).status, 422);
      assert.equal((await stage.post('none', body(2))).status, 503);
      assert.deepEqual(look(), before);
    },
  );

  await t.test('spool files are encrypted and readable by their owner only', async () => {
    const canary = body(3, { text: 'canary-body-0815' });
    const headers = { ...signed(canary), authorization: 'Bearer canary-bearer' };
    assert.equal((await stage.post('guarded', canary, headers)).status, 202);
    for (const path of stage.files()) {
      const bytes = readFileSync(path);
      for (const word of [secret, 'canary-body-0815', 'canary-bearer', 'x-hub-signature', 'hmac', '"id"'])
        assert(!bytes.includes(word), `${word} in ${path}`);
      assert.equal(statSync(path).mode & 0o077, 0, path);
    }
  });

  await t.test('a Headgate that is killed and started without the database goes on', async () => {
    await stage.killHeadgate();
    await stage.startHeadgate();
    assert.equal((await stage.post('guarded', body(4), signed(body(4)))).status, 202);
    assert.equal((await stage.post('guarded', body(5), signed(body(4)))).status, 401);
    await stage.killHeadgate();
    await stage.startHeadgate({ HEADGATE_SPOOL_TRUST: '0' });
    // Nobody is believed any more.
    assert.equal((await stage.post('guarded', body(6), signed(body(6)))).status, 503);
    await server.start();
    await within(15_000, async () => assert.deepEqual(await stage.ids('guarded'), [1, 3, 4]));
    // Nothing is left of those who have written, and nothing is written twice.
    await within(10_000, async () => {
      await delay(10);
      const left = [...stage.files()].filter((path) => path.endsWith('.seg'));
      assert.equal(left.length, 1, left.join(' '));
    });
  });

  await t.test(
    'spooled requests that the database refuses are kept for the owner and can be retried',
    async () => {
      await stage.killHeadgate();
      await stage.startHeadgate();
      await stage.killServer();
      for (const n of range(0, 100)) {
        const status = (await stage.post('latest', body(100 + n, { n: n === 57 ? 13 : 0 }))).status;
        assert.equal(status, 200);
      }
      await server.start();
      await stage.untilDirect('latest', body(3, { n: 3 }));
      assert.deepEqual(await stage.sql('SHOW SPOOL'), []);
      const stored = await stage.ask<{ n: number }>('select count(*)::int as n from latest where id >= 100');
      assert.equal(stored[0]?.n, 99);
      const [kept] = await stage.sql<{ id: string; code: string; body: Buffer; door: string; said: string }>(
        `select id, code, body, door, split_part(engine_error, ' — ', 1) as said from headgate.rejected_requests`,
      );
      assert.match(kept?.said ?? '', /^23514 new row for relation "latest" violates check constraint/);
      assert.deepEqual(
        [kept?.code, kept?.door, kept?.body.toString()],
        ['row_refused', 'spool', body(157, { n: 13 })],
      );
      await stage.ask('alter table latest drop constraint latest_n_check');
      await stage.sql(`select headgate.retry_rejected(${kept?.id})`);
      await within(10_000, async () => {
        const [row] = await stage.ask<{ n: number }>('select n from latest where id = 157');
        assert.equal(row?.n, 13);
      });
    },
  );

  await t.test('a table that is gone: its requests are kept, and a superuser finds them', async () => {
    await stage.sql(`CREATE TABLE doomed (data JSONB) WITH (connector = 'webhook', spool = 'fallback')`);
    await within(5_000, async () => assert.equal((await stage.post('doomed', body(0))).status, 200));
    await stage.killServer();
    assert.deepEqual(await stage.statuses('doomed', [body(1), body(2)]), [202, 202]);
    await stage.killHeadgate();
    await server.start();
    await stage.ask('drop table doomed');
    await stage.startHeadgate();
    await within(10_000, async () => {
      const rows = await stage.ask<{ relation: null; body: Buffer }>(
        `select relation, body from headgate.rejected_requests where code = 'table_gone' order by id`,
      );
      assert.deepEqual(
        rows.map((row) => [row.relation, row.body.toString()]),
        [body(1), body(2)].map((text) => [null, text]),
        JSON.stringify(await stage.sql('SHOW SPOOL')),
      );
    });
  });

  await t.test('stuck spooled requests are shown to the owner, and arrive when they can', async () => {
    await stage.killServer();
    assert.equal((await stage.post('latest', body(900, { n: 9 }))).status, 200);
    await stage.killHeadgate();
    await server.start();
    const owner = await server.connect(t);
    await owner.query('begin; lock table latest in share mode');
    await stage.startHeadgate();
    await within(15_000, async () => {
      await delay(50);
      const [shown] = await stage.sql<Record<string, string>>('SHOW SPOOL');
      assert.deepEqual(
        [shown?.['Table'], shown?.['State'], shown?.['Requests']],
        ['public.latest', 'spooling', '1'],
      );
      assert.equal(shown?.['Reason'], 'the database did not answer in time');
    });
    assert.equal((await stage.post('latest', body(900, { n: 10 }))).text, '{"rows":0,"spooled":1}');
    // A WebSocket waits: its acknowledgement is a commit, and nothing older may come behind it.
    const url = `ws://127.0.0.1:${stage.headgate.ports.listen.port}/ingest/postgres/public/latest`;
    const ws = await WsClient.open(url);
    onEnd(t, 'WebSocket', () => ws.ws.terminate());
    ws.send(1, [{ op: 'upsert', data: { id: 902, n: 2 } }]);
    for (const n of range(0, 20)) await stage.post('latest', body(903, { n }));
    assert.deepEqual([...ws.acks], []);
    await owner.query('commit');
    await ws.acked(1);
    assert.deepEqual(await stage.ask('select n from latest where id = 902'), [{ n: 2 }]);
    await stage.untilDirect('latest', body(901));
    assert.deepEqual(await stage.ask('select n from latest where id = 900'), [{ n: 10 }]);
  });

  /** Of folders that are copied, handed over or older than their database: two in each run. */
  const tried = sampleOf([0, 1, 2, 3], 2);
  let place = 0;
  const told = async (name: string, run: () => Promise<void>): Promise<void> => {
    if (tried.includes(place++)) await t.test(name, run);
  };
  t.diagnostic(sampleSeed);
  await told('a copied spool folder doubles no request', async () => {
    await stage.killServer();
    assert.deepEqual(
      await stage.statuses(
        'kept',
        range(50, 60).map((id) => body(id)),
      ),
      range(50, 60).map(() => 202),
    );
    await stage.killHeadgate();
    const dumped = await stage.command('spool', 'dump', stage.folder);
    assert.deepEqual(
      dumped.stdout
        .trim()
        .split('\n')
        .map((line) =>
          Buffer.from((JSON.parse(line) as { body_base64: string }).body_base64, 'base64').toString(),
        ),
      range(50, 60).map((id) => body(id)),
    );
    assert.match((await stage.command('spool', 'check', stage.folder)).stdout, /^10 requests in \d files/m);
    const copy = join(stage.dataDir, 'copy');
    cpSync(stage.folder, copy, { recursive: true });
    await server.start();
    await stage.startHeadgate();
    await stage.untilDirect('kept', body(60));
    await stage.killHeadgate();
    rmSync(stage.folder, { recursive: true });
    cpSync(copy, stage.folder, { recursive: true });
    await stage.startHeadgate();
    await stage.untilDirect('kept', body(61));
    assert.deepEqual(await stage.ids('kept'), [...range(0, 41), ...range(50, 62)]);
  });

  await told('the spool of a removed Headgate is handed over by command', async () => {
    await stage.killServer();
    assert.equal((await stage.post('kept', body(62))).status, 202);
    await stage.killHeadgate();
    await server.start();
    const drained = await stage.command('spool', 'drain', stage.folder);
    assert.equal(drained.code, 0, drained.stderr);
    assert.deepEqual((await stage.ids('kept')).at(-1), 62);
    await stage.startHeadgate();
    await within(10_000, async () => assert.equal((await stage.post('kept', body(63))).status, 200));
  });

  await told('spool commands count nothing as handed over while the database is away', async () => {
    await stage.killServer();
    assert.equal((await stage.post('kept', body(64))).status, 202);
    await stage.killHeadgate();
    const ports = join(stage.dataDir, 'ports.json');
    rmSync(ports, { force: true });
    // Nobody is trusted any more, as after an hour.
    let hasEnded = false;
    const draining = stage
      .command('spool', 'drain', stage.folder, '--spool-trust=0')
      .finally(() => (hasEnded = true));
    await within(20_000, async () => {
      await delay(10);
      assert(existsSync(ports) || hasEnded);
    });
    await server.start();
    const drained = await draining;
    assert.equal(drained.code, 0, drained.stderr);
    assert.equal((await stage.ids('kept')).at(-1), 64);
    await stage.startHeadgate();
    await within(10_000, async () => assert.equal((await stage.post('kept', body(65))).status, 200));
  });

  await told('a database that was put back gets again what is still on the disk, once', async () => {
    await stage.killServer();
    assert.deepEqual(
      await stage.statuses(
        'kept',
        range(70, 75).map((id) => body(id)),
      ),
      range(70, 75).map(() => 202),
    );
    await stage.killHeadgate();
    const [backup, copy] = [`${server.data}.backup`, join(stage.dataDir, 'copy2')];
    spawnSync('cp', ['-a', server.data, backup]);
    cpSync(stage.folder, copy, { recursive: true });
    await server.start();
    await stage.startHeadgate();
    await stage.untilDirect('kept', body(75));
    await stage.killServer();
    await stage.killHeadgate();
    rmSync(server.data, { recursive: true });
    spawnSync('mv', [backup, server.data]);
    rmSync(stage.folder, { recursive: true });
    cpSync(copy, stage.folder, { recursive: true });
    await server.start();
    await stage.startHeadgate();
    await stage.untilDirect('kept', body(76));
    assert.deepEqual(
      (await stage.ids('kept')).filter((id) => id >= 70),
      [...range(70, 75), 76],
    );
  });

  await t.test('a disk that is full: 503, and all of what was answered 202 arrives', async (it) => {
    const disk = await temporaryFolder(t);
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=11m', 'tmpfs', disk]).status !== 0)
      return it.skip('no tmpfs can be mounted here');
    onEnd(t, 'disk', () => void spawnSync('umount', ['-l', disk]));
    await stage.killHeadgate();
    await stage.startHeadgate({ HEADGATE_SPOOL_DIR: join(disk, 'spool') });
    await within(10_000, async () => {
      await delay(10);
      assert(existsSync(join(disk, 'spool', 'postgres', 'tables.sealed')));
    });
    await stage.killServer();
    const large = 'x'.repeat(600 * 1024);
    const answers: number[] = [];
    while (answers.filter((status) => status !== 202).length < 5)
      answers.push((await stage.post('kept', body(3_000 + answers.length, { large }))).status);
    assert.deepEqual([...new Set(answers)], [202, 503]);
    await server.start();
    await stage.untilDirect('kept', body(4_000));
    assert.deepEqual(
      (await stage.ids('kept')).filter((id) => id >= 3_000),
      [...answers.flatMap((status, i) => (status === 202 ? [3_000 + i] : [])), 4_000],
    );
    await stage.killHeadgate();
    await stage.startHeadgate();
  });

  await t.test(
    'a full spool gives 503, loses nothing answered 202, and continues when there is room',
    async () => {
      await stage.killServer();
      const large = 'x'.repeat(900 * 1024);
      const kept: number[] = [];
      let full: Answer | null = null;
      for (let id = 1_000; full === null; id++) {
        const answer = await stage.post('kept', body(id, { large }));
        if (answer.status === 202) kept.push(id);
        else full = answer;
      }
      assert.deepEqual([full.status, JSON.parse(full.text).code], [503, 'spool_full']);
      assert.equal(full.headers.get('retry-after'), '30');
      const bytes = [...stage.files()].reduce((sum, path) => sum + statSync(path).size, 0);
      assert(bytes <= 16 * mebibyte + 65_536, String(bytes));
      assert(kept.length >= 10, String(kept.length));
      await server.start();
      await stage.untilDirect('kept', body(2_000));
      assert.deepEqual(
        (await stage.ids('kept')).filter((id) => id >= 1_000 && id <= 2_000),
        [...kept, 2_000],
      );
    },
  );
  await stage.killHeadgate();
});
