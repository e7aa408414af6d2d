import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveSettings } from '../tables/settings.ts';
import { healthOf } from './console-health.ts';
import { makeSecret, senderInfos, sendTest } from './console-senders.ts';
import { consoleIsOn, consoleProblem } from './door-settings.ts';

const settings = (env: Readonly<Record<string, string>>) => resolveSettings({ env, flags: {} }).settings;
const asking = {
  HEADGATE_SQL_TLS_CERT: '/c',
  HEADGATE_SQL_TLS_KEY: '/k',
  HEADGATE_SQL_TLS_CLIENT_CA: '/a',
};

test('by itself the console is on where only this machine reaches it', () => {
  assert.equal(consoleIsOn(settings({})), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '::1' })), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '0.0.0.0' })), false);
  assert.equal(consoleIsOn(settings({ HEADGATE_ADMIN_HOST: '0.0.0.0', HEADGATE_CONSOLE: 'on' })), true);
  assert.equal(consoleIsOn(settings({ HEADGATE_CONSOLE: 'off' })), false);
});

test('where the SQL port lets in certificates alone there is none, and asking for it is told', () => {
  assert.equal(consoleIsOn(settings(asking)), false);
  assert.equal(consoleIsOn(settings({ ...asking, HEADGATE_SQL_TLS_OPTIONAL: 'true' })), true);
  assert.match(consoleProblem(settings({ ...asking, HEADGATE_CONSOLE: 'on' })) ?? '', /shows a certificate/);
  assert.equal(consoleProblem(settings({ HEADGATE_CONSOLE: 'on' })), null);
});

test('names of hosts are read as such', () => {
  assert.deepEqual(settings({ HEADGATE_CONSOLE_HOSTS: 'A.example, [::2]:80' }).consoleHosts, [
    'a.example',
    '[::2]:80',
  ]);
  assert.throws(() => settings({ HEADGATE_CONSOLE_HOSTS: 'https://a.example' }), /must hold names/);
});

test('what the metrics say, summed up', () => {
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

test('the wizard knows every sender, and makes only secrets that can be made up', async () => {
  assert(senderInfos().length > 90);
  for (const { id, paired } of senderInfos()) assert.equal(makeSecret(id) === null, paired, id);
  assert.equal(makeSecret('constructor'), null);
  const test = { sender: 'nobody', secret: 'x', database: 'dev', schema: 'public', table: 't' };
  assert.equal(await sendTest(test, { own: 'http://127.0.0.1:1', base: 'http://127.0.0.1:1' }), null);
});
