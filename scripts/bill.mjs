// The bill of materials of a production install of a folder (CycloneDX), made by npm: `node scripts/bill.mjs FOLDER`. npm reads a copy without
// the development packages: if told to omit those, it also omits packages that they share with the others.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [of = '.'] = process.argv.slice(2);
const read = (name) => JSON.parse(readFileSync(join(of, name), 'utf8'));
const [program, lock] = [read('package.json'), read('package-lock.json')];
const { '': root, ...others } = lock.packages;
for (const it of [program, root])
  for (const name of ['devDependencies', 'peerDependencies', 'peerDependenciesMeta']) delete it[name];
const kept = Object.entries(others).filter(
  ([, { dev, devOptional }]) => dev !== true && devOptional !== true,
);
const folder = mkdtempSync(join(tmpdir(), 'headgate-bill-'));
try {
  writeFileSync(join(folder, 'package.json'), JSON.stringify(program));
  writeFileSync(
    join(folder, 'package-lock.json'),
    JSON.stringify({ ...lock, packages: { '': root, ...Object.fromEntries(kept) } }),
  );
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'];
  const ran = spawnSync('npm', args, { cwd: folder, encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (ran.status !== 0) throw new Error(ran.stderr);
  process.stdout.write(ran.stdout);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
