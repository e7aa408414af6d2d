/** What an image must do, whatever built it. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { Headgate } from './headgate.ts';
import { container, innerPid, spawnIn } from './image.ts';
import type { Container, Image } from './image.ts';
import { freePort } from './proxy.ts';
import { run } from './run.ts';
import { within } from './within.ts';

/** As in production: a read-only root, uid 10001, a volume that outlives it, health, a kill, SIGTERM with a request in flight. */
export async function serves(t: TestContext, image: Image, volume: string): Promise<void> {
  // As Docker fills a new volume: with the owner and mode of that path in the image.
  const copied = await run('cp', ['-a', join(image.root, image.volume), volume]);
  assert.equal(copied.code, 0, copied.stderr);
  const [listen, sql, admin] = [await freePort(), await freePort(), await freePort()];
  const env = {
    HEADGATE_LISTEN_PORT: String(listen),
    HEADGATE_SQL_PORT: String(sql),
    HEADGATE_ADMIN_PORT: String(admin),
    HEADGATE_GATEWAY_PORT: '0',
  };
  const box = container(image, volume, env);
  const inside = (command: readonly string[]) => run('unshare', box.arguments(command), { env: box.env });
  assert.equal((await inside(image.healthcheck)).code, 1);

  const first = await started(t, box, image, volume);
  const client = await first.headgate.client(t);
  await client.query(`CREATE TABLE kept (data JSONB) WITH (connector = 'webhook')
    VALIDATE AS secure_compare(headers->>'signature', 'test')`);
  const post = (to: Headgate) => to.post('dev/public/kept', '{"a":1}', { signature: 'test' });
  assert.equal((await post(first.headgate)).text, '{"rows":1}');
  // A PostgreSQL that cannot run in its place would have been copied there.
  assert(!(await readdir(volume)).includes('bin'), 'the embedded PostgreSQL runs out of the image');
  assert.equal((await inside(image.healthcheck)).code, 0);
  const status = await readFile(`/proc/${first.pid}/status`, 'utf8');
  assert.match(status, /^Uid:\s+10001\s+10001\s+10001\s+10001$/m);
  assert.match(status, /^Groups:\s*$/m);
  assert.match(status, /^CapEff:\s+0+$/m);
  const written = await inside(['sh', '-c', 'touch /opt/headgate/x /etc/x /tmp/x /x 2>&1']);
  assert.equal(written.stdout.match(/Read-only file system/g)?.length, 4, written.stdout);
  // Killed, as by the kernel when out of memory, and restarted: again as pid 1, on the same volume.
  process.kill(first.pid, 'SIGKILL');
  await first.headgate.ended;
  const second = await started(t, box, image, volume);
  assert.equal((await post(second.headgate)).text, '{"rows":1}');
  const { rows } = await (
    await second.headgate.client(t)
  ).query<{ n: number }>('select count(*)::int as n from kept');
  assert.equal(rows[0]?.n, 2);
  // Half a body has arrived at the time of SIGTERM; the other half is still read, and stored.
  const socket = connect(listen, '127.0.0.1');
  let answer = '';
  socket.setEncoding('latin1').on('data', (text: string) => (answer += text));
  const head =
    'POST /webhook/dev/public/kept HTTP/1.1\r\nHost: x\r\nsignature: test\r\nContent-Length: 7\r\n\r\n';
  await new Promise<void>((resolve) => void socket.write(`${head}{"a"`, () => resolve()));
  const load = `http://127.0.0.1:${admin}/metrics`;
  await within(5_000, async () =>
    assert.match(await (await fetch(load)).text(), /headgate_listener_connections [1-9]/),
  );
  const asked = performance.now();
  process.kill(second.pid, 'SIGTERM');
  await within(5_000, async () => assert.match(second.headgate.stderr, /"kind":"service\.draining"/));
  socket.write(':1}');
  assert.deepEqual(await second.headgate.ended, { code: 0, signal: null });
  const seconds = (performance.now() - asked) / 1_000;
  assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*\{"rows":1\}$/);
  assert(seconds < 20, `${seconds} s`);
  t.diagnostic(`SIGTERM with a request on its way: 200, and ended in ${seconds.toFixed(1)} s`);
  assert.equal((await inside(image.healthcheck)).code, 1);
}

async function started(t: TestContext, box: Container, image: Image, volume: string) {
  const child = spawnIn(box, image.command);
  const headgate = new Headgate(child, volume);
  // Ending `unshare` ends its child, and with it every process of its namespace.
  onEnd(t, 'container', async () => {
    if (child.exitCode === null && child.signalCode === null) await headgate.signal('SIGTERM');
  });
  await headgate.ready();
  return { headgate, pid: await innerPid(child) };
}
