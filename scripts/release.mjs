// All artifacts of a release in one folder, signed: `npm run release -- FOLDER KEY`. KEY is a private key for Ed25519 (PEM); without it nothing
// is signed. The image needs root and buildah; HEADGATE_IMAGE_BASE names its base. Nothing is published: docs/deploy/image.md has the commands
// for that.
import { spawnSync } from 'node:child_process';
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const [given, keyFile] = process.argv.slice(2);
if (given === undefined) {
  console.error('npm run release -- FOLDER [KEY]');
  process.exit(1);
}
const folder = resolve(given);
mkdirSync(folder, { recursive: true });
if (readdirSync(folder).length > 0) {
  console.error(`${folder} is not empty`);
  process.exit(1);
}
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

function run(command, ...args) {
  const ran = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (ran.status === 0) return ran.stdout;
  console.error(`${command} ${args.join(' ')}: ${ran.error?.message ?? ran.stderr}`);
  return process.exit(1);
}

run('npm', 'pack', '--silent', '--pack-destination', folder);
const bill = (of, name) =>
  writeFileSync(join(folder, `${name}-${version}.cdx.json`), run(process.execPath, 'scripts/bill.mjs', of));
bill('.', 'headgate');
bill('deploy/docker/operator', 'headgate-operator-client');
// Its file has the same name as the package's.
run('helm', 'package', 'deploy/helm/headgate', '--destination', join(folder, 'chart'));
const base = process.env.HEADGATE_IMAGE_BASE;
if (base === undefined) console.log('no image: HEADGATE_IMAGE_BASE is not set');
else {
  const built = ['--timestamp', '0', '--format', 'docker', '--build-arg', `NODE_IMAGE=${base}`];
  run('buildah', 'bud', '--quiet', ...built, '--tag', `headgate:${version}`, '.');
  run(
    'buildah',
    'push',
    '--quiet',
    `headgate:${version}`,
    `docker-archive:${join(folder, `headgate-${version}-image.tar`)}`,
  );
}

const sums = readdirSync(folder, { recursive: true })
  .filter((name) => statSync(join(folder, name)).isFile())
  .toSorted((a, b) => (a < b ? -1 : 1))
  .map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex')}  ${name}\n`,
  )
  .join('');
writeFileSync(join(folder, 'SHA256SUMS'), sums);
if (keyFile !== undefined) {
  const key = createPrivateKey(readFileSync(keyFile));
  writeFileSync(join(folder, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), key));
  writeFileSync(join(folder, 'release.pub'), createPublicKey(key).export({ type: 'spki', format: 'pem' }));
}
process.stdout.write(sums);
