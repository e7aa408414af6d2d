/** Sockets that are open before Headgate is, as systemd hands them on. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import type { QueryResultRow } from 'pg';
import { createServer } from 'node:net';
import type { AddressInfo, Server } from 'node:net';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { forSeconds, freePorts, temporaryFolder, watched } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { fromTemplate } from '../support/template.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const [command, ...args] = [process.execPath, ...forSeconds, cli, 'start'];

async function listening(t: TestContext, host = '127.0.0.1'): Promise<Server & { port: number }> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  onEnd(t, 'socket', () => void server.close());
  return Object.assign(server, { port: (server.address() as AddressInfo).port });
}

interface Ports {
  readonly pid: number;
  readonly listen: AddressInfo;
  readonly sql: AddressInfo;
  readonly gateway: AddressInfo;
}

interface Handed {
  readonly sockets: readonly (Server | number)[];
  readonly names: string;
  /** Of whom the sockets are; by default the process itself. */
  readonly pid?: string;
}

const fdOf = (socket: Server | number): number =>
  typeof socket === 'number' ? socket : (socket as unknown as { _handle: { fd: number } })._handle.fd;

/** With these sockets from number 3 on. */
async function start(t: TestContext, handed: Handed): Promise<Headgate> {
  const dataDir = await temporaryFolder(t);
  await fromTemplate(dataDir);
  const env = `LISTEN_FDS=${handed.sockets.length} LISTEN_FDNAMES='${handed.names}'`;
  const child = spawn(
    '/bin/sh',
    [
      '-c',
      `${env} LISTEN_PID=${handed.pid ?? '$$'} exec "$@"`,
      'sh',
      command,
      ...args,
      `--data-dir=${dataDir}`,
    ].concat(freePorts, '--listeners=1'),
    {
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe', ...handed.sockets.map(fdOf)],
    },
  );
  return watched(t, child, dataDir);
}

const table = `CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`;

