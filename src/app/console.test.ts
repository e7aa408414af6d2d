import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeAuthority } from '../../test/support/certificates.ts';
import { findTool } from '../../test/support/tools.ts';
import { resolveSettings } from '../config/resolve-settings.ts';
import { createMachine, healthOf } from '../console/health.ts';
import { makeSecret, senderInfos, sendTest, wrongSecret } from '../console/senders.ts';
import { consoleIsOn, consoleProblem } from '../host/door-settings.ts';

const settings = (env: Readonly<Record<string, string>>) => resolveSettings({ env, flags: {} }).settings;
const asking = {
  HEADGATE_SQL_TLS_CERT: '/c',
  HEADGATE_SQL_TLS_KEY: '/k',
  HEADGATE_SQL_TLS_CLIENT_CA: '/a',
};

test('the console is on by default only on loopback', () => {
  assert.equal(consoleIsOn(settings({})), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '::1' })), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '0.0.0.0' })), false);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '0.0.0.0', HEADGATE_CONSOLE: 'on' })), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_CONSOLE: 'off' })), false);
});

test('the console is off where the SQL port accepts certificates only, and asking for it is reported', () => {
  assert.equal(consoleIsOn(settings(asking)), false);
  assert.equal(consoleIsOn(settings({ ...asking, HEADGATE_SQL_TLS_OPTIONAL: 'true' })), true);
  assert.match(
    consoleProblem(settings({ ...asking, HEADGATE_CONSOLE: 'on' })) ?? '',
    /requires a client certificate/,
  );
  assert.equal(consoleProblem(settings({ HEADGATE_CONSOLE: 'on' })), null);
});

test('the console setting of host names accepts host names only', () => {
  assert.deepEqual(settings({ HEADGATE_CONSOLE_HOSTS: 'A.example, [::2]:80' }).consoleHosts, [
    'a.example',
    '[::2]:80',
  ]);
  assert.throws(() => settings({ HEADGATE_CONSOLE_HOSTS: 'https://a.example' }), /must contain names/);
});

test("the console's health page sums up the metrics", () => {
  const text = `# HELP x
headgate_requests_total{database="a",table="t\\"} 9",status="200",code="committed"} 3
headgate_requests_total{database="b",table="t",status="200",code="committed",listener="2"} 4
headgate_requests_total{database="",table="",status="404",code="not_found"} 1
headgate_rows_total{database="a"} 3
headgate_rows_total{database="b"} 4
headgate_request_seconds_bucket{le="0.001"} 4
headgate_request_seconds_bucket{le="0.01"} 8
headgate_request_seconds_bucket{le="+Inf"} 8
process_resident_memory_bytes 100
process_resident_memory_bytes{listener="1"} 50
`;
  assert.deepEqual(healthOf(text), {
    uptimeS: 0,
    memoryBytes: 150,
    requests: [
      { code: 'committed', status: '200', count: 7 },
      { code: 'not_found', status: '404', count: 1 },
    ],
    rows: 7,
    p50: 0.001,
    p99: 0.01,
    waitingRows: 0,
  });
  assert.equal(healthOf('').p99, null);
});

test("the console's wizard knows every sender, and makes a secret for each sender without a key pair", async () => {
  assert(senderInfos().length > 90);
  for (const { id, paired, rank, form } of senderInfos()) {
    assert.equal(makeSecret(id, false) === null, paired, id);
    // The one that nobody knows has the sender's form, too.
    if (form !== null) assert.equal(wrongSecret(id, makeSecret(id, true) ?? ''), null, id);
    if (form !== null) assert.equal(wrongSecret(id, '?'), form, id);
    assert(rank === null || rank <= 12, id);
  }
  assert.deepEqual(
    senderInfos().flatMap(({ id, rank }) => (rank === 1 || rank === 2 ? [[id, rank]] : [])),
    [
      ['github', 2],
      ['stripe', 1],
    ],
  );
  assert.equal(makeSecret('constructor', true), null);
  const who = { user: 'root', database: 'dev' };
  const at = {
    own: 'http://127.0.0.1:1',
    base: 'http://127.0.0.1:1',
    databases: { client: () => assert.fail(), compiler: {} as never },
  };
  const test = { sender: 'nobody', secret: 'x', database: 'dev', schema: 'public', table: 't' };
  assert.equal(await sendTest(test, who, at), null);
  assert.equal(await sendTest({ ...test, secret: '' }, who, at), null);
});

test("the console's machine data has the disk, one flush time a minute, and the certificate of each door", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-machine-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const pair = findTool('openssl') === null ? null : makeAuthority(folder).issue('server', 'server');
  const machine = createMachine(
    settings({
      HEADGATE_DATA_DIR: folder,
      HEADGATE_SQL_TLS_CERT: join(folder, 'missing.crt'),
      HEADGATE_SQL_TLS_KEY: join(folder, 'missing.key'),
      ...(pair === null ? {} : { HEADGATE_LISTEN_TLS_CERT: pair.cert, HEADGATE_LISTEN_TLS_KEY: pair.key }),
    }),
    true,
    () => null,
  );
  const { disk, certificates, spool } = await machine();
  assert(disk !== null && disk.freeBytes > 0 && disk.freeBytes <= disk.totalBytes, JSON.stringify(disk));
  assert(disk.flushMs !== null && disk.flushMs >= 0);
  assert.equal((await machine()).disk?.flushMs, disk.flushMs);
  assert.equal(spool, null);
  const named = certificates.map(({ door, state }) => [door, state]);
  if (pair === null) assert.deepEqual(named, [['sql', 'unreadable']]);
  else {
    assert.deepEqual(named, [
      ['listen', certificates[0]?.state],
      ['sql', 'unreadable'],
    ]);
    assert.match(certificates[0]?.names ?? '', /localhost/);
    assert((certificates[0]?.untilMs ?? 0) > Date.now());
  }
  rmSync(folder, { recursive: true });
  assert.equal((await machine()).disk, null);
});
