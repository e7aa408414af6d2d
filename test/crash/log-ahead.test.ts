/**
 * Segments of the log that are made ahead, on a real engine: that they are what PostgreSQL would make, that it uses them,
 * and that nothing is lost by a kill, a stop or a log that comes too soon.
 */
import assert from 'node:assert/strict';
import { link, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client } from 'pg';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { makeNext, openFolder, segmentName } from '../../src/engine/log-ahead.ts';
import type { Asked } from '../../src/engine/log-ahead.ts';
import { limits } from '../../src/tables/limits.ts';
import { EngineChild, postmasterPid } from '../support/engine-process.ts';
import { within } from '../support/within.ts';

const silent = (): void => undefined;
const temporary = 'xlogtemp.headgate';

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hg-log-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return join(folder, 'data');
}

async function open(t: TestContext, dataDir: string): Promise<Engine> {
  const engine = await openEmbeddedEngine({ dataDir, observe: silent });
  t.after(() => engine.close());
  return engine;
}

async function connect(t: TestContext, engine: Pick<Engine, 'clientConfig'>): Promise<Client> {
  const client = new Client(engine.clientConfig('dev'));
  // Servers are killed below.
  client.on('error', () => undefined);
  await client.connect();
  t.after(() => client.end().catch(() => undefined));
  return client;
}

/** A new engine, which has not opened its doors. */
async function begin(t: TestContext) {
  const dataDir = await folderFor(t);
  const engine = await open(t, dataDir);
  return { dataDir, folder: join(dataDir, 'pg', 'pg_wal'), engine, client: await connect(t, engine) };
}

/** The number of the segment that is written. All of a new engine's log fits into the first 4 GiB. */
async function current(client: Client): Promise<number> {
  const { rows } = await client.query<{ n: number }>(
    `select floor((pg_current_wal_insert_lsn() - '0/0') / 16777216)::int as n`,
  );
  return rows[0]?.n ?? Number.NaN;
}

const name = (segment: number): string => segmentName('00000001', segment, 16_777_216);

/** To the beginning of the next segment. */
async function goOn(client: Client): Promise<void> {
  await client.query(`select pg_logical_emit_message(false, 'test', 'x')`);
  await client.query('select pg_switch_wal()');
}

test('names of segments are PostgreSQL’s', async (t) => {
  const client = await connect(t, await open(t, await folderFor(t)));
  for (const at of ['0/1000001', '0/FF000001', '1/1', 'A/BC000010', '12345678/9A000001']) {
    const { rows } = await client.query<{ name: string; bytes: number }>(
      `select pg_walfile_name($1) as name, ($1::pg_lsn - '0/0')::float8 as bytes`,
      [at],
    );
    assert.equal(
      segmentName('00000001', Math.floor((rows[0]?.bytes ?? 0) / 2 ** 24), 2 ** 24),
      rows[0]?.name,
    );
  }
  assert.equal(segmentName('0000000B', 2 ** 12 + 1, 2 ** 20), '0000000B0000000100000001');
});

test('none before the doors are open, then as many as there should be, and PostgreSQL goes on in them', async (t) => {
  const { dataDir, folder, engine, client } = await begin(t);
  const first = (await current(client)) + 2;
  const last = first + limits.engineLogAheadMax - 2;
  assert.ok(!(await readdir(folder)).includes(name(first)));
  engine.opened?.();
  const all = async (): Promise<void> => {
    const names = await readdir(folder);
    for (let n = first; n <= last; n++) assert.ok(names.includes(name(n)), `${name(n)} of ${names.join()}`);
  };
  await within(20_000, all);
  const owner = await stat(join(dataDir, 'pg', 'PG_VERSION'));
  const made = await stat(join(folder, name(first)));
  assert.deepEqual([made.size, made.mode & 0o777, made.uid], [16_777_216, 0o600, owner.uid]);
  assert.ok((await readFile(join(folder, name(last)))).every((byte) => byte === 0));
  assert.ok(!(await readdir(folder)).includes(name(last + 1)));

  await client.query('create table kept (n int)');
  while ((await current(client)) < first) await goOn(client);
  await client.query('insert into kept select generate_series(1, 1000)');
  assert.equal((await stat(join(folder, name(first)))).ino, made.ino);
  assert.ok((await readFile(join(folder, name(first)))).some((byte) => byte !== 0));
  // As by a machine that loses its power: what is there comes out of the log.
  process.kill(await postmasterPid(dataDir), 'SIGKILL');
  await within(20_000, async () => {
    const again = new Client(engine.clientConfig('dev'));
    again.on('error', () => undefined);
    try {
      await again.connect();
      assert.deepEqual((await again.query('select count(*)::int as n from kept')).rows, [{ n: 1000 }]);
    } finally {
      await again.end().catch(() => undefined);
    }
  });
});

