/**
 * What the embedded engine survives: kills of Headgate and of the server at any moment, a second instance,
 * closed folders above, an installation without its postinstall, foreign and damaged folders, long paths.
 */
import assert from 'node:assert/strict';
import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client, type QueryResultRow } from 'pg';
import { findPackage } from '../../src/engine/embedded-binaries.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { limits } from '../../src/config/limits.ts';
import { type Engine, EngineError } from '../../src/engine/engine.ts';
import { EngineChild, postmasterPid } from '../support/engine-process.ts';
import { Spy } from '../support/postgres.ts';
import { inLong, isLong, sampleOf, times } from '../support/sample.ts';
import { fromTemplate } from '../support/template.ts';

const asRoot = process.getuid?.() === 0;
const silent = (): void => undefined;

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-crash-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

async function query<R extends QueryResultRow>(engine: Engine, sql: string): Promise<R[]> {
  const client = new Client(engine.clientConfig('dev'));
  await client.connect();
  try {
    return (await client.query<R>(sql)).rows;
  } finally {
    await client.end();
  }
}

test('the embedded engine loses no acknowledged row when Headgate is killed by SIGKILL and restarted at once', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  let acked = 0;
  for (let round = 0; round < times(2, 6); round++) {
    const child = new EngineChild({ dataDir, write: true });
    t.after(() => child.end('SIGKILL'));
    const goal = acked + 20 + round * 37;
    await child.until((line) => (line.acked ?? 0) >= goal);
    // In the even rounds the server is killed with it, as by a machine that loses its power.
    const server = await postmasterPid(dataDir);
    if (round % 2 === 1) process.kill(server, 'SIGKILL');
    await child.end('SIGKILL');
    acked = child.acked;
  }
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  t.after(() => engine.close());
  assert.equal(engine.unavailable, null);
  const [row] = await query<{ rows: number; last: number }>(
    engine,
    'select count(*)::int as rows, max(n)::int as last from written',
  );
  assert.ok(
    row !== undefined && row.rows >= acked && row.rows <= acked + 1,
    `${row?.rows} rows, ${acked} acknowledged`,
  );
  assert.equal(row.last, row.rows);
});

test('a start after a first one that was killed by SIGKILL begins again and succeeds', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  for (const kind of ['engine.starting', 'engine.starting', 'engine.said']) {
    const child = new EngineChild({ dataDir });
    t.after(() => child.end('SIGKILL'));
    await child.until((line) => line.kind === kind);
    if (kind === 'engine.starting') {
      while (!(await readdir(dataDir)).some((name) => name.startsWith('pg.new-')))
        await new Promise(setImmediate);
    }
    await child.end('SIGKILL');
  }
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  assert.deepEqual(await query(engine, 'select current_user as who, current_database() as where'), [
    { who: 'root', where: 'dev' },
  ]);
  await engine.close();
  assert.deepEqual((await readdir(dataDir)).sort(), ['headgate.json', 'lock', 'pg']);
});

test('a PostgreSQL killed by SIGKILL is reported and restarted, and its rows are still there', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const spy = new Spy();
  const engine = await openEmbeddedEngine({ dataDir, observe: spy.observe });
  t.after(() => engine.close());
  await query(engine, 'create table kept as select generate_series(1, 1000) as n');
  for (let round = 0; round < 2; round++) {
    const lost = spy.next('engine.lost');
    const ready = spy.next('engine.ready');
    process.kill(await postmasterPid(dataDir), 'SIGKILL');
    await lost;
    assert.notEqual(engine.unavailable, null);
    await ready;
    assert.equal(engine.unavailable, null);
    assert.deepEqual(await query(engine, 'select count(*)::int as rows from kept'), [{ rows: 1000 }]);
  }
});

