/** The compose files: what they say about Headgate must be true of its image and its settings. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { parseDsn } from '../../src/engine/dsn.ts';
import { limits } from '../../src/config/limits.ts';
import { resolveSettings } from '../../src/config/resolve-settings.ts';
import { settingsTable } from '../../src/config/settings.ts';
import { parseDockerfile } from '../support/dockerfile.ts';
import { root } from '../support/package.ts';
import { replaced } from '../support/proxy.ts';

interface ComposeService {
  image?: string;
  read_only?: boolean;
  init?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  stop_grace_period?: string;
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  tmpfs?: string[];
  networks?: string[] | Record<string, { ipv4_address?: string }>;
}

interface Compose {
  services: Record<string, ComposeService>;
  networks: Record<string, { internal?: boolean; ipam?: { config: { subnet: string }[] } } | null>;
  volumes: Record<string, unknown>;
}

const read = async (name: string) =>
  parse(await readFile(join(root, name), 'utf8'), { merge: true }) as Compose;
const image = parseDockerfile(await readFile(join(root, 'Dockerfile'), 'utf8')).stages.at(-1);
const said = (name: string) => image?.instructions.find((one) => one.name === name)?.text ?? '';

/** `${NAME}`, `${NAME:?why}` and `${NAME:-default}`, as Compose replaces them. */
function interpolated(text: string, env: Readonly<Record<string, string>>): string {
  const innermost = /\$\{(\w+)(?::([?-])([^${}]*))?\}/;
  for (let found; (found = innermost.exec(text)) !== null;) {
    const [whole, name = '', kind, rest = ''] = found;
    const value = env[name] ?? (kind === '-' ? rest : assert.fail(`${name} has to be given`));
    text = text.replace(whole, () => value);
  }
  return text;
}

function checkHeadgate(name: string, service: ComposeService): void {
  assert.equal(service.read_only, true, name);
  assert.equal(service.init, true, name);
  assert.deepEqual(service.cap_drop, ['ALL'], name);
  assert.deepEqual(service.security_opt, ['no-new-privileges:true'], name);
  const seconds = Number(/^(\d+)s$/.exec(service.stop_grace_period ?? '')?.[1]);
  assert(seconds * 1000 > limits.drainMs + limits.engineStopMs, name);
  const places = [...(service.volumes ?? []), ...(service.tmpfs ?? [])].map((place) =>
    place.replace(/^data:/, ''),
  );
  assert(
    places.some((place) => place.startsWith('/data')),
    `${name} has its volume where the image has it`,
  );
  for (const port of service.ports ?? []) {
    assert(
      said('EXPOSE')
        .split(' ')
        .includes(port.split(':').at(-1) ?? ''),
      port,
    );
    // Doors that let in whoever reaches them are published on this machine's loopback alone.
    if (!port.endsWith(`:${settingsTable.listenPort.default}`)) assert.match(port, /^127\.0\.0\.1:/);
  }
}

suite('the compose files define safe services', () => {
  test('compose.yaml defines one Headgate with its own engine and publishes only the listener beyond loopback', async () => {
    const { services, volumes, networks } = await read('compose.yaml');
    assert.deepEqual(Object.keys(services), ['headgate']);
    const { headgate } = services;
    assert(headgate !== undefined);
    checkHeadgate('headgate', headgate);
    assert.deepEqual(headgate.ports, ['4560:4560', '127.0.0.1:4567:4567', '127.0.0.1:4561:4561']);
    assert.deepEqual(headgate.volumes, ['data:/data']);
    assert.deepEqual([Object.keys(volumes), Object.keys(networks)], [['data'], ['headgate']]);
    const { settings } = resolveSettings({ env: headgate.environment ?? {}, flags: {} });
    assert.equal(settings.databaseUrl, null);
    assert.equal(settings.insecure, true);
  });

  test('compose.external.yaml defines two equal Headgates on one PostgreSQL, at the addresses in nginx.conf', async () => {
    const { services, networks } = await read('compose.external.yaml');
    const { 'headgate-a': a, 'headgate-b': b, nginx, postgres, ...rest } = services;
    assert(a !== undefined && b !== undefined && nginx !== undefined && postgres !== undefined);
    assert.deepEqual(Object.keys(rest), []);
    const given = { POSTGRES_PASSWORD: '0123abcd', HEADGATE_MASTER_KEY: Buffer.alloc(32).toString('base64') };
    for (const [name, service] of Object.entries({ a, b })) {
      checkHeadgate(name, service);
      const env = Object.fromEntries(
        Object.entries(service.environment ?? {}).map(([key, value]) => [key, interpolated(value, given)]),
      );
      const { settings } = resolveSettings({ env, flags: {} });
      const config = parseDsn(settings.databaseUrl ?? '').servers[0]?.config;
      assert.deepEqual(
        [config?.host, config?.user, config?.password],
        ['postgres', postgres.environment?.['POSTGRES_USER'], given.POSTGRES_PASSWORD],
      );
      assert.equal(settings.masterKey, given.HEADGATE_MASTER_KEY);
    }
    assert.throws(() => interpolated(a.environment?.['HEADGATE_MASTER_KEY'] ?? '', {}), /has to be given/);
    assert.deepEqual(a.environment, b.environment);
    assert.equal(networks['database']?.internal, true);
    assert.equal(networks['front']?.ipam?.config[0]?.subnet, '172.30.60.0/24');
    const addresses = [a, b].map((one) =>
      Array.isArray(one.networks) ? undefined : one.networks?.['front'],
    );
    const conf = await readFile(join(root, 'deploy/docker/nginx.conf'), 'utf8');
    const upstream = [...conf.matchAll(/^ {4}server ([\d.]+):4560 /gm)].map(([, address]) => address);
    assert.deepEqual(
      upstream,
      addresses.map((one) => one?.ipv4_address),
    );
    assert(nginx.volumes?.includes('./deploy/docker/nginx.conf:/etc/nginx/conf.d/default.conf:ro'));
  });

  test("the compose file's nginx.conf is the tested one with other addresses", async () => {
    const tested = await readFile(join(root, 'deploy/nginx/headgate.conf'), 'utf8');
    const directives = (text: string) =>
      text
        .split('\n')
        .map((line) => line.replace(/\s*#.*/, '').trim())
        .filter((line) => line !== '');
    const expected = replaced(directives(tested).join('\n'), [
      [
        'server 127.0.0.1:4560 max_fails=1 fail_timeout=1s;',
        'server 172.30.60.11:4560 max_fails=1 fail_timeout=1s;\nserver 172.30.60.12:4560 max_fails=1 fail_timeout=1s;',
      ],
      ['server_name hooks.example.com;', 'server_name _;'],
      ['/etc/ssl/hooks.example.com.pem', '/etc/nginx/certificates/headgate.pem'],
      ['/etc/ssl/hooks.example.com.key', '/etc/nginx/certificates/headgate.key'],
    ]);
    const shipped = await readFile(join(root, 'deploy/docker/nginx.conf'), 'utf8');
    assert.equal(directives(shipped).join('\n'), expected);
  });
});
