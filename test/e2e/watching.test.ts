/** The log and the metrics of the real program while people try to write into them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { RawClient } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const hostile = 'x\n{"kind":"forged"}\r\u001b[31m\u009b31m\u202e\u2028\t';

async function metricsOf(headgate: Headgate): Promise<readonly string[]> {
  const text = (await asked(`${headgate.adminUrl}/metrics`)).text;
  return text.split('\n').filter((line) => line.startsWith('headgate_'));
}

const namesOf = (lines: readonly string[]) => lines.map((line) => line.replace(/ \S+$/, ''));

/** Of very many paths: test/watching.test.ts and gateway/cardinality.extended.pg.test.ts. */
async function makesNoSeries(headgate: Headgate): Promise<void> {
  assert.equal((await headgate.post('dev/public/t', '{}')).status, 200);
  assert.equal((await headgate.post('dev/public/nothing', '{}')).status, 404);
  assert.equal((await headgate.post('%zz', '{}')).status, 400);
  const before = await metricsOf(headgate);
  for (let i = 0; i < 15; i++) {
    const path = ['dev/public/u', 'nobody/public/u', 'dev/nowhere/u', '%zz', 'a/b/c/d/'][i % 5] ?? '';
    assert((await headgate.post(`${path}${i}`, '{}')).status >= 400);
  }
  const after = await metricsOf(headgate);
  assert.deepEqual(namesOf(after), namesOf(before));
  assert(after.includes('headgate_ready 1'));
  assert(after.includes('headgate_tables{database="dev"} 1'));
  assert(after.includes('headgate_tables_unusable{database="dev"} 0'));
}

test('no input can forge a log line, level or colour, or make a metric series', async (t) => {
  const headgate = await startHeadgate(t, { args: ['--log-level=debug'] });
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
  await makesNoSeries(headgate);
  const quoted = `"${hostile.replaceAll('"', '""')}"`;
  await client.query(`CREATE SCHEMA ${quoted}; CREATE SECRET ${quoted} WITH (backend = 'meta') AS 'key'`);
  await client.query(`CREATE TABLE ${quoted}.${quoted} (data JSONB) WITH (connector = 'webhook')
    VALIDATE SECRET ${quoted} AS secure_compare(headers->>'x-key', ${quoted})`);
  const path = `dev/${encodeURIComponent(hostile)}/${encodeURIComponent(hostile)}`;
  assert.equal((await headgate.post(path, '{}', { 'x-key': 'key' })).status, 200);
  assert.equal((await headgate.post(path, hostile, { 'x-key': 'wrong' })).status, 401);
  assert.equal((await headgate.post(path, hostile, { 'x-key': 'key' })).status, 422);
  assert.equal((await headgate.post(`dev/public/${encodeURIComponent(hostile)}`, '{}')).status, 404);
  // The secret is made unusable, so that its name is told.
  await client.query(`update headgate.secret set sealed = 'AAAA'`);
  await client.query(`do $$ begin raise log E'line\\n[1] FATAL:  forged\\n\\tPANIC:  forged'; end $$`);
  await assert.rejects(client.query(`select ${quoted}`));
  await assert.rejects(headgate.clientAs(t, hostile));
  const raw = await RawClient.connect(headgate.ports.listen.port);
  onEnd(t, 'raw', () => raw.destroy());
  raw.send('POST /webhook/\u001b[31m/a/b HTTP/1.1\r\nHost: x\u001b[31m\r\nX: \u009b31m\r\n\r\n');
  await raw.answer();
  await until(() => headgate.stderr.includes('catalog.table_unusable'));
  assert.equal((await headgate.post(path, '{}', { 'x-key': 'key' })).status, 503);
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  const lines = headgate.stderr.split('\n').filter((line) => line !== '');
  const kinds = new Set<string>();
  for (const line of lines) {
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch(line, /[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/, line);
    const {
      kind,
      level,
      line: said = '',
    } = JSON.parse(line) as { kind: string; level: string; line?: string };
    kinds.add(kind);
    if (kind === 'engine.said') assert(level === 'debug' || !said.includes('forged'), line);
  }
  assert(!kinds.has('forged'));
  assert(kinds.has('catalog.table_unusable') && kinds.has('engine.said'));
});
