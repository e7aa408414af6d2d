/**
 * The Dockerfile's stages without a container engine: each is a folder that becomes the root of a mount namespace, with
 * this machine's /usr (read-only) and a copy of its /etc instead of the base image. COPY is done here, RUN inside, as
 * root; the image's command runs inside as the image specifies, as pid 1 of its own pid namespace, without any
 * capability, on a root mounted read-only. Not covered: the base image itself, which has another Debian and Node.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Dockerfile, Instruction, Stage } from './dockerfile.ts';
import { run } from './run.ts';

export interface Image {
  readonly root: string;
  /** `root` contains the base image; false: this machine's /usr replaces it. */
  readonly isWhole: boolean;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly volume: string;
  readonly healthcheck: readonly string[];
  readonly command: readonly string[];
}

/** An image's configuration, in Docker's terms. */
export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly StopSignal: string;
  readonly Volumes: Readonly<Record<string, object>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/** An image made by a builder, with its file system at `root`. */
export function builtImage(root: string, config: ImageConfig): Image {
  const [kind, ...healthcheck] = config.Healthcheck.Test;
  assert.equal(kind, 'CMD');
  return {
    root,
    isWhole: true,
    workdir: config.WorkingDir,
    env: Object.fromEntries(config.Env.map((it) => it.split(/=(.*)/s).slice(0, 2) as [string, string])),
    user: config.User,
    volume: Object.keys(config.Volumes)[0] ?? '',
    healthcheck,
    command: [...config.Entrypoint, ...config.Cmd],
  };
}

/** Builds every stage below `folder`, from the content of `context`, and returns the last. */
export async function buildImage(file: Dockerfile, context: string, folder: string): Promise<Image> {
  const built = new Map<string, Image>();
  let last: Image | undefined;
  for (const stage of file.stages) {
    last = await buildStage(stage, context, join(folder, stage.name), built);
    built.set(stage.name, last);
  }
  return last ?? assert.fail('a Dockerfile has a stage');
}

async function buildStage(
  stage: Stage,
  context: string,
  root: string,
  built: ReadonlyMap<string, Image>,
): Promise<Image> {
  await baseImage(root);
  const none = { volume: '', healthcheck: [], command: [] };
  let image: Image = { root, isWhole: false, workdir: '/', env: {}, user: '0:0', ...none };
  for (const instruction of stage.instructions) {
    const { name, text, words, flags } = instruction;
    if (name === 'WORKDIR') {
      image = { ...image, workdir: text };
      await mkdir(join(root, text), { recursive: true });
    } else if (name === 'COPY') {
      const from = flags['from'] === undefined ? context : built.get(flags['from'])?.root;
      await copy(instruction, from ?? assert.fail(text), image);
    } else if (name === 'RUN') {
      const ran = await run('unshare', [...mounting(image), 'sh', '-c', text], { env: shellEnv(image) });
      assert.equal(ran.code, 0, `RUN ${text}\n${ran.stdout}${ran.stderr}`);
    } else if (name === 'ENV') {
      const [key = '', value = ''] = text.split(/=(.*)/s);
      image = { ...image, env: { ...image.env, [key]: value } };
    } else if (name === 'USER') image = { ...image, user: text };
    else if (name === 'VOLUME') image = { ...image, volume: words?.[0] ?? '' };
    else if (name === 'HEALTHCHECK') image = { ...image, healthcheck: words ?? [] };
    else if (name === 'ENTRYPOINT' || name === 'CMD')
      image = { ...image, command: [...image.command, ...(words ?? [])] };
    else assert(['ARG', 'EXPOSE', 'STOPSIGNAL'].includes(name), `the builder knows ${name}`);
  }
  return image;
}

async function baseImage(root: string): Promise<void> {
  for (const name of ['usr', 'proc', 'dev', 'root', 'tmp', 'var', 'opt', 'run'])
    await mkdir(join(root, name), { recursive: true });
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) await symlink(`usr/${name}`, join(root, name));
  const copied = await run('cp', ['-a', '/etc', join(root, 'etc')]);
  assert.equal(copied.code, 0, copied.stderr);
}