test('a second Headgate on a data directory is refused, and the first keeps running', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const child = new EngineChild({ dataDir });
  t.after(() => child.end('SIGTERM'));
  await child.until((line) => line.opened !== undefined);
  const before = await postmasterPid(dataDir);
  await assert.rejects(openEmbeddedEngine({ dataDir, observe: silent }), {
    name: 'EngineError',
    message: `the data directory ${dataDir} is in use by another Headgate (pid ${child.process.pid})`,
  });
  assert.equal(await postmasterPid(dataDir), before);
  await child.end('SIGTERM');
  assert.equal(child.process.exitCode, 0);
  await assert.rejects(postmasterPid(dataDir), /ENOENT/);
});

/** A copy of the installed package as npm leaves it without its postinstall. */
async function barePackage(folder: string): Promise<string> {
  const copy = join(folder, 'package');
  const installed = findPackage();
  const filter = async (path: string): Promise<boolean> => !(await lstat(path)).isSymbolicLink();
  await cp(installed, copy, { recursive: true, filter });
  return copy;
}

/** Each copies the whole package. */
const [copied] = sampleOf(['shared', 'beside the data'], 1);
const bySample = (kind: string) => (isLong || copied === kind ? test : inLong);

bySample('shared')(
  'the embedded engine starts from a package without postinstall in a folder closed to the user of PostgreSQL',
  async (t) => {
    if (!asRoot) return t.skip('only root');
    const folder = await folderFor(t);
    const closed = join(folder, 'closed');
    await mkdir(closed, { mode: 0o700 });
    const packageDir = await barePackage(closed);
    const sharedDir = join(folder, 'shared');
    await chmod(folder, 0o755);
    const dataDir = join(closed, 'headgate-data');
    for (let round = 0; round < 2; round++) {
      const engine = await openEmbeddedEngine({ dataDir, observe: silent, packageDir, sharedDir });
      await query(engine, 'create table if not exists seen (n int)');
      await query(engine, 'insert into seen values (1)');
      const rows = await query<{ rows: number }>(engine, 'select count(*)::int as rows from seen');
      assert.deepEqual(rows, [{ rows: round + 1 }]);
      await engine.close();
    }
    assert.equal((await readdir(sharedDir)).length, 1);
    assert.ok((await lstat(join(packageDir, 'native/lib/libicui18n.so.60'))).isSymbolicLink());
  },
);

bySample('beside the data')(
  'a PostgreSQL package in a closed folder is copied to the data directory if the user of PostgreSQL can reach it',
  async (t) => {
    const folder = await folderFor(t);
    const packageDir = await barePackage(folder);
    if (asRoot) {
      await chmod(folder, 0o755);
      await chmod(packageDir, 0o700);
    }
    const dataDir = join(folder, 'data');
    await mkdir(dataDir, { mode: 0o755 });
    const sharedDir = join(folder, 'shared');
    const engine = await openEmbeddedEngine({ dataDir, observe: silent, packageDir, sharedDir });
    await engine.close();
    const expected = asRoot ? ['bin', 'headgate.json', 'lock', 'pg'] : ['headgate.json', 'lock', 'pg'];
    assert.deepEqual((await readdir(dataDir)).sort(), expected);
  },
);

test('the embedded engine works in a path longer than a socket path may be', async (t) => {
  const dataDir = join(await folderFor(t), 'x'.repeat(100), 'y'.repeat(100), 'data');
  await fromTemplate(dataDir);
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  t.after(() => engine.close());
  const endpoint = engine.endpoint();
  assert.ok(endpoint.kind === 'unix' && Buffer.byteLength(endpoint.path) <= 107, JSON.stringify(endpoint));
  assert.equal((await query(engine, 'select 1')).length, 1);
  await assert.rejects(openEmbeddedEngine({ dataDir, observe: silent }), /in use by another Headgate/);
});

/** Every path below `folder` with its size and time: what must not change when a folder is refused. */
async function listing(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return Promise.all(
    names.sort().map(async (name) => {
      const { size, mtimeMs, uid, mode } = await lstat(join(folder, name));
      return `${name} ${size} ${mtimeMs} ${uid} ${mode}`;
    }),
  );
}

