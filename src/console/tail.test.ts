import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { observers } from '../observe/context.ts';
import type { Observation } from '../observe/observations.ts';
import type { TailBatch, TailLine } from '../observe/tail.ts';
import type { ListAnswer, TailEvent } from './api.ts';
import { listRequests } from './request-list.ts';
import { anyKept } from './request-filter.ts';
import { OutcomeTail } from './tail-source.ts';
import { maySee, tableKey, watchTail } from './tail.ts';
import type { TailRights } from './tail.ts';

function answered(
  table: string,
  over: Partial<Extract<Observation, { kind: 'request.answered' }>> = {},
): Observation {
  const name = { database: 'dev', schema: 'public', table };
  return {
    kind: 'request.answered',
    table: name,
    status: 200,
    code: 'committed',
    rows: 1,
    seconds: 0.0125,
    ...over,
  };
}

test('the outcome tail remembers the last outcomes, and sends new ones while a page watches', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  const ring = new OutcomeTail(() => now, true);
  const observe = observers(ring.readers);
  for (now = 1; now <= limits.tailRingMax + 5; now++) observe(answered(`t${now}`));
  observe({ kind: 'service.ready' });
  const batches: TailBatch[] = [];
  const end = ring.watch((batch) => void batches.push(batch));
  assert.equal(batches[0]?.lines.length, limits.tailRecentMax);
  assert.equal(batches[0]?.lines.at(-1)?.table, `t${limits.tailRingMax + 5}`);
  const last = batches[0]?.lines.at(-1);
  assert.match(last?.id ?? '', /^[\w-]+\.2004$/);
  assert.deepEqual(last, {
    id: last?.id,
    atMs: limits.tailRingMax + 5,
    arrivedAtMs: limits.tailRingMax - 7,
    database: 'dev',
    schema: 'public',
    table: `t${limits.tailRingMax + 5}`,
    door: 'http',
    status: 200,
    code: 'committed',
    rows: 1,
    bytes: null,
    ms: 12.5,
    address: '',
  });
  for (let i = 0; i < limits.tailSourceLinesMax + 7; i++) observe(answered('x', { bytes: 3 }));
  assert.equal(batches.length, 1);
  t.mock.timers.tick(limits.tailFlushMs);
  assert.deepEqual(
    [batches.length, batches[1]?.lines.length, batches[1]?.skipped],
    [2, limits.tailSourceLinesMax, 7],
  );
  end();
  observe(answered('y'));
  t.mock.timers.tick(limits.tailFlushMs);
  assert.equal(batches.length, 2);
});

test('a tail line names the content kept of its request, which is evicted with it', () => {
  const forgotten: string[] = [];
  const ring = new OutcomeTail(
    () => 0,
    true,
    (held) => void forgotten.push(held),
  );
  const observe = observers(ring.readers);
  observe(answered('a', { held: 'a.1' }));
  observe(answered('b'));
  let last: TailBatch | null = null;
  ring.watch((batch) => void (last = batch))();
  assert.deepEqual(
    (last as TailBatch | null)?.lines.map((it) => it.held),
    ['a.1', undefined],
  );
  for (let i = 0; i < limits.tailRingMax - 2; i++) observe(answered('c'));
  assert.deepEqual(forgotten, []);
  observe(answered('c'));
  assert.deepEqual(forgotten, ['a.1']);
});

test('a tail line of a refused request has the id of its stored row, or comes a second later without it', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  const ring = new OutcomeTail(() => now, true);
  const observe = observers(ring.readers);
  const table = { database: 'dev', schema: 'public', table: 'a', oid: 7 };
  const refused = (arrivedAtMs: number): Observation =>
    answered('a', { table, status: 401, code: 'signature_failed', arrivedAtMs, remoteAddress: '::1' });
  const row = { database: 'dev', oid: 7, code: 'signature_failed', remoteAddress: '::1' };
  const told: (readonly [number, string | undefined])[] = [];
  const end = ring.watch(
    ({ lines }) => void told.push(...lines.map((it) => [it.status, it.refusal] as const)),
  );
  const tick = (ms: number): void => {
    now += ms;
    t.mock.timers.tick(ms);
  };
  observe(answered('a'));
  observe(refused(1));
  observe(answered('a'));
  tick(limits.tailFlushMs);
  assert.deepEqual(told.splice(0), [[200, undefined]]);
  // That of another table does not count.
  ring.stored([{ ...row, oid: 8, id: '1', arrivedAtMs: 1 }]);
  ring.stored([{ ...row, id: '2', arrivedAtMs: 1 }]);
  tick(limits.tailFlushMs);
  assert.deepEqual(told.splice(0), [
    [401, '2'],
    [200, undefined],
  ]);
  // One that is kept apart is written down before its answer.
  ring.stored([{ ...row, id: '3', arrivedAtMs: 3 }]);
  observe(refused(3));
  tick(limits.tailFlushMs);
  assert.deepEqual(told.splice(0), [[401, '3']]);
  // One that was dropped holds the others up no longer than a second.
  observe(refused(4));
  for (let ms = 0; ms < limits.tailKeptMs; ms += limits.tailFlushMs) tick(limits.tailFlushMs);
  assert.deepEqual(told.splice(0), [[401, undefined]]);
  end();
  // A later watcher is told of it as well, and where nothing is written down nobody waits.
  let first: TailBatch | null = null;
  ring.watch((batch) => void (first ??= batch))();
  assert.equal((first as TailBatch | null)?.lines.find((it) => it.arrivedAtMs === 3)?.refusal, '3');
  const bare = new OutcomeTail(() => now, false);
  bare.watch(({ lines }) => void told.push(...lines.map((it) => [it.status, it.refusal] as const)));
  observers(bare.readers)(refused(5));
  tick(limits.tailFlushMs);
  assert.deepEqual(told, [[401, undefined]]);
});

