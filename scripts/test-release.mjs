// A release from its making to its users: `npm run test:release`, as root, with Debian's buildah and debootstrap, and Go. scripts/release.mjs
// makes the folder as for publication, from what git has staged, on the base that test-image.mjs also makes; the image registry comes from the Go
// module proxy, or HEADGATE_REGISTRY names its program; the package registry comes from npm. docs/deploy/image.md records the findings.
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { requireKubeTool } from '../dist/test/support/kube-tools.js';
import { cached, printed, temporary } from './commands.mjs';
import { baseImage, containerSettings } from './containers.mjs';

const env = { ...process.env };
const folder = temporary('release', () => spawnSync('buildah', ['umount', '--all'], { env }));
Object.assign(env, containerSettings(folder));

/** CNCF's registry. */
function registry() {
  const version = 'v3.1.2';
  const programs = cached(`registry-${version}`);
  const program = process.env.HEADGATE_REGISTRY ?? join(programs, 'registry');
  const from = `github.com/distribution/distribution/v3/cmd/registry@${version}`;
  if (!existsSync(program))
    printed('go', ['install', from], { env: { ...process.env, GOBIN: programs, CGO_ENABLED: '0' } });
  return program;
}

/** The registry of packages. */
function verdaccio() {
  const version = '6.8.0';
  const programs = cached(`verdaccio-${version}`);
  const script = join(programs, 'node_modules/verdaccio/bin/verdaccio');
  if (existsSync(script)) return script;
  mkdirSync(programs, { recursive: true });
  // It requires a release by its tag, which not every package registry provides.
  const overrides = { 'node-fetch-cjs': 'npm:node-fetch@2.7.0', 'node-fetch': '2.7.0' };
  writeFileSync(join(programs, 'package.json'), JSON.stringify({ private: true, overrides }));
  printed('npm', ['install', '--no-audit', '--no-fund', `verdaccio@${version}`], { cwd: programs });
  return script;
}

const began = Date.now();
const tell = (what) => console.log(`${what}: after ${Math.round((Date.now() - began) / 1_000)} s`);
const programs = { registry: registry(), verdaccio: verdaccio() };
tell('the registries are there');
const base = baseImage(env);
tell('the base image is there');
const checkout = join(folder, 'checkout');
printed('git', ['checkout-index', '--all', `--prefix=${checkout}/`]);
symlinkSync(resolve('node_modules'), join(checkout, 'node_modules'));
const key = join(folder, 'release.key');
writeFileSync(key, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }), {
  mode: 0o600,
});
const made = join(folder, 'release');
mkdirSync(made);
const helm = await requireKubeTool({ name: 'a release', skip: () => process.exit(1) }, 'helm');
const PATH = `${dirname(helm)}${delimiter}${process.env.PATH}`;
console.log(
  printed(process.execPath, ['scripts/release.mjs', made, key], {
    cwd: checkout,
    env: { ...env, PATH, HEADGATE_IMAGE_BASE: base },
  }),
);
tell('the release is made');
const told = join(folder, 'release.json');
writeFileSync(told, JSON.stringify({ folder: made, ...programs }));
const { status } = spawnSync(process.execPath, ['--test', 'dist/test/deploy/release.js'], {
  stdio: 'inherit',
  env: { ...env, PATH, HEADGATE_RELEASE: told },
});
process.exitCode = status ?? 1;
