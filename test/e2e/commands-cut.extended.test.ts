/** Commands whose server goes away: a sentence and status 1, at whichever message, and never a stack trace. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { errorMessage, FaultyProxy } from '../support/faulty-proxy.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const goodbye = errorMessage('FATAL', '57P01');

test('headgate move and secrets rotate-key end with a sentence when the connection to the database is lost', async (t) => {
  const server = await MortalServer.start(t);
  const dataDir = await temporaryFolder(t);
  const headgate = await startHeadgate(t, { dataDir, env: { HEADGATE_DATABASE_URL: server.databaseUrl } });
  const client = await headgate.client(t, 'postgres');
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'kept';
    CREATE TABLE kept (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'x', s)`);
  await client.end();
  await headgate.signal('SIGTERM');
  const beside = await server.connect(t);
  await beside.query('create database moved');
  await beside.end();
  const proxy = await FaultyProxy.open({ kind: 'unix', path: join(server.folder, '.s.PGSQL.5432') });
  onEnd(t, 'proxy', () => proxy.close());
  const through = `postgresql://root@127.0.0.1:${proxy.port}/postgres?sslmode=disable`;
  const env = { ...process.env, HEADGATE_DATA_DIR: dataDir, HEADGATE_DATABASE_URL: through };
  const commands = [
    ['secrets', 'rotate-key'],
    ['move', '--to', server.databaseUrl.replace('/postgres?', '/moved?')],
  ];
  const places = commands.flatMap((args) =>
    [12, 20, 28, 36, 44, 60].flatMap((messages) => [true, false].map((says) => ({ args, messages, says }))),
  );
  let lost = 0;
  // The first connection is made again: what is lost early may be noticed by nobody, the last place always is.
  for (const { args, messages, says } of [...places.slice(-1), ...sampleOf(places, 4)]) {
    const what = `${args.join(' ')}, ${messages} messages, ${says ? 'with' : 'without'} a reason, ${sampleSeed}`;
    if (says) proxy.replaceAfter(messages, goodbye, 'cut');
    else proxy.cutAfter('server', messages);
    const { code, stderr } = await run(process.execPath, [cli, ...args], { env });
    assert.doesNotMatch(stderr, /^headgate: +at /m, `${what}: ${stderr}`);
    if (code === 0) continue;
    assert.equal(code, 1, what);
    assert.match(stderr, /^headgate: \S/m, what);
    lost += 1;
  }
  assert(lost > 0);
});