test('the tail tells each of the refused requests that differ in time or address alone with its own id', () => {
  const ring = new OutcomeTail(() => 0, true);
  const observe = observers(ring.readers);
  const table = { database: 'dev', schema: 'public', table: 'a', oid: 7 };
  const code = 'signature_failed';
  const requests = [
    { arrivedAtMs: 1, remoteAddress: '::1' },
    { arrivedAtMs: 2, remoteAddress: '::1' },
    { arrivedAtMs: 2, remoteAddress: '::2' },
  ];
  for (const it of requests) observe(answered('a', { table, status: 401, code, rows: 0, ...it }));
  ring.stored(requests.map((it, i) => ({ database: 'dev', oid: 7, code, id: `${i}`, ...it })));
  let told: readonly TailLine[] = [];
  ring.watch(({ lines }) => void (told = lines))();
  assert.deepEqual(
    told.map(({ refusal }) => refusal),
    ['0', '1', '2'],
  );
});

test('the tail does not give the id of a forgotten request to a later batch', () => {
  let now = 0;
  const ring = new OutcomeTail(() => now, true);
  const observe = observers(ring.readers);
  const table = { database: 'dev', schema: 'public', table: 'a', oid: 7 };
  ring.stored([
    { database: 'dev', oid: 7, code: 'row_refused', remoteAddress: '::1', id: '1', arrivedAtMs: 0 },
  ]);
  now = limits.tailKeptMs;
  observe({ kind: 'batch.answered', table, code: 'row_refused', rows: 0, seconds: 0 });
  let first: TailBatch | null = null;
  now += limits.tailKeptMs;
  ring.watch((batch) => void (first ??= batch))();
  assert.deepEqual(
    (first as TailBatch | null)?.lines.map(({ refusal }) => refusal),
    [undefined],
  );
});

const line = (table: string, over: Partial<TailLine> = {}): TailLine => ({
  id: 'a.1',
  atMs: 0,
  arrivedAtMs: 0,
  database: 'dev',
  schema: 'public',
  table,
  door: 'http',
  status: 200,
  code: 'committed',
  rows: 1,
  bytes: 1,
  ms: 1,
  address: '',
  ...over,
});

/** A watcher whose rights are what `rights` says when they are asked for. */
function watched(rights: () => TailRights | null) {
  const events: TailEvent[] = [];
  const it = {
    events,
    asked: 0,
    nowMs: 0,
    writes: true,
    tell: null as unknown as (batch: TailBatch) => void,
  };
  const end = watchTail(
    { watch: (told) => ((it.tell = told), () => {}), recall: async () => [] },
    {
      rights: async () => ((it.asked += 1), rights()),
      write: (event) => {
        if (it.writes) events.push(event);
        return it.writes;
      },
      clock: () => it.nowMs,
    },
  );
  return Object.assign(it, { end });
}

const settle = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

test('a tail shows the tables that the role of its reader owns, and no others', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tables = ['mine'];
  const it = watched(() => ({
    database: 'dev',
    tables: new Map(tables.map((name, i) => [tableKey('public', name), 100 + i])),
    strays: false,
  }));
  it.tell({
    lines: [
      line('mine'),
      line('theirs'),
      line(''),
      line('mine', { database: 'other' }),
      line('mine', { schema: 'x' }),
      // An earlier table of that name.
      line('mine', { oid: 99 }),
      line('mine', { oid: 100 }),
    ],
    skipped: 9,
  });
  t.mock.timers.tick(0);
  await settle();
  assert.deepEqual(it.events, [{ lines: [line('mine'), line('mine')], skipped: 0 }]);
  // A table that is not known may be new: the rights are read again, not more often than once in a while.
  tables = ['mine', 'new'];
  it.nowMs = limits.tailUnknownMs;
  it.tell({ lines: [line('new')], skipped: 5 });
  t.mock.timers.tick(limits.tailFlushMs);
  await settle();
  assert.deepEqual(it.events[1], { lines: [line('new')], skipped: 0 });
  it.tell({ lines: [line('theirs')], skipped: 0 });
  t.mock.timers.tick(limits.tailFlushMs);
  await settle();
  assert.equal(it.asked, 2);
  // They are taken away as well.
  tables = [];
  it.nowMs += limits.tailRightsMs;
  it.tell({ lines: [line('mine')], skipped: 0 });
  t.mock.timers.tick(limits.tailFlushMs);
  await settle();
  assert.equal(it.events.length, 2);
  it.end();
});

