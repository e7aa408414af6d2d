/** Alerts of a running Headgate: what a receiver of its owner's reads, and which tables are silent in its database. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { asked } from '../support/asked.ts';
import { silentTables } from '../../src/alerts/database-conditions.ts';
import { onEnd } from '../support/cleanup.ts';
import { makeAuthority } from '../support/certificates.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

interface Told {
  readonly headgate: string;
  readonly alerts: readonly {
    readonly alert: string;
    readonly state: string;
    readonly labels: Record<string, string>;
    readonly summary: string;
  }[];
}

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

suite('a running Headgate sends alerts', () => {
  test('alerts arrive at HEADGATE_ALERT_URL without contents of requests', async (t) => {
    if (requireTool(t, 'openssl') === null) return;
    const told: Told[] = [];
    const bodies: string[] = [];
    const folder = await temporaryFolder(t);
    const authority = makeAuthority(folder);
    const pair = authority.issue('receiver', 'localhost');
    const tls = { cert: await readFile(pair.cert), key: await readFile(pair.key) };
    const receiver = createServer(tls, (request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        bodies.push(`${request.method} ${request.headers['content-type']} ${body}`);
        told.push(JSON.parse(body) as Told);
        response.end();
      });
    }).listen(0, 'localhost');
    await once(receiver, 'listening');
    onEnd(t, 'receiver', () => void receiver.close());
    const url = `https://localhost:${(receiver.address() as AddressInfo).port}/?key=hidden`;
    const env = { HEADGATE_ALERT_URL: url, HEADGATE_ALERT_SECONDS: '1', NODE_EXTRA_CA_CERTS: authority.cert };
    const headgate = await startHeadgate(t, { env });
    const root = await headgate.client(t);
    await root.query(`CREATE TABLE strict (n int NOT NULL) WITH (connector = 'webhook');
      CREATE TABLE asked (data jsonb) WITH (connector = 'webhook')
        ANSWER UNCHECKED WHEN method = 'GET' AND query->>'check' = 'so' BODY 'yes'`);
    for (let i = 0; i < 12; i++)
      assert.equal((await headgate.post('dev/public/strict', '{"n":"payload-x"}')).status, 422);
    assert.equal((await asked(`${headgate.webhookUrl}/dev/public/asked?check=no`)).status, 405);
    await until(() => told.flatMap(({ alerts }) => alerts).length === 2);
    const of = (table: string) => ({ database: 'dev', schema: 'public', table });
    assert.deepEqual(
      told
        .flatMap(({ alerts }) => alerts.map(({ alert, state, labels }) => [alert, state, labels]))
        .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
      [
        ['HeadgateHandshakeMissed', 'firing', of('asked')],
        ['HeadgateRowsRefused', 'firing', of('strict')],
      ],
    );
    assert.match(bodies[0] ?? '', /^POST application\/json \{"version":1,/);
    assert.doesNotMatch(bodies.join() + headgate.stderr, /payload-x|hidden/);

    await t.test(
      'headgate doctor --alert sends a test alert, and reports a receiver with an unknown certificate',
      async () => {
        const doctor = (more: Record<string, string>) =>
          run(process.execPath, [cli, 'doctor', '--alert', `--data-dir=${headgate.dataDir}`], {
            env: { PATH: process.env['PATH'], HEADGATE_ALERT_URL: url, ...more },
          });
        told.length = 0;
        const good = await doctor({ NODE_EXTRA_CA_CERTS: authority.cert });
        assert.match(good.stdout, /ok {5}alerts +localhost:\d+ accepted a test message/, good.stderr);
        assert.deepEqual(
          told.flatMap(({ alerts }) => alerts.map(({ alert, state }) => [alert, state])),
          [['HeadgateTrial', 'resolved']],
        );
        const strange = await doctor({});
        assert.match(
          strange.stdout,
          /WRONG {2}alerts +a test message did not arrive: localhost: .*certificate/,
        );
        assert.doesNotMatch(good.stdout + strange.stdout + strange.stderr, /hidden/);
      },
    );

    await t.test(
      'a table without requests for unusually long raises an alert, judged by its last day',
      async () => {
        await root.query(`
        CREATE TABLE busy (data jsonb) WITH (connector = 'webhook'); CREATE TABLE nightly (data jsonb) WITH (connector = 'webhook');
        CREATE TABLE gone (data jsonb) WITH (connector = 'webhook'); CREATE TABLE young (data jsonb) WITH (connector = 'webhook'); CREATE TABLE probed (data jsonb) WITH (connector = 'webhook')`);
        // A request every ten minutes for a day, up to `ago` minutes before now; `nightly` rests for ten hours, `young` is of three.
        const fill = (table: string, ago: number, where = 'true', of = 'stored') =>
          root.query(`INSERT INTO headgate.traffic_minute (relation, slot, minute, stored, unauthorized, refused, unavailable, rows, took, last_at)
          SELECT '${table}'::regclass, extract(hour from m) * 60 + extract(minute from m), m, ${of === 'stored' ? '1, 0' : '0, 1'}, 0, 0, 1, '{1}', m
          FROM (SELECT date_trunc('minute', now()) - (${ago} + 10 * i) * interval '1 minute' AS m, i FROM generate_series(0, 140) AS i) AS g WHERE ${where}`);
        await fill('busy', 31);
        await fill('nightly', 200, 'i NOT BETWEEN 30 AND 90');
        await fill('young', 100, 'i < 18');
        await fill('probed', 100, 'true', 'unauthorized');
        const catalog = {
          asked: async <Row extends object>(_: string, sql: string) => (await root.query<Row>(sql)).rows,
        };
        const names = async (upMinutes: number, known = false) =>
          (await silentTables(catalog, 'dev', upMinutes, () => known))?.map(({ labels, usualMinutes }) => [
            labels['table'],
            usualMinutes,
          ]);
        assert.deepEqual(await names(1_440), [['busy', 10]]);
        await fill('gone', 8 * 1_440);
        assert.deepEqual(await names(20_000), [['busy', 10]], 'after a week it has ended');
        assert.deepEqual(await names(28), [], 'who did not listen heard nothing');
        assert.deepEqual(await names(1, true), [['busy', 10]], 'but may have been told before');
        await root.query(`UPDATE headgate.traffic_minute SET last_at = now() WHERE relation = 'busy'::regclass AND minute = (
        SELECT max(minute) FROM headgate.traffic_minute WHERE relation = 'busy'::regclass)`);
        assert.deepEqual(await names(1_440), []);
      },
    );
  });
});
