/** A spool whose requests the database refuses or cannot take, and whose folder is copied, handed over, or on a disk without room. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { stageWithTables } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const body = (id: number, more: object = {}) => JSON.stringify({ id, ...more });

test('a spool hands over to changed tables, from copied folders and on a full disk', async (t) => {
  const stage = await stageWithTables(t, 'secret');
  const { server } = stage;

  await t.test(
    'spooled requests that the database refuses are kept for their owner and can be retried',
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

  await t.test('spooled requests of a dropped table are kept in headgate.rejected_requests', async () => {
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

  await t.test('SHOW SPOOL gives the reason for spooled requests that wait for a lock', async () => {
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
    assert.deepEqual(await stage.ids('kept'), range(50, 62));
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

  await told('a database restored from a backup gets the requests of a restored spool once', async () => {
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

  await t.test('a full spool disk gives 503, and all requests answered 202 arrive', async (it) => {
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
  await stage.killHeadgate();
});
