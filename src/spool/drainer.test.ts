import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ModelFiles } from '../../test/support/model-files.ts';
import { targetOf } from '../../test/support/rows.ts';
import { until } from '../../test/support/until.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import type { Observe } from '../observe/observations.ts';
import type { Group } from '../types/rows.ts';
import { DatabaseSpool } from './database-spool.ts';
import { Drainer } from './drainer.ts';
import { encodeRequest, encodeTable } from './kept-request.ts';
import { KeptTables } from './kept-tables.ts';

const openSpool = (files = new ModelFiles(), observe: Observe = () => undefined) =>
  DatabaseSpool.open({
    database: 'dev',
    folder: 'root/dev',
    files,
    ring: fixedKeys(Buffer.alloc(32, 7)),
    segmentBytes: 4_096,
    bytesLeft: () => Infinity,
    disk: { bytesMax: Infinity, ownersOf: () => new Map(), shares: () => [] },
    random: randomBytes,
    clock: () => 0,
    nowMs: () => 0,
    ageMsMax: Infinity,
    observe,
  });

const head = {
  method: 'POST',
  requestTarget: '/',
  rawHeaders: [],
  arrivedAtMs: 1,
  remoteAddress: '::1',
};

test('spooled requests of another database of the same name stay on the disk until that answers', async () => {
  const kept = await openSpool();
  kept.home = 'server, 5';
  const target = targetOf({ oid: 7 });
  const gate = kept.gateOf(7);
  gate.fill(0);
  await kept.append(target, gate, encodeRequest(head, Buffer.from('{"n":1}')));
  let home = 'server, 6';
  const client = {
    query: async () => ({ rows: [{ home, relation: null, position: null }] }),
    release: () => undefined,
  };
  const handed: string[] = [];
  const drainer = new Drainer(kept, {
    database: 'dev',
    engine: { unavailable: null },
    catalog: { current: () => target, isWatching: () => true, refresh: () => Promise.resolve() },
    pools: { connect: async () => client } as unknown as CommitPools,
    commit: {
      handOver: async ({ members }: Group) => {
        handed.push(...members.map(({ documents }) => documents.bytes.toString()));
        return { kind: 'committed' };
      },
    },
    throttle: { groupRows: () => 10, rest: () => Promise.resolve(), record: () => undefined },
    observe: () => undefined,
    clock: () => 0,
  });
  await until(() => drainer.held.all.length + handed.length > 0);
  assert.deepEqual(
    [drainer.held.all.map(({ oid, isForeign }) => [oid, isForeign]), handed],
    [[[7, true]], []],
  );
  home = 'server, 5';
  kept.wake();
  await until(() => handed.length > 0);
  assert.match(handed.join(), /\{"n":1\}/);
  await until(() => drainer.held.all.length === 0);
  await drainer.close();
  await kept.close();
});

test('spooled requests of tables that were moved are handed over to what they are now, each once', async () => {
  const kept = await openSpool();
  kept.home = 'server, 5';
  // What was 7 is 9, what was 9 is 7, and 8 was not moved.
  for (const oid of [7, 9, 8]) {
    const gate = kept.gateOf(oid);
    gate.fill(0);
    await kept.append(targetOf({ oid }), gate, encodeRequest(head, Buffer.from(`{"was":${oid}}`)));
  }
  const moved = [
    ['server, 5', 7, 9],
    ['server, 5', 9, 7],
  ];
  const client = {
    query: async () => ({ rows: [{ home: 'other, 1', relation: '9', position: '1', moved }] }),
    release: () => undefined,
  };
  const handed: unknown[] = [];
  const drainer = new Drainer(kept, {
    database: 'dev',
    engine: { unavailable: null },
    catalog: {
      current: (_: string, oid: number) => targetOf({ oid }),
      isWatching: () => true,
      refresh: () => Promise.resolve(),
    },
    pools: { connect: async () => client } as unknown as CommitPools,
    commit: {
      handOver: async ({ target, members }: Group, { first, last }) => {
        handed.push([
          target.oid,
          members.map(({ documents }) => documents.bytes.toString()).join(),
          first,
          last,
        ]);
        return { kind: 'committed' };
      },
    },
    throttle: { groupRows: () => 10, rest: () => Promise.resolve(), record: () => undefined },
    observe: () => undefined,
    clock: () => 0,
  });
  await until(() => handed.length > 0 && drainer.held.all.length > 0);
  assert.equal(drainer.waiting, 1);
  await drainer.close();
  await kept.close();
  assert.equal(handed.length, 1);
  const [[oid, body, ...range]] = handed as [[number, string, bigint, bigint]];
  assert.match(body, /\{"was":9\}/);
  assert.deepEqual([oid, ...range], [7, 1n, 2n]);
  assert.deepEqual(
    drainer.held.all.map((it) => it.oid),
    [8],
  );
});

test('spool.left counts from the first request that an earlier process has kept, not from when it began', async () => {
  const files = new ModelFiles();
  const before = await openSpool(files);
  before.home = 'server, 5';
  const arrivedAtMs = Date.now() - 100_000;
  await before.append(
    targetOf({ oid: 7 }),
    before.gateOf(7),
    encodeRequest({ ...head, arrivedAtMs }, Buffer.from('{"n":1}')),
  );
  await before.close();
  const kept = await openSpool(files);
  const left: number[] = [];
  let position = '0';
  const client = {
    query: async () => ({ rows: [{ home: 'server, 5', relation: '7', position }] }),
    release: () => undefined,
  };
  const drainer = new Drainer(kept, {
    database: 'dev',
    engine: { unavailable: null },
    catalog: {
      current: () => targetOf({ oid: 7 }),
      isWatching: () => true,
      refresh: () => Promise.resolve(),
    },
    pools: { connect: async () => client } as unknown as CommitPools,
    commit: {
      handOver: async (_: Group, { last }) => {
        position = String(last);
        return { kind: 'committed' };
      },
    },
    throttle: { groupRows: () => 10, rest: () => Promise.resolve(), record: () => undefined },
    observe: (it) => {
      if (it.kind === 'spool.left') left.push(it.seconds);
    },
    clock: () => 0,
  });
  await until(() => left.length > 0);
  assert.ok(Math.abs((left[0] ?? 0) - 100) < 30, String(left));
  await drainer.close();
  await kept.close();
});

test('what segments of version 1 say of their tables is kept while they cannot be read again', async () => {
  const table = { database: 'dev', schema: 'public', table: 't', oid: 7, home: 'server, 5' };
  const tables = new KeptTables('dev', { current: () => null }, null);
  await tables.read({ tables: async () => new Map([[7, encodeTable(table)]]) });
  const failed = tables.read({ tables: () => Promise.reject(new Error('EIO')) });
  await assert.rejects(failed, /EIO/);
  assert.deepEqual(tables.last(7), table);
});
