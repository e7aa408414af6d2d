// buildah for scripts that build the image, on a machine without a container engine: all that it keeps is below one folder, and what npm needs to
// reach packages is mounted where the build finds it. Told by the environment, so that commands need no options for it. And a base
// image for machines that reach no registry of images.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { madeOnce, must, printed } from './commands.mjs';

/** Settings for buildah below `folder`, as the environment to add. */
export function containerSettings(folder) {
  const file = (name, text) => {
    writeFileSync(join(folder, name), `${text}\n`, { mode: 0o600 });
    return join(folder, name);
  };
  const quoted = (name) => JSON.stringify(join(folder, name));
  const storage = `[storage]\ndriver = "vfs"\ngraphroot = ${quoted('store')}\nrunroot = ${quoted('run')}`;
  const containers = `[containers]\nnetns = "host"\nvolumes = ${JSON.stringify(npmVolumes(folder, file))}`;
  return {
    CONTAINERS_STORAGE_CONF: file('storage.conf', storage),
    CONTAINERS_CONF: file('containers.conf', containers),
    BUILDAH_ISOLATION: 'chroot',
  };
}

/** What npm needs on this machine to reach packages, as one file of npm's own, and a cache; nothing of it becomes part of the image. */
function npmVolumes(folder, file) {
  const get = (name) => printed('npm', ['config', 'get', name]);
  const inside = '/var/cache/npm';
  const cache = join(folder, 'npm-cache');
  mkdirSync(cache, { recursive: true });
  // The user's come last, and count.
  const texts = ['globalconfig', 'userconfig'].map(get).filter((path) => existsSync(path));
  const lines = [...texts.map((path) => readFileSync(path, 'utf8')), `cache=${inside}`];
  const certificates = get('cafile');
  return [
    `${file('npmrc', lines.join('\n'))}:/usr/local/etc/npmrc:ro`,
    `${cache}:${inside}:rw`,
    ...(existsSync(certificates) ? [`${certificates}:${certificates}:ro`] : []),
  ];
}

/** The image of the checkout, as `docker build` builds it. */
export function buildImage(env, base, name) {
  const began = Date.now();
  const options = ['--no-cache', '--timestamp', '0', '--format', 'docker', '--quiet'];
  printed('buildah', ['bud', ...options, '--build-arg', `NODE_IMAGE=${base}`, '--tag', name, '.'], { env });
  console.log(`${name}: built in ${Math.round((Date.now() - began) / 1_000)} s`);
}

/**
 * The name of a base image: what HEADGATE_IMAGE_BASE says, or one that is made of Debian and this machine's Node. HEADGATE_IMAGE_DEBIAN may
 * name a folder that debootstrap has made; without it debootstrap makes one, once, in the user's cache folder.
 */
export function baseImage(env) {
  const given = process.env.HEADGATE_IMAGE_BASE;
  if (given !== undefined) return given;
  const build = (...args) => printed('buildah', args, { env });
  const debian =
    process.env.HEADGATE_IMAGE_DEBIAN ??
    madeOnce('debian-bookworm', (folder) => must('debootstrap', ['--variant=minbase', 'bookworm', folder]));
  const container = build('from', 'scratch');
  build('add', '--quiet', container, debian, '/');
  build('add', '--quiet', '--chmod', '755', container, process.execPath, '/usr/local/bin/node');
  const npm = join(printed('npm', ['root', '--global']), 'npm');
  build('add', '--quiet', container, npm, '/usr/local/lib/node_modules/npm');
  const root = build('mount', container);
  printed('ln', ['-s', '../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm')]);
  build('umount', container);
  build('commit', '--quiet', '--rm', '--timestamp', '0', container, 'localhost/node-base');
  return 'localhost/node-base';
}