test('a foreign or damaged data directory is refused in one line and not changed', async (t) => {
  const folder = await folderFor(t);
  const refused = async (dataDir: string, message: RegExp): Promise<void> => {
    const before = await listing(dataDir);
    await assert.rejects(openEmbeddedEngine({ dataDir, observe: silent }), (error) => {
      assert.ok(error instanceof EngineError, String(error));
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /\n/);
      return true;
    });
    assert.deepEqual(await listing(dataDir), before);
  };
  const make = async (name: string, files: Record<string, string>): Promise<string> => {
    const dataDir = join(folder, name);
    for (const [file, text] of Object.entries(files)) {
      await mkdir(join(dataDir, file, '..'), { recursive: true });
      await writeFile(join(dataDir, file), text);
    }
    return dataDir;
  };
  const mark = { 'headgate.json': '{"format":1}' };
  const whole = { 'pg/PG_VERSION': '18\n', 'pg/global/pg_control': '', 'pg/postgresql.conf': '' };
  await refused(
    await make('photos', { 'cat.jpg': 'x' }),
    /is not a data directory of Headgate \(it contains "cat.jpg"\)/,
  );
  await refused(await make('cluster', whole), /is not a data directory of Headgate \(it contains "pg"\)/);
  await refused(await make('gone', mark), /is damaged: its database, the folder pg, is missing/);
  await refused(await make('unversioned', { ...mark, 'pg/base/1': '' }), /is damaged: PG_VERSION is missing/);
  await refused(
    await make('older', { ...mark, ...whole, 'pg/PG_VERSION': '17\n' }),
    /made by PostgreSQL "17"/,
  );
  await refused(
    await make('newer', { 'headgate.json': '{"format":2}' }),
    /has format 2; this Headgate knows format 1/,
  );
  await refused(await make('garbled', { ...whole, 'headgate.json': '{' }), /is damaged: .*headgate.json/);
  await writeFile(join(folder, 'file'), 'x');
  await assert.rejects(openEmbeddedEngine({ dataDir: join(folder, 'file'), observe: silent }), {
    name: 'EngineError',
  });
});

test('a postgresql.conf that PostgreSQL refuses is reported in one line, and the next start can use the directory', async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const first = await openEmbeddedEngine({ dataDir, observe: silent });
  await first.close();
  const conf = join(dataDir, 'pg', 'postgresql.conf');
  const text = await readFile(conf, 'utf8');
  await writeFile(conf, `${text}\nwal_level = 'whatever'\n`);
  await assert.rejects(openEmbeddedEngine({ dataDir, observe: silent }), {
    name: 'EngineError',
    message: /^the embedded PostgreSQL did not start: FATAL: .*configuration file/,
  });
  await writeFile(conf, `${text}\nwork_mem = '5MB'\n`);
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  t.after(() => engine.close());
  assert.deepEqual(await query(engine, 'show work_mem'), [{ work_mem: '5MB' }]);
  const settings = `select name, setting from pg_settings where name in ('fsync', 'listen_addresses', 'max_connections') order by 1`;
  assert.deepEqual(await query(engine, settings), [
    { name: 'fsync', setting: 'on' },
    { name: 'listen_addresses', setting: '' },
    { name: 'max_connections', setting: String(limits.engineConnectionsMax) },
  ]);
});

test("the embedded engine's log contains no request data", async (t) => {
  const dataDir = join(await folderFor(t), 'data');
  await fromTemplate(dataDir);
  const spy = new Spy();
  const engine = await openEmbeddedEngine({ dataDir, observe: spy.observe });
  await query(engine, 'create table doc (n int primary key, d jsonb)');
  for (const sql of [
    `insert into doc values (1, 'hunter2')`,
    `insert into doc select 1, '"hunter2"' from generate_series(1, 2)`,
    `create secrt x as 'hunter2' hunter2`,
    `do $$ begin raise warning 'hunter2'; end $$`,
  ]) {
    await query(engine, sql).catch(silent);
  }
  await engine.close();
  assert.ok(spy.seen.some((observation) => observation.kind === 'engine.said'));
  assert.doesNotMatch(JSON.stringify(spy.seen), /hunter2/);
  assert.equal(spy.seen.at(-1)?.kind, 'engine.stopped');
});
