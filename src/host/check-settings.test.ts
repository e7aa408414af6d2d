/** What `headgate start` and `headgate config` say of settings before anything is made. */
import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { makeAuthority } from '../../test/support/certificates.ts';
import { temporaryFolder } from '../../test/support/headgate.ts';
import { requireTool } from '../../test/support/tools.ts';
import { resolveSettings } from '../config/resolve-settings.ts';
import { gatewayProblemsOf, problemsOf } from './check-settings.ts';

/** In a folder where nothing is made. */
async function stage(t: TestContext) {
  const folder = await temporaryFolder(t);
  const dataDir = join(folder, 'data');
  /** A line for each problem. */
  const told = async (env: Readonly<Record<string, string>>, problems = problemsOf): Promise<string> => {
    const lines = async () =>
      problems(resolveSettings({ env: { HEADGATE_DATA_DIR: dataDir, ...env }, flags: {} }).settings);
    const found = await lines().catch(({ name, message }: Error) => {
      assert.match(name, /^(?:SettingsError|GuardError)$/, message);
      return [message];
    });
    await assert.rejects(readdir(dataDir), /ENOENT/);
    return found.join('\n');
  };
  const file = async (name: string, text: string, mode = 0o600): Promise<string> => {
    await writeFile(join(folder, name), text, { mode });
    return join(folder, name);
  };
  return { folder, file, told };
}

