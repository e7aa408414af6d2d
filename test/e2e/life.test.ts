import assert from 'node:assert/strict';
import { access, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { sharedHeadgate, spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { until } from '../support/until.ts';

/** Its first start; the last test ends it. */
const shared = sharedHeadgate({ fromNothing: true });

suite('headgate start starts and stops cleanly', () => {
  test('PostgreSQL has less than 1 MB of write-ahead log to replay soon after a first headgate start', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    // The making of the schema writes some megabytes.
    const toReplay = async () => {
      const { rows } = await client.query<{ bytes: string }>(
        'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) as bytes from pg_control_checkpoint()',
      );
      return Number(rows[0]?.bytes);
    };
    await until(async () => (await toReplay()) < 1_000_000);
  });

  test('the admin port serves health, readiness and metrics, and master.key is readable by its owner only', async (t) => {
    const headgate = await shared();
    const get = (path: string) => asked(`${headgate.adminUrl}${path}`);
    assert.equal((await get('/healthz')).status, 200);
    assert.equal((await get('/readyz')).status, 200);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE watched (data JSONB) WITH (connector = 'webhook')`);
    await headgate.post('dev/public/watched', '{}');
    await headgate.post('dev/public/unheard_of', '{}');
    const metrics = (await get('/metrics')).text;
    assert.match(metrics, /headgate_requests_total\{[^}]*table="[^"]*watched"[^}]*\} 1/);
    assert.doesNotMatch(metrics, /unheard_of/);
    assert.equal((await stat(join(headgate.dataDir, 'master.key'))).mode & 0o777, 0o600);
    for (const line of headgate.stderr.trim().split('\n')) assert.equal(typeof JSON.parse(line), 'object');
  });

  test('a start on a port in use prints one line and exits with 1', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onEnd(t, 'server', () => new Promise<void>((resolve) => void taken.close(() => resolve())));
    const { port } = taken.address() as AddressInfo;
    const dataDir = await temporaryFolder(t);
    t.diagnostic(sampleSeed);
    for (const door of sampleOf(['listen', 'sql', 'admin'], 1)) {
      const headgate = await spawnHeadgate(t, { dataDir, args: [`--${door}-port=${port}`] });
      assert.deepEqual(await headgate.ended, { code: 1, signal: null });
      assert.match(
        headgate.stderr,
        new RegExp(`^headgate: 127.0.0.1:${port} is in use by another program`, 'm'),
      );
      assert.equal(headgate.stdout, '');
    }
    // Where the machine has IPv6, its addresses are written as in a URL.
    const other = createServer().listen(port, '::1');
    await new Promise((resolve) => other.once('listening', resolve).once('error', resolve));
    if (other.listening) {
      onEnd(t, 'IPv6 server', () => new Promise<void>((resolve) => void other.close(() => resolve())));
      const args = ['--listen-host=::1', `--listen-port=${port}`];
      const headgate = await spawnHeadgate(t, { dataDir, args });
      assert.deepEqual(await headgate.ended, { code: 1, signal: null });
      assert.match(headgate.stderr, new RegExp(`^headgate: \\[::1\\]:${port} is in use`, 'm'));
    }
    // The engine of the failed starts is gone: a start without the conflict has the directory for itself.
    await startHeadgate(t, { dataDir });
  });

  test('a second start on a data directory in use prints one line and exits with 1', async (t) => {
    const first = await shared();
    const second = await spawnHeadgate(t, { dataDir: first.dataDir });
    assert.deepEqual(await second.ended, { code: 1, signal: null });
    assert.match(second.stderr, /^headgate: .* in use by another Headgate.*\n$/);
    assert.equal((await asked(`${first.adminUrl}/readyz`)).status, 200);
  });

  test('SIGTERM ends headgate start with 0, and all rows answered 200 are there after a restart', async (t) => {
    const first = await shared();
    const { dataDir } = first;
    const client = await first.client(t);
    await client.query(`CREATE TABLE kept (data JSONB) WITH (connector = 'webhook')`);
    const answers = Array.from({ length: 50 }, (_, i) => first.post('dev/public/kept', `{"i":${i}}`));
    assert.equal((await Promise.all(answers)).filter((a) => a.status === 200).length, 50);
    const started = Date.now();
    assert.deepEqual(await first.signal('SIGTERM'), { code: 0, signal: null });
    assert(Date.now() - started < 10_000);
    await assert.rejects(access(join(dataDir, 'ports.json')), /ENOENT/);
    const second = await startHeadgate(t, { dataDir });
    const again = await second.client(t);
    assert.equal((await second.post('dev/public/kept', '{"i":50}')).status, 200);
    const { rows } = await again.query<{ n: number }>('select count(*)::int as n from kept');
    assert.equal(rows[0]?.n, 51);
    assert.deepEqual(await second.signal('SIGINT'), { code: 0, signal: null });
  });
});