test('an owner who keeps little log has none made', async (t) => {
  const dataDir = await folderFor(t);
  const client = await connect(t, await open(t, dataDir));
  const folder = await openFolder(join(dataDir, 'pg', 'pg_wal'), await ownerOf(dataDir));
  t.after(() => folder.handle.close());
  const run = async () => makeNext(client, folder, await ownerOf(dataDir), new AbortController().signal);
  for (const setting of [`min_wal_size = '100MB'`, 'wal_recycle = off', 'wal_init_zero = off']) {
    await client.query(`alter system set ${setting}`);
    await client.query('select pg_reload_conf()');
    const [key = '', value] = setting.split(' = ');
    await within(10_000, async () => {
      const { rows } = await client.query<{ value: string }>('select current_setting($1) as value', [key]);
      assert.equal(rows[0]?.value, value?.replaceAll(`'`, ''));
    });
    assert.equal(await run(), false, setting);
    await client.query(`alter system reset ${key}`);
    await client.query('select pg_reload_conf()');
    await within(10_000, async () => {
      const { rows } = await client.query<{ value: string }>('select current_setting($1) as value', [key]);
      assert.notEqual(rows[0]?.value, value?.replaceAll(`'`, ''));
    });
  }
  assert.equal(await run(), true);
});

test('a stop in the middle ends at once and leaves nothing half', async (t) => {
  const dataDir = await folderFor(t);
  const folder = join(dataDir, 'pg', 'pg_wal');
  for (let round = 0; round < 2; round++) {
    const engine = await open(t, dataDir);
    engine.opened?.();
    await within(20_000, async () => assert.ok((await readdir(folder)).includes(temporary)));
    await engine.close();
    const names = await readdir(folder);
    assert.ok(!names.includes(temporary));
    for (const file of names.filter((each) => /^[0-9A-F]{24}$/.test(each)))
      assert.equal((await stat(join(folder, file))).size, 16_777_216);
  }
});

test('a name left over from a kill is not written to: it may be a segment’s other name', async (t) => {
  const { folder, engine, client } = await begin(t);
  const segment = (await current(client)) + 2;
  await writeFile(join(folder, name(segment)), Buffer.alloc(16_777_216, 'log'));
  await link(join(folder, name(segment)), join(folder, temporary));
  engine.opened?.();
  await within(20_000, async () => void (await stat(join(folder, name(segment + 3)))));
  const kept = await readFile(join(folder, name(segment)));
  assert.ok(kept.equals(Buffer.alloc(16_777_216, 'log')));
  await rm(join(folder, name(segment)));
});

test('kills of Headgate and the server while the log runs ahead of its segments', async (t) => {
  const dataDir = await folderFor(t);
  let acked = 0;
  for (let round = 0; round < 5; round++) {
    const child = new EngineChild({ dataDir, write: true, opened: true });
    t.after(() => child.end('SIGKILL'));
    const { endpoint } = (await child.until((line) => line.opened !== undefined)) as {
      endpoint?: { path: string };
    };
    const host = join(endpoint?.path ?? '', '..');
    const client = await connect(t, {
      clientConfig: () => ({ host, port: 5432, user: 'root', database: 'dev' }),
    });
    await within(
      20_000,
      async () => void (await stat(join(dataDir, 'pg', 'pg_wal', name((await current(client)) + 4)))),
    );
    for (let i = 0; i < 5 + round * 4; i++) await goOn(client);
    const goal = child.acked + 20;
    await child.until((line) => (line.acked ?? 0) >= goal);
    const server = await postmasterPid(dataDir);
    if (round % 2 === 1) process.kill(server, 'SIGKILL');
    await child.end('SIGKILL');
    acked = child.acked;
  }
  const engine = await open(t, dataDir);
  const { rows } = await (
    await connect(t, engine)
  ).query<{ n: number }>('select count(*)::int as n from written');
  const stored = rows[0]?.n ?? 0;
  assert.ok(stored >= acked && stored <= acked + 1, `${stored} rows, ${acked} acknowledged`);
});

test('a log that has come into the file before it was certain: a checkpoint', async (t) => {
  const dataDir = await folderFor(t);
  const engine = await open(t, dataDir);
  const client = await connect(t, engine);
  const other = await connect(t, engine);
  const user = await ownerOf(dataDir);
  const folder = await openFolder(join(dataDir, 'pg', 'pg_wal'), user);
  t.after(() => folder.handle.close());
  // Not by the statistics, which are told a moment after the checkpoint.
  const lastCheckpoint = async (): Promise<string> => {
    const { rows } = await other.query<{ at: string }>(
      'select checkpoint_lsn::text as at from pg_control_checkpoint()',
    );
    return rows[0]?.at ?? '';
  };
  const { signal } = new AbortController();
  const before = await lastCheckpoint();
  assert.equal(await makeNext(client, folder, user, signal), true);
  assert.equal(await lastCheckpoint(), before);
  // Before the third look, the one after the file has got its name, the log goes on beyond it.
  let looks = 0;
  const racing = {
    query: async (query: { text: string; values: unknown[] } | string) => {
      if (typeof query !== 'string' && ++looks === 3) for (let i = 0; i < 4; i++) await goOn(other);
      return typeof query === 'string' ? client.query(query) : client.query(query);
    },
  } as unknown as Asked;
  assert.equal(await makeNext(racing, folder, user, signal), true);
  assert.equal(looks, 3);
  assert.notEqual(await lastCheckpoint(), before);
});

async function ownerOf(dataDir: string): Promise<{ uid: number; gid: number } | null> {
  if (process.getuid?.() !== 0) return null;
  const { uid, gid } = await stat(join(dataDir, 'pg'));
  return { uid, gid };
}
