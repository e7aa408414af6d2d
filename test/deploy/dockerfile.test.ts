/** The image: what its Dockerfile must say, and what its commands do where no container engine is. */
import assert from 'node:assert/strict';
import { cp, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parseDockerfile } from '../support/dockerfile.ts';
import type { Stage } from '../support/dockerfile.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { serves } from '../support/image-serves.ts';
import { buildImage, namespacesRefused } from '../support/image.ts';
import { root } from '../support/package.ts';
import { isLong } from '../support/sample.ts';

const file = parseDockerfile(await readFile(join(root, 'Dockerfile'), 'utf8'));
const final = file.stages.at(-1) as Stage;
const all = (stage: Stage, name: string) => stage.instructions.filter((one) => one.name === name);
const only = (name: string) => {
  const [one, ...more] = all(final, name);
  assert(one !== undefined && more.length === 0, `one ${name} in the last stage`);
  return one;
};
/** What the build context is let through to the builder: the last line of .dockerignore that matches decides. */
const ignoreLines = (await readFile(join(root, '.dockerignore'), 'utf8'))
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

function isSent(path: string): boolean {
  let sent = true;
  for (const line of ignoreLines) {
    const pattern = line.replace(/^!/, '');
    const expression = pattern
      .replaceAll('.', String.raw`\.`)
      .replaceAll('**/', '(.*/)?')
      .replaceAll(/(?<![.)])\*/g, '[^/]*');
    if (new RegExp(`^${expression}(/|$)`).test(path)) sent = line.startsWith('!');
  }
  return sent;
}

suite('the Dockerfile defines an unprivileged image', () => {
  test('the Dockerfile builds in named stages on Debian slim images of a Node LTS', () => {
    for (const stage of file.stages) {
      assert.match(stage.image, /^node:(22|24)-(bookworm|trixie)-slim$/);
      assert.notEqual(stage.name, '');
    }
  });

  test('the Dockerfile installs the version of the Kubernetes client that the operator is tested with', async () => {
    const read = async (path: string) =>
      JSON.parse(await readFile(join(root, path), 'utf8')) as Record<string, Record<string, string>>;
    const name = '@kubernetes/client-node';
    const { dependencies } = await read('deploy/docker/operator/package.json');
    const tested = await read('scripts/packages/kubernetes-client/package.json');
    assert.equal(dependencies?.[name], tested['dependencies']?.[name]);
  });

  test('the Dockerfile runs unprivileged, by exec, with one volume, a stop signal and a built-in health check', () => {
    const [uid = 0, gid = 0] = only('USER').text.split(':').map(Number);
    assert(uid >= 10_000 && gid >= 10_000, 'numbers, so that Kubernetes can tell that it is not root');
    const user = final.instructions.indexOf(only('USER'));
    const later = final.instructions.slice(user).map(({ name }) => name);
    assert(!later.some((name) => ['RUN', 'COPY', 'ADD'].includes(name)), 'nothing is made as that user');
    assert.deepEqual(only('VOLUME').words, ['/data']);
    assert.equal(only('STOPSIGNAL').text, 'SIGTERM');
    assert.deepEqual(only('CMD').words, ['start']);
    assert.equal(only('ENTRYPOINT').words?.[0], 'node');
    assert.equal(only('HEALTHCHECK').words?.[0], 'node');
    assert.deepEqual(only('EXPOSE').text.split(' '), ['4560', '4561', '4567']);
  });

  test('the Dockerfile copies only existing files that are sent to the builder, downloads nothing and holds no secret', async () => {
    for (const stage of file.stages) {
      for (const { text, flags } of all(stage, 'COPY')) {
        if (flags['from'] !== undefined) {
          assert(file.stages.some(({ name }) => name === flags['from']));
          continue;
        }
        for (const name of text.split(/\s+/).slice(0, -1)) {
          await stat(join(root, name));
          assert(isSent(name), `${name} is let through by .dockerignore`);
        }
      }
      for (const { name, text } of stage.instructions) {
        assert.notEqual(name, 'ADD');
        if (name === 'RUN') assert.doesNotMatch(text, /curl|wget|sudo|apt|chmod 777|(^|\s)cd /);
        if (name === 'ENV' || name === 'ARG') assert.doesNotMatch(text, /key|secret|token|password/i);
      }
    }
    for (const name of [
      'node_modules',
      'headgate-data/master.key',
      '.git',
      '.env',
      'certificates/headgate.key',
      'dist',
      'src/x.test.ts',
      'test',
    ]) {
      assert(!isSent(name), `${name} stays out of the build context`);
    }
  });

  // It runs `npm ci` twice.
  const skip = !isLong && 'in `npm run test:long`';
  test(
    "the Dockerfile's commands build an image that works unprivileged on a read-only root",
    { skip },
    async (t) => {
      const refused = await namespacesRefused();
      if (refused !== null) {
        if (process.env['CI'] === 'true') assert.fail(refused);
        return t.skip(refused);
      }
      const folder = await temporaryFolder(t);
      const context = join(folder, 'context');
      await cp(root, context, {
        recursive: true,
        filter: (path) =>
          path === root || isSent(path.slice(root.length)) || isAbove(path.slice(root.length)),
      });
      const image = await buildImage(file, context, join(folder, 'stages'));
      await serves(t, image, join(folder, 'volume'));
    },
  );
});

/** A folder that is not sent itself may hold one that is. */
const isAbove = (path: string) =>
  ignoreLines.some((line) => line.startsWith('!') && line.slice(1).startsWith(`${path}/`));
