// buildah for scripts that build the image, on a machine without a container engine: all that it keeps is below one folder, and what npm needs to
// reach packages is mounted where the build finds it. Told by the environment, so that commands need no options for it. And a base
// image for machines that reach no registry of images.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** What a command printed; the process ends with a command that failed. */
export function run(command, args, options = {}) {
  const ran = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 2 ** 28, ...options });
  if (ran.status === 0) return (ran.stdout ?? '').trim();
  console.error(
    `${command} ${args.join(' ')}: ${ran.error?.message ?? ''}\n${ran.stdout ?? ''}${ran.stderr ?? ''}`.trim(),
  );
  return process.exit(1);
}

/** A folder of this user's in which things that take minutes to make outlive the run. */
export function cached(name) {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'headgate');
  mkdirSync(folder, { recursive: true });
  return join(folder, name);
}

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
  const get = (name) => run('npm', ['config', 'get', name]);
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

/**
 * The name of a base image: what HEADGATE_IMAGE_BASE says, or one that is made of Debian and this machine's Node. HEADGATE_IMAGE_DEBIAN may
 * name a folder that debootstrap has made; without it debootstrap makes one, once, in the user's cache folder.
 */
export function baseImage(env) {
  const given = process.env.HEADGATE_IMAGE_BASE;
  if (given !== undefined) return given;
  const build = (...args) => run('buildah', args, { env });
  const container = build('from', 'scratch');
  build('add', '--quiet', container, process.env.HEADGATE_IMAGE_DEBIAN ?? debian(), '/');
  build('add', '--quiet', '--chmod', '755', container, process.execPath, '/usr/local/bin/node');
  const npm = join(run('npm', ['root', '--global']), 'npm');
  build('add', '--quiet', container, npm, '/usr/local/lib/node_modules/npm');
  const root = build('mount', container);
  run('ln', ['-s', '../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm')]);
  build('umount', container);
  build('commit', '--quiet', '--rm', '--timestamp', '0', container, 'localhost/node-base');
  return 'localhost/node-base';
}

/** By rename: a run that was ended leaves nothing that looks whole. */
function debian() {
  const folder = cached('debian-bookworm');
  if (existsSync(folder)) return folder;
  const beside = `${folder}.${process.pid}`;
  run('debootstrap', ['--variant=minbase', 'bookworm', beside]);
  renameSync(beside, folder);
  return folder;
}