suite('the settings are checked before a door opens', () => {
  test('settings with unusable values are refused with the name of the setting', async (t) => {
    const { file, told } = await stage(t);
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
      [
        { HEADGATE_SQL_PASSWORD_FILE: '/dev/null' },
        /^HEADGATE_SQL_PASSWORD_FILE: the password in \/dev\/null must be 1 to 1024/,
      ],
      [
        { HEADGATE_SQL_PASSWORD: 'naïve' },
        /^HEADGATE_SQL_PASSWORD must be 1 to 1024 printable ASCII characters$/,
      ],
      [
        { HEADGATE_SQL_PASSWORD: 'x', HEADGATE_DATABASE_URL: 'postgresql://localhost/x' },
        /^HEADGATE_SQL_PASSWORD is for the embedded engine/,
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
      [
        { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
        /OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not spoken here/,
      ],
      [
        { HEADGATE_EVENTS_ROLE: 'clerk', HEADGATE_DATABASE_URL: 'postgresql://127.0.0.1:1/x' },
        /HEADGATE_EVENTS_ROLE is for the embedded engine/,
      ],
      [{ HEADGATE_LISTENERS: '33' }, /^HEADGATE_LISTENERS must be a whole number from 0 to 32$/],
      [{ HEADGATE_GATEWAY_ORIGINS: '*' }, /HEADGATE_GATEWAY_ORIGINS=\* would let every web page/],
      [{ HEADGATE_SQL_PORT: '4561' }, /HEADGATE_SQL_PORT and HEADGATE_ADMIN_PORT are both 4561/],
    ];
    for (const [env, words] of cases) assert.match(await told(env), words);
    assert.match(
      await told({ HEADGATE_DATA_DIR: await file('file', '') }),
      /^HEADGATE_DATA_DIR: the data directory .*file is a file/,
    );
    assert.equal(await told({ HEADGATE_MASTER_KEY: key }), '');
  });

  test('contradictory settings and unknown names are refused', async (t) => {
    const { told } = await stage(t);
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
      const said = await told(env);
      assert.ok(said.startsWith(words), `${said} for ${words}`);
      assert.equal(said.split('\n').length, 1, said);
    }
    // What is right: a link of an orchestrator, networks with blanks, the same said twice.
    const right = {
      EVENTS_API_SERVICE_HOST: '10.0.0.1',
      HEADGATE_PORT_4560_TCP_ADDR: '10.0.0.1',
      HEADGATE_TRUSTED_PROXIES: '10.0.0.0/8, 10.1.2.3 ::1/128',
      EVENTS_API_TOKEN: 'a',
      HEADGATE_GATEWAY_TOKEN: 'a',
    };
    assert.equal(await told(right), '');
  });

  test('a TLS certificate with another key, or unusable client authorities, are reported by their setting', async (t) => {
    if (requireTool(t, 'openssl') === null) return;
    const { folder, file, told } = await stage(t);
    const authority = makeAuthority(folder);
    const [one, two] = [authority.issue('one', 'one'), authority.issue('two', 'two')];
    const right = {
      HEADGATE_LISTEN_TLS_CERT: one.cert,
      HEADGATE_LISTEN_TLS_KEY: one.key,
      HEADGATE_SQL_TLS_CERT: one.cert,
      HEADGATE_SQL_TLS_KEY: one.key,
      HEADGATE_GATEWAY_TLS_CERT: one.cert,
      HEADGATE_GATEWAY_TLS_KEY: one.key,
    };
    assert.equal(await told(right), '');
    const noise = await file('noise.pem', 'noise');
    const cases: [change: Record<string, string>, said: RegExp][] = [
      [{ HEADGATE_LISTEN_TLS_CERT: '/nowhere.pem' }, /^HEADGATE_LISTEN_TLS_CERT: \/nowhere\.pem cannot be read \(ENOENT\)$/],
      [{ HEADGATE_LISTEN_TLS_KEY: two.key }, /^HEADGATE_LISTEN_TLS_KEY: .*two\.key is not the key of the certificate in .*one\.pem$/],
      [{ HEADGATE_LISTEN_TLS_CERT: noise }, /^HEADGATE_LISTEN_TLS_CERT: .*noise\.pem contains no usable PEM/],
      [{ HEADGATE_LISTEN_TLS_CLIENT_CA: noise }, /^HEADGATE_LISTEN_TLS_CLIENT_CA: .*noise\.pem contains no usable PEM/],
      [{ HEADGATE_LISTEN_TLS_CLIENT_CA: one.key }, /^HEADGATE_LISTEN_TLS_CLIENT_CA: .*one\.key contains no usable PEM/],
      [{ HEADGATE_LISTEN_TLS_CERT: '', HEADGATE_LISTEN_TLS_KEY: '', HEADGATE_LISTEN_TLS_CLIENT_CA: authority.cert }, /^HEADGATE_LISTEN_TLS_CLIENT_CA is set, but the door has no TLS/],
      [{ HEADGATE_LISTEN_TLS_CLIENT_CERT: 'maybe' }, /^HEADGATE_LISTEN_TLS_CLIENT_CERT must be one of required, optional$/],
      [{ HEADGATE_SQL_TLS_KEY: '' }, /^HEADGATE_SQL_TLS_CERT is set and HEADGATE_SQL_TLS_KEY is not: TLS needs both$/],
      [{ HEADGATE_SQL_TLS_KEY: two.key }, /^HEADGATE_SQL_TLS_KEY: .*two\.key is not the key of the certificate in .*one\.pem$/],
      [{ HEADGATE_GATEWAY_TLS_KEY: '' }, /^HEADGATE_GATEWAY_TLS_CERT is set and HEADGATE_GATEWAY_TLS_KEY is not: TLS needs both$/],
      [{ HEADGATE_GATEWAY_TLS_KEY: two.key }, /^HEADGATE_GATEWAY_TLS_KEY: .*two\.key is not the key of the certificate in .*one\.pem$/],
      [{ HEADGATE_GATEWAY_TLS_CERT: '/nowhere.pem' }, /^HEADGATE_GATEWAY_TLS_CERT: \/nowhere\.pem cannot be read \(ENOENT\)$/],
      [{ HEADGATE_GATEWAY_TLS_CERT: '', HEADGATE_GATEWAY_TLS_KEY: '', HEADGATE_GATEWAY_TLS_CLIENT_CA: authority.cert }, /^HEADGATE_GATEWAY_TLS_CLIENT_CA is set, but the door has no TLS/],
      [{ HEADGATE_GATEWAY_NETWORKS: '10/8' }, /^HEADGATE_GATEWAY_NETWORKS must contain networks/],
    ]; // prettier-ignore
    for (const [change, words] of cases) assert.match(await told({ ...right, ...change }), words);
    // `headgate gateway` looks at its own door alone.
    for (const [change, words] of cases.slice(-5, -1))
      assert.match(await told({ ...right, ...change }, gatewayProblemsOf), words);
  });

  test('unusable databases and addresses of the gateway are reported without a password', async (t) => {
    const { told } = await stage(t);
    const dsn = 'postgresql://u:pass-word@h/d';
    for (const [env, words] of [
      [{ EVENTS_API_DEV_DSN: 'mysql://u:pass-word@h/d' }, /^EVENTS_API_DEV_DSN: the database URL cannot be used: it must begin with postgresql/],
      [{ EVENTS_API_DEV_DSN: 'pass-word' }, /^EVENTS_API_DEV_DSN: the database URL cannot be used/],
      [{ EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h:99999/d' }, /^EVENTS_API_DEV_DSN: the database URL cannot be used/],
      [{ EVENTS_API_DEV_DSN: `${dsn}?sslmode=maybe` }, /sslmode must be one of/],
      [{ EVENTS_API_DEV_DSN: `${dsn}?sslrootcert=/no/such/file&sslmode=verify-full` }, /\/no\/such\/file cannot be read/],
      [{ EVENTS_API_DEV_DSN: dsn, EVENTS_API_HOST: '0.0.0.0' }, /^EVENTS_API_HOST=0.0.0.0 would let in anybody/],
      [{ EVENTS_API_DEV_DSN: dsn, EVENTS_API_PORT: 'x' }, /^EVENTS_API_PORT must be a whole number/],
      [{ EVENTS_API_DEV_DSN: dsn, EVENTS_API_ALLOWED_ORIGINS: '*' }, /would let every web page run SQL/],
      [{ EVENTS_API_DEV_DSN: dsn, EVENTS_API_ALLOWED_ORIGINS: 'evil' }, /must contain origins such as/],
    ] as const) {
      const said = await told(env, gatewayProblemsOf);
      assert.match(said, words);
      assert.doesNotMatch(said, /pass-word/);
    } // prettier-ignore
    assert.equal(await told({ EVENTS_API_DEV_DSN: dsn }, gatewayProblemsOf), '');
  });
});