suite('sockets passed by systemd are used', () => {
  for (const listeners of sampleOf([1, 2], 1))
    test(`passed sockets serve all ports and keep connections during a restart (${listeners} listener processes)`, async (t) => {
      const sockets = [await listening(t), await listening(t), await listening(t)];
      const [sql = 0, listen = 0, gateway = 0] = sockets.map(({ port }) => port);
      const dataDir = await temporaryFolder(t);
      await fromTemplate(dataDir);
      const more = [`--listeners=${listeners}`, `--data-dir=${dataDir}`, '--admin-port=0'];
      // Has the sockets for as long as systemd would have them, and accepts nothing: a Headgate, a line of ours, a second one.
      const script = `for turn in 1 2; do sh -c 'LISTEN_PID=$$ exec "$@"' sh "$@"; echo "ended $?"; read -r _; done`;
      const holder = spawn('/bin/sh', ['-c', script, 'sh', command, ...args, ...more], {
        env: { PATH: process.env['PATH'], LISTEN_FDS: '3', LISTEN_FDNAMES: 'sql:listen:gateway' },
        stdio: ['pipe', 'pipe', 'ignore', ...sockets.map(fdOf)],
      });
      for (const socket of sockets) socket.close();
      let said = '';
      holder.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
      const running = () =>
        within(30_000, async () => JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as Ports);
      const stop = async (count: number) => {
        process.kill((await running()).pid, 'SIGTERM');
        await within(30_000, async () => assert.equal(said.split('ended 0').length, count + 1));
      };
      onEnd(t, 'holder', () => void holder.kill('SIGKILL'));
      const query = async <Row extends QueryResultRow>(text: string) => {
        const client = new Client({ host: '127.0.0.1', port: sql, user: 'root', database: 'dev' });
        await client.connect();
        const { rows } = await client.query<Row>(text);
        await client.end();
        return rows;
      };
      const post = async () =>
        (await asked(`http://127.0.0.1:${listen}/webhook/dev/public/t`, { method: 'POST', body: '{}' }))
          .status;

      const ports = await running();
      assert.deepEqual([ports.listen.port, ports.sql.port, ports.gateway.port], [listen, sql, gateway]);
      await query(table);
      assert.equal(await post(), 200);
      const sqlUrl = `http://127.0.0.1:${gateway}/v1/sql`;
      assert.equal((await asked(sqlUrl, { method: 'POST', body: 'SELECT 1' })).status, 200);
      await stop(1);
      // Nobody accepts now, and nobody refuses.
      const waiting = post();
      holder.stdin?.write('\n');
      assert.equal(await waiting, 200);
      assert.deepEqual(await query('SELECT count(*)::int AS n FROM t'), [{ n: 2 }]);
      await stop(2);
    });

  test('an unusable passed socket is refused in one sentence, before anything is created', async (t) => {
    const [one, other, open] = [await listening(t), await listening(t), await listening(t, '0.0.0.0')];
    const client = connect(one.port, '127.0.0.1');
    await once(client, 'connect');
    onEnd(t, 'client', () => void client.destroy());
    const unusable = [
      [{ sockets: [one, other], names: 'listen:listen' }, /^headgate: two sockets named listen were passed/],
      [
        { sockets: [one, other], names: 'listen:web' },
        /^headgate: a socket named "web" was passed .* one of listen, challenge, sql, gateway, admin\n/,
      ],
      [{ sockets: [one, other], names: 'listen' }, /^headgate: a socket named "" was passed/],
      [
        { sockets: [one], names: 'challenge' },
        /^headgate: a socket named challenge was passed to Headgate, whose settings do not open that door\n/,
      ],
      [
        { sockets: [1], names: 'listen' },
        /^headgate: what was passed to Headgate as the socket named listen is not a listening TCP socket\n/,
      ],
      [
        { sockets: [fdOf(client as unknown as Server)], names: 'sql' },
        /^headgate: what was passed to Headgate as the socket named sql is not a listening TCP/,
      ],
      [
        { sockets: [open], names: 'sql' },
        /^headgate: HEADGATE_SQL_HOST=0\.0\.0\.0 would let in anybody who can reach it/,
      ],
      [{ sockets: [open], names: 'admin' }, /^headgate: HEADGATE_ADMIN_HOST=0\.0\.0\.0 would let in anybody/],
    ] as const;
    t.diagnostic(sampleSeed);
    for (const [handed, says] of sampleOf<(typeof unusable)[number]>(unusable, 3)) {
      const headgate = await start(t, handed);
      const { code } = await headgate.ended;
      assert.deepEqual([code, headgate.stderr.trim().split('\n').length], [1, 1], headgate.stderr);
      assert.match(headgate.stderr, says);
    }
  });

  test('sockets passed to another process are ignored, and a single socket needs no name', async (t) => {
    const socket = await listening(t, '::1');
    const foreign = await (await start(t, { sockets: [socket], names: 'web', pid: '1' })).ready();
    assert.notEqual(foreign.ports.listen.port, socket.port);
    await foreign.signal('SIGTERM');
    const single = await (await start(t, { sockets: [socket], names: 'headgate.socket' })).ready();
    assert.deepEqual([single.ports.listen.host, single.ports.listen.port], ['::1', socket.port]);
  });

  test('systemd-socket-activate passes a privileged port to an unprivileged Headgate', async (t) => {
    const [activate, setpriv] = [requireTool(t, 'systemd-socket-activate'), requireTool(t, 'setpriv')];
    if (activate === null || setpriv === null) return;
    if (process.getuid?.() !== 0) return t.skip('only root opens the port');
    const port = await lowPort();
    const dataDir = await temporaryFolder(t);
    chownSync(dataDir, 65_534, 65_534);
    const user = [
      setpriv,
      '--reuid=65534',
      '--regid=65534',
      '--clear-groups',
      '--bounding-set=-all',
      '--no-new-privs',
    ];
    const ports = [
      '--sql-port=0',
      '--gateway-port=0',
      '--admin-port=0',
      '--listeners=2',
      `--data-dir=${dataDir}`,
    ];
    const child = spawn(
      activate,
      [`--listen=127.0.0.1:${port}`, '--fdname=listen', ...user, command, ...args, ...ports],
      { env: { PATH: process.env['PATH'] }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const headgate = watched(t, child, dataDir);
    await within(10_000, async () => assert.match(headgate.stderr, /Listening on/));
    // The first who connects has it started, and is answered by it.
    const early = asked(`http://127.0.0.1:${port}/webhook/dev/public/t`, { method: 'POST', body: '{}' });
    const [answer] = await Promise.all([early, headgate.ready()]);
    assert.equal(answer.status, 404);
    assert.equal(headgate.ports.listen.port, port);
    await (await headgate.client(t)).query(table);
    assert.equal((await headgate.post('dev/public/t', '{}')).status, 200);
    assert.equal((await headgate.signal('SIGTERM')).code, 0);
  });
});

/** One below 1024 that nobody has, and to which fetch() connects: it refuses those of mail and FTP over TLS, from 989 on. */
async function lowPort(): Promise<number> {
  for (let port = 700 + Math.floor(Math.random() * 280); ; port = port >= 988 ? 700 : port + 1) {
    const server = createServer().listen(port, '127.0.0.1');
    const ended = await Promise.race([
      once(server, 'listening').then(() => 'free'),
      once(server, 'error').then(() => 'taken'),
    ]);
    server.close();
    if (ended === 'free') return port;
  }
}