test('tail events are withheld while rights cannot be read', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const it = watched(() => null);
  it.tell({ lines: [line('a')], skipped: 0 });
  t.mock.timers.tick(0);
  await settle();
  assert.deepEqual(it.events, []);
  it.end();
});

test('the tail uses the last known rights for a while, waits for the first ones, and shows a refused role nothing', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let answer: () => TailRights | null = () => null;
  const it = watched(() => answer());
  const tell = async (pauseMs: number): Promise<void> => {
    it.nowMs += pauseMs;
    it.tell({ lines: [line('mine')], skipped: 0 });
    t.mock.timers.tick(limits.tailUnknownMs);
    await settle();
  };
  await tell(limits.tailUnknownMs);
  assert.equal(it.events.length, 0);
  const tables = new Map([[tableKey('public', 'mine'), 1]]);
  answer = () => ({ database: 'dev', tables, strays: false });
  await tell(limits.tailUnknownMs);
  assert.equal(it.events[0]?.lines.length, 2);
  answer = () => null;
  await tell(limits.tailRightsMs);
  assert.equal(it.events.length, 2);
  await tell(limits.tailLastRightsMs);
  assert.equal(it.events.length, 2);
  answer = () => 'all';
  await tell(limits.tailUnknownMs);
  assert.equal(it.events.length, 3);
  answer = () => {
    throw new Error('the role was dropped');
  };
  await tell(limits.tailRightsMs);
  assert.equal(it.events.length, 3);
  it.end();
});

test('a tail beyond its line bound shows refused requests first, and counts the omitted lines', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const it = watched(() => 'all');
  it.tell({ lines: [], skipped: 0 });
  t.mock.timers.tick(0);
  await settle();
  const many = Array.from({ length: 30 }, (_, i) =>
    i === 25 ? line('t', { code: 'signature_failed', status: 401 }) : line('t', { rows: i }),
  );
  it.writes = false;
  it.tell({ lines: many, skipped: 3 });
  t.mock.timers.tick(limits.tailFlushMs);
  await settle();
  it.writes = true;
  it.tell({ lines: many, skipped: 0 });
  t.mock.timers.tick(limits.tailFlushMs);
  await settle();
  const [event] = it.events;
  assert.equal(event?.lines.length, limits.tailLinesMax);
  assert.equal(event?.lines.at(-1)?.code, 'signature_failed');
  assert.equal(event?.skipped, 33 + 20);
  it.end();
});

test('the pages of the request list have each remembered request once, also those of one millisecond', async () => {
  const ring = new OutcomeTail(() => 10_000, true);
  const observe = observers(ring.readers);
  for (let i = 0; i < 600; i++) observe(answered(`t${i}`, { arrivedAtMs: 5_000 - Math.floor(i / 7) }));
  for (let i = 0; i < 250; i++) observe(answered(`u${i}`, { arrivedAtMs: 6_000 }));
  const deps = { tail: ring, ask: async () => null, rights: async () => 'all' as const };
  const seen: (readonly [number, string])[] = [];
  let from: ListAnswer['next'] = null;
  do {
    const page: ListAnswer = await listRequests({ filter: anyKept, from, counts: false }, deps);
    assert(page.away && page.rows.length > 0 && page.rows.length <= limits.listRowsMax);
    seen.push(...page.rows.map(({ arrivedAtMs, table }) => [arrivedAtMs, table] as const));
    from = page.next;
  } while (from !== null);
  assert.equal(new Set(seen.map(([, table]) => table)).size, 850);
  assert.deepEqual([seen.length, seen], [850, seen.toSorted(([a], [b]) => b - a)]);
});

test('a superuser in one database sees requests without a table, but not those to addresses of other databases', () => {
  const rights: TailRights = {
    database: 'shop',
    tables: new Map(),
    strays: true,
    others: new Set(['dev', 'a b']),
  };
  const sees = (path: string): boolean => maySee(rights, line('', { path }));
  const shown = ['/webhook/shop/public/x', '/webhook/typo/public/x', '/', '/dev', '/webhook/%E0%A4%A/x'];
  const elsewhere = [
    '/webhook/dev/public/x',
    '/webhook/dev',
    '/ingest/dev/public/x',
    '/webhook/a%20b/public/x',
  ];
  assert.deepEqual([...shown, ...elsewhere].filter(sees), shown);
  assert.equal(maySee({ ...rights, strays: false }, line('', { path: '/' })), false);
});