async function copy({ text, flags }: Instruction, from: string, image: Image): Promise<void> {
  const names = text.split(/\s+/);
  const to = names.pop() ?? '';
  const target = isAbsolute(to) ? join(image.root, to) : join(image.root, image.workdir, to);
  for (const name of names) {
    const folder = to.endsWith('/');
    const place = folder ? join(target, name.split('/').at(-1) ?? '') : target;
    await cp(join(from, name), place, { recursive: true, verbatimSymlinks: true });
    if (flags['chown'] === undefined) continue;
    const copied = (await readdir(join(from, name))).map((it) => join(place, it));
    const owned = await run('chown', ['-R', flags['chown'], ...copied]);
    assert.equal(owned.code, 0, owned.stderr);
  }
}

const shellEnv = (image: Image) => ({
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/root',
  npm_config_update_notifier: 'false',
  ...image.env,
});

/** `npm` finds its settings and its cache in the home directory of the user that runs the test. */
function mounting(image: Image): string[] {
  const script = `
    mount --rbind /usr "$1/usr" && mount -o remount,bind,ro "$1/usr" && mount --rbind /dev "$1/dev" &&
    mount -t proc proc "$1/proc" && mount --bind "$2" "$1/root" &&
    root=$1 && workdir=$3 && shift 3 && exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$workdir" "$@"`;
  return [...namespace, 'sh', '-ec', script, 'sh', image.root, homedir(), image.workdir];
}

const namespace = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'];

export interface Container {
  /** Takes the program and its arguments. */
  readonly arguments: (command: readonly string[]) => string[];
  readonly env: Readonly<Record<string, string>>;
}

/** How to start something in the image, with `volume` as its volume: `unshare ARGUMENTS`. */
export function container(image: Image, volume: string, env: Readonly<Record<string, string>>): Container {
  const base = image.isWhole ? '' : 'mount --rbind /usr "$1/usr" && mount -o remount,bind,ro "$1/usr" &&';
  const script = `
    mount --bind "$1" "$1" && ${base}
    mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && mount --bind "$2" "$1$3" &&
    mount -o remount,bind,ro "$1" &&
    root=$1 && workdir=$4 && uid=$5 && gid=$6 && shift 6 &&
    exec chroot "$root" setpriv --reuid "$uid" --regid "$gid" --clear-groups --no-new-privs \\
      --inh-caps=-all --bounding-set=-all sh -c 'cd "$0" && exec "$@"' "$workdir" "$@"`;
  const [uid = '', gid = ''] = image.user.split(':');
  const given = [image.root, volume, image.volume, image.workdir, uid, gid];
  return {
    arguments: (command) => [...namespace, 'sh', '-ec', script, 'sh', ...given, ...command],
    env: { ...shellEnv(image), HOME: image.volume, ...env },
  };
}

/** The outer pid of the namespace's pid 1, which is the program itself, after a chain of exec. */
export async function innerPid(unshare: ChildProcess): Promise<number> {
  const children = await readFile(`/proc/${unshare.pid}/task/${unshare.pid}/children`, 'utf8');
  return Number(children.trim().split(' ')[0]);
}

export function spawnIn(
  { arguments: args, env }: Container,
  command: readonly string[],
  stdio: 'pipe' | 'ignore' = 'pipe',
): ChildProcess {
  return spawn('unshare', args(command), { env, stdio: ['ignore', stdio, stdio] });
}

/** Whether this machine lets its user create such namespaces; otherwise the reason. */
export async function namespacesRefused(): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'only root can change the root of a process';
  const tried = await run('unshare', [
    ...namespace,
    'sh',
    '-c',
    'mount --bind /usr /mnt && setpriv --version',
  ]);
  return tried.code === 0 ? null : `unshare: ${tried.stderr}`;
}
