/** What is wrong in settings is told before anything is made, all of it together, with the names of the settings. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const freePorts = ['listen', 'sql', 'gateway', 'admin'].map((door) => `--${door}-port=0`);
const headgate = (command: string, dataDir: string, env: Record<string, string>, args: string[] = []) =>
  run(process.execPath, [cli, command, `--data-dir=${dataDir}`, '--listen-host=127.0.0.1', ...args], {
    env: { PATH: process.env['PATH'], HEADGATE_LISTENERS: '1', ...env },
  });

suite('settings', () => {
  test('headgate config and start refuse the same settings, and create nothing', async (t) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    const file = (name: string, text: string, mode = 0o600) =>
      writeFile(join(folder, name), text, { mode }).then(() => join(folder, name));
    const key = Buffer.alloc(32, 1).toString('base64');
    const cases: [Record<string, string>, RegExp][] = [
      [{ HEADGATE_MASTER_KEY: 'short' }, /HEADGATE_MASTER_KEY must hold 32 bytes/],
      [{ HEADGATE_MASTER_KEY_FILE: await file('key', 'short') }, /HEADGATE_MASTER_KEY_FILE: .*32 bytes/],
      [{ HEADGATE_MASTER_KEY_FILE: await file('open', key, 0o644) }, /HEADGATE_MASTER_KEY_FILE: .*chmod 600/],
      [{ HEADGATE_SQL_PASSWORD_FILE: '/nowhere' }, /HEADGATE_SQL_PASSWORD_FILE: .*ENOENT/],
      [
        { HEADGATE_SQL_PASSWORD_FILE: await file('empty', '') },
        /HEADGATE_SQL_PASSWORD_FILE: the password in/,
      ],
      [{ HEADGATE_DATABASE_URL: 'postgres://h:99999/d' }, /HEADGATE_DATABASE_URL: .*port/],
      [{ HEADGATE_DATABASE_URL: 'postgres://h/d?sslmode=on' }, /HEADGATE_DATABASE_URL: .*sslmode/],
      [{ EVENTS_API_DEV_DSN: 'mysql://h' }, /EVENTS_API_DEV_DSN: .*postgresql:/],
      [
        { HEADGATE_LISTEN_TLS_CERT: '/c.pem' },
        /HEADGATE_LISTEN_TLS_CERT is set and HEADGATE_LISTEN_TLS_KEY is not/,
      ],
      [
        { HEADGATE_SQL_TLS_CERT: '/c.pem', HEADGATE_SQL_TLS_KEY: '/k.pem' },
        /HEADGATE_SQL_TLS_CERT: \/c.pem cannot be read/,
      ],
      [{ HEADGATE_SQL_HOST: '0.0.0.0' }, /HEADGATE_SQL_HOST=0\.0\.0\.0 would let in anybody/],
      [{ HEADGATE_GATEWAY_ORIGINS: '*' }, /HEADGATE_GATEWAY_ORIGINS=\* would let every web page/],
      [{ HEADGATE_SQL_PORT: '4561' }, /HEADGATE_SQL_PORT and HEADGATE_ADMIN_PORT are both 4561/],
    ];
    const started = sampleOf(cases, 4);
    for (const one of cases) {
      const [env, words] = one;
      const name = Object.keys(env).join();
      const config = await headgate('config', dataDir, env);
      assert.match(config.stderr, words, name);
      assert.equal(config.code, 1, name);
      assert.match(config.stdout, /^HEADGATE_DATA_DIR/);
      if (started.includes(one)) {
        const { code, stderr } = await headgate('start', dataDir, env);
        assert.deepEqual([code, stderr], [1, config.stderr], name);
      }
      await assert.rejects(readdir(dataDir), /ENOENT/, name);
    }
    const notFolder = await headgate('config', await file('file', ''), {});
    assert.match(notFolder.stderr, /^headgate: HEADGATE_DATA_DIR: the data directory .*file is a file/);
    const fine = await headgate('config', dataDir, { HEADGATE_MASTER_KEY: key });
    assert.deepEqual([fine.code, fine.stderr], [0, '']);
  });

  test('contradictory settings and unknown names are refused', async (t) => {
    const dataDir = join(await temporaryFolder(t), 'data');
    const cases: [Record<string, string>, string][] = [
      [
        { HEADGATE_MASTER_KEY: 'k', HEADGATE_MASTER_KEY_FILE: 'f' },
        'HEADGATE_MASTER_KEY and HEADGATE_MASTER_KEY_FILE are both set',
      ],
      [
        { HEADGATE_SQL_PASSWORD: 'p', HEADGATE_SQL_PASSWORD_FILE: 'f' },
        'HEADGATE_SQL_PASSWORD and HEADGATE_SQL_PASSWORD_FILE are both set',
      ],
      [
        { HEADGATE_GATEWAY_TLS_CLIENT_CERT: 'required' },
        'HEADGATE_GATEWAY_TLS_CLIENT_CERT is set, but the door has no client authorities, so no client is asked',
      ],
      [
        { HEADGATE_SQL_TLS_OPTIONAL: 'true' },
        'HEADGATE_SQL_TLS_OPTIONAL is set, but the SQL door has no TLS',
      ],
      [{ EVENTS_API_TOKENS: 'x' }, 'EVENTS_API_TOKENS is not a setting: did you mean EVENTS_API_TOKEN?'],
      [
        { HEADGATE_LISTEN_PROT: '1' },
        'HEADGATE_LISTEN_PROT is not a setting: did you mean HEADGATE_LISTEN_PORT?',
      ],
      [{ HEADGATE_ELEPHANTS: '1' }, 'HEADGATE_ELEPHANTS is not a setting; see'],
      [{ headgate_sql_port: '1' }, 'headgate_sql_port must be written HEADGATE_SQL_PORT'],
      [{ events_api_dev_dsn: 'x' }, 'events_api_dev_dsn must be written EVENTS_API_DEV_DSN'],
      [
        { EVENTS_API_TOKEN: 'a', HEADGATE_GATEWAY_TOKEN: 'b' },
        'HEADGATE_GATEWAY_TOKEN and EVENTS_API_TOKEN are the same setting',
      ],
      [
        { HEADGATE_TRUSTED_PROXIES: '10.0.0.1/8' },
        'HEADGATE_TRUSTED_PROXIES contains 10.0.0.1/8, which is one address with the prefix length of a network: write 10.0.0.0/8 or 10.0.0.1',
      ],
      [
        { HEADGATE_LISTEN_NETWORKS: 'fd00:1::1/32' },
        'HEADGATE_LISTEN_NETWORKS contains fd00:1::1/32, which is one address with the prefix length of a network: write fd00:1::/32 or fd00:1::1',
      ],
      [
        { HEADGATE_LISTEN_NETWORKS: '10.0.0.0/8,,10.1.0.0/16' },
        'HEADGATE_LISTEN_NETWORKS has an empty entry',
      ],
      [{ HEADGATE_PUBLIC_URL: 'https://u:p@x.example' }, 'HEADGATE_PUBLIC_URL must not contain a user'],
    ];
    for (const [env, words] of cases) {
      const { code, stderr } = await headgate('config', dataDir, env);
      assert.ok(stderr.startsWith(`headgate: ${words}`), `${stderr} for ${words}`);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
      assert.equal(code, 1);
    }
    const twice = await headgate('config', dataDir, {}, ['--sql-port=1', '--sql-port=2']);
    assert.match(twice.stderr, /--sql-port <N>' argument '2' is invalid\. It is given twice/);
    // What is right: a link of an orchestrator, networks with blanks, the same said twice.
    const right = await headgate('config', dataDir, {
      EVENTS_API_SERVICE_HOST: '10.0.0.1',
      HEADGATE_PORT_4560_TCP_ADDR: '10.0.0.1',
      HEADGATE_TRUSTED_PROXIES: '10.0.0.0/8, 10.1.2.3 ::1/128',
      EVENTS_API_TOKEN: 'a',
      HEADGATE_GATEWAY_TOKEN: 'a',
    });
    assert.deepEqual([right.code, right.stderr], [0, '']);
  });

  test('ports and addresses are checked before anything is created', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onEnd(t, 'server', () => new Promise<void>((resolve) => void taken.close(() => resolve())));
    const { port } = taken.address() as AddressInfo;
    const dataDir = join(await temporaryFolder(t), 'data');
    const env = {
      HEADGATE_SQL_PORT: String(port),
      HEADGATE_GATEWAY_HOST: '256.1.1.1',
      EVENTS_API_TOKEN: 'x',
    };
    const args = freePorts.filter((flag) => !flag.startsWith('--sql'));
    const { code, stderr } = await headgate('start', dataDir, env, args);
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(`^headgate: 127.0.0.1:${port} is in use by another program: set HEADGATE_SQL_PORT`),
    );
    assert.match(
      stderr,
      /^headgate: HEADGATE_GATEWAY_HOST=256\.1\.1\.1 is not an address to listen on \(E\w+\)$/m,
    );
    await assert.rejects(readdir(dataDir), /ENOENT/);
  });

  test('a certificate with another key, and client authorities that are none, are told by their settings', async (t) => {
    if (requireTool(t, 'openssl') === null) return;
    const folder = await temporaryFolder(t);
    const authority = makeAuthority(folder);
    const [one, two] = [authority.issue('one', 'one'), authority.issue('two', 'two')];
    const env = { HEADGATE_LISTEN_TLS_CERT: one.cert, HEADGATE_LISTEN_TLS_KEY: two.key };
    const wrong = await headgate('config', join(folder, 'data'), env);
    assert.match(
      wrong.stderr,
      /^headgate: HEADGATE_LISTEN_TLS_KEY: .*two.key is not the key of the certificate/,
    );
    const ca = { ...env, HEADGATE_LISTEN_TLS_KEY: one.key, HEADGATE_LISTEN_TLS_CLIENT_CA: one.key };
    const noCa = await headgate('config', join(folder, 'data'), ca);
    assert.match(noCa.stderr, /^headgate: HEADGATE_LISTEN_TLS_CLIENT_CA: .*one.key contains no usable PEM/);
  });

  test('an unusable data directory, of another user or read-only, is reported with the remedy', async (t) => {
    const folder = await temporaryFolder(t);
    const dataDir = join(folder, 'data');
    await (await startHeadgate(t, { dataDir })).signal('SIGTERM');
    if (process.getuid?.() !== 0) {
      await chmod(join(dataDir, 'pg'), 0o000);
      onEnd(t, 'mode', () => chmod(join(dataDir, 'pg'), 0o700));
      const refused = await headgate('start', dataDir, {}, freePorts);
      assert.match(
        refused.stderr,
        /^headgate: HEADGATE_DATA_DIR: the database in .* belongs to another user .* chown -R$/,
      );
      return;
    }
    const readOnly = join(folder, 'read-only');
    await mkdir(readOnly);
    const mounted =
      spawnSync('mount', ['--bind', dataDir, readOnly]).status === 0 &&
      spawnSync('mount', ['-o', 'remount,ro,bind', readOnly]).status === 0;
    if (!mounted) return t.skip('nothing can be mounted here');
    onEnd(t, 'mount', () => void spawnSync('umount', [readOnly]));
    const refused = await headgate('start', readOnly, {}, freePorts);
    assert.match(
      refused.stderr,
      /^headgate: the data directory .* is on a file system that is mounted read-only: mount it/,
    );
    await rm(join(dataDir, 'ports.json'), { force: true });
  });
});
