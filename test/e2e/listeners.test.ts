/** Several listener processes on one port: what a sender and an owner see is one Headgate. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { sharedHeadgate } from '../support/headgate.ts';
import { listenerProcesses, logOf, metricsOf, postAlone } from '../support/listeners.ts';
import { within } from '../support/within.ts';

const two = { HEADGATE_LISTENERS: '2' };
const each = <T>(n: number, run: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: n }, (_, i) => run(i)));

const shared = sharedHeadgate({
  env: { ...two, HEADGATE_LOG_LEVEL: 'debug' },
  args: ['--gateway-port=0', '--table-rate=1000/s'],
});

suite('two listener processes serve one webhook port', () => {
  test('two listener processes share a port and merge their metrics', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')
      VALIDATE AS secure_compare(headers->>'signature', 'test')`);
    const url = `${headgate.webhookUrl}/dev/public/t`;
    const answers = await each(40, (i) =>
      postAlone(url, `{"i":${i}}`, { signature: i % 4 === 0 ? 'no' : 'test' }),
    );
    assert.deepEqual([answers.filter((it) => it === 200).length, answers.length], [30, 40]);
    const metrics = await metricsOf(headgate);
    const labels = 'database="dev",schema="public",table="t"';
    assert.equal(metrics.get(`headgate_rows_total{${labels}}`), 30);
    assert.equal(metrics.get(`headgate_requests_total{${labels},status="200",code="committed"}`), 30);
    assert.equal(metrics.get('headgate_request_seconds_count'), 40);
    assert.equal(metrics.get('headgate_tables{database="dev"}'), 1);
    assert.equal(metrics.get('headgate_listener_processes{state="serving"}'), 2);
    assert.ok((metrics.get('process_resident_memory_bytes{listener="2"}') ?? 0) > 0);
    await within(2_000, async () => assert.match(headgate.stderr, /"rejected.stored"/));
    const answered = logOf(headgate).filter((line) => line.kind === 'request.answered');
    for (const listener of [1, 2]) assert.ok(answered.filter((it) => it.listener === listener).length >= 10);
    assert.equal(answered.length, 40);
  });

  test('listener processes get no secret by command line or environment', async () => {
    const key = Buffer.alloc(32, 7).toString('base64');
    const headgate = await shared();
    const processes = listenerProcesses(headgate.child.pid ?? 0);
    assert.equal(processes.length, 2);
    for (const { cmdline, environ } of processes) {
      assert.doesNotMatch(cmdline, /--data-dir|--table-rate|postgres/);
      assert.doesNotMatch(environ, new RegExp(`${key}|MASTER_KEY|DATABASE_URL`));
    }
  });
});
