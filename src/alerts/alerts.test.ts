import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { onEnd } from '../../test/support/cleanup.ts';
import { minute, stage, table } from '../../test/support/alert-stage.ts';
import type { Stage, Told } from '../../test/support/alert-stage.ts';
import { until } from '../../test/support/until.ts';
import { createMetrics } from '../admin/metrics.ts';
import { createPost } from '../access/outgoing.ts';
import { limits } from '../config/limits.ts';
import { observers } from '../observe/context.ts';
import { keptIn } from './state-file.ts';
import { rules } from './rules.ts';
import type { ReplicationSlot, AlertInput } from './rules.ts';

/** How each begins, and how it ends. */
const conditions: readonly (readonly [string, (it: Stage) => void, (it: Stage) => void])[] = [
  ['HeadgateNotReady', (it) => (it.notReady = 'the database is away'), (it) => (it.notReady = null)],
  [
    'HeadgateAnswering503',
    (it) => it.add('headgate_requests_total', { ...table, status: '503', code: 'lane_full' }),
    () => {},
  ],
  ['HeadgateBug', (it) => it.add('headgate_sql_failures_total'), () => {}],
  ['HeadgateCommitUnknown', (it) => it.add('headgate_groups_total', { result: 'unknown' }, 4), () => {}],
  ['HeadgateLaneFilling', (it) => it.add('headgate_lane_rows', table, 9_000), (it) => it.counts.clear()],
  [
    'HeadgateTableUnusable',
    (it) => it.add('headgate_tables_unusable', { database: 'dev' }),
    (it) => it.counts.clear(),
  ],
  [
    'HeadgateSignaturesFail',
    (it) => it.add('headgate_requests_total', { ...table, status: '401', code: 'signature_failed' }),
    () => {},
  ],
  [
    'HeadgateRowsRefused',
    (it) => it.add('headgate_requests_total', { ...table, status: '422', code: 'row_refused' }, 11),
    () => {},
  ],
  ['HeadgateDeliveryDiffers', (it) => it.add('headgate_deliveries_differing_total', table), () => {}],
  ['HeadgateDeliverDead', (it) => it.add('headgate_deliver_dead_rows', table), (it) => it.counts.clear()],
  ['HeadgateDeliverStopped', (it) => it.add('headgate_deliver_working', table, 0), (it) => it.counts.clear()],
  ['HeadgateEngineRestarts', (it) => it.add('headgate_engine_restarts_total', {}, 3), () => {}],
  ['HeadgateCatalogUnreadable', (it) => it.add('headgate_catalog_failures_total', {}, 6), () => {}],
  [
    'HeadgateSpoolWaits',
    (it) => it.add('headgate_spool_oldest_seconds', table, 1_801),
    (it) => it.counts.clear(),
  ],
  [
    'HeadgateSpoolFills',
    (it) => {
      it.add('headgate_spool_limit_bytes', {}, 100);
      it.add('headgate_spool_bytes', {}, 51);
    },
    (it) => it.counts.clear(),
  ],
  ['HeadgateSpoolTrouble', (it) => it.add('headgate_spool_held'), (it) => it.counts.clear()],
  [
    'HeadgateBodiesInFlight',
    (it) => it.add('headgate_listener_bytes_in_flight', {}, limits.bodiesInFlightBytesMax * 0.8),
    (it) => it.counts.clear(),
  ],
  [
    'HeadgateDiskFull',
    (it) => (it.disk = { freeBytes: 1_000, totalBytes: 2 ** 40 }),
    (it) => (it.disk = { freeBytes: 2 ** 39, totalBytes: 2 ** 40 }),
  ],
  [
    'HeadgateCertificate',
    (it) =>
      observers(it.signs.readers)({
        kind: 'tls.doubtful',
        door: 'listen',
        subject: 'x',
        state: 'expires soon',
        validFrom: '',
        validUntil: '2026-12-01',
      }),
    (it) => observers(it.signs.readers)({ kind: 'tls.loaded', door: 'listen', subject: 'x', expiresAtMs: 0 }),
  ],
  [
    'HeadgateHandshakeMissed',
    (it) => it.add('headgate_handshakes_total', { ...table, outcome: 'unmatched' }),
    () => {},
  ],
  [
    'HeadgateHandshakeMissed',
    (it) => observers(it.signs.readers)({ kind: 'sns.failed', table, reason: '' }),
    () => {},
  ],
  [
    'HeadgateTableSilent',
    (it) => {
      it.add('headgate_tables', { database: 'dev' });
      it.silent = [{ labels: table, minutes: 100, usualMinutes: 10 }];
    },
    (it) => (it.silent = []),
  ],
  [
    'HeadgateDeliveriesMissing',
    (it) => {
      it.add('headgate_tables', { database: 'dev' });
      it.gaps = [{ labels: table, missing: 3, problem: null }];
    },
    (it) => (it.gaps = []),
  ],
  ['HeadgateSlotBehind', (it) => follow(it, { heldBytes: 600 }), (it) => follow(it, { heldBytes: 400 })],
  ['HeadgateSlotBehind', (it) => follow(it, { lost: true }), (it) => (it.slots = [])],
  ['HeadgateSlotUnread', (it) => follow(it, { active: false }), (it) => follow(it, { read: 8 })],
];

function follow(it: Stage, slot: Partial<ReplicationSlot>): void {
  it.add('headgate_tables', { database: 'dev' });
  const labels = { database: 'dev', slot: 's' };
  it.slots = [{ labels, active: true, lost: false, heldBytes: 0, tooManyBytes: 500, read: 7, ...slot }];
}

for (const [name, begin, end] of conditions) {
  test(`alert ${name} fires, is reported once, and resolves`, async (t) => {
    const it = await stage(t);
    await it.pass(minute);
    assert.deepEqual(it.told(), []);
    const { holdMs } = rules.find((rule) => rule.name === name) ?? { holdMs: NaN };
    begin(it);
    if (holdMs > 0) {
      await it.pass(Math.min(holdMs, minute) / 2);
      assert.deepEqual(it.told(), [], 'not yet');
    }
    for (let round = 0; round < 40; round++) {
      // What counts goes on.
      if (['HeadgateSignaturesFail', 'HeadgateAnswering503'].includes(name)) begin(it);
      await it.pass(30_000);
    }
    const told = it.told();
    const isOfAMoment =
      holdMs === 0 &&
      ![
        'HeadgateSpoolFills',
        'HeadgateSpoolTrouble',
        'HeadgateTableSilent',
        'HeadgateEngineRestarts',
        'HeadgateSlotUnread',
      ].includes(name);
    assert.deepEqual(told.slice(0, 1), [`${name} firing`]);
    assert.equal(told.length, isOfAMoment && told.length > 1 ? 2 : 1, 'once');
    end(it);
    await it.pass(45 * minute);
    assert.deepEqual([...told, ...it.told()], [`${name} firing`, `${name} resolved`]);
  });
}

test('every alert rule has a test case, and the alert rules for Prometheus agree with those of Headgate', async () => {
  assert.deepEqual(
    [...new Set(conditions.map(([name]) => name))],
    rules.map(({ name }) => name),
  );
  const file = fileURLToPath(new URL('../../../deploy/prometheus/alerts.yaml', import.meta.url));
  const { groups } = parse(await readFile(file, 'utf8')) as {
    groups: { rules: { alert: string; for?: string; labels: { severity: string } }[] }[];
  };
  const theirs = new Map(groups[0]?.rules.map((rule) => [rule.alert, rule]));
  const own = [
    'HeadgateDiskFull',
    'HeadgateCertificate',
    'HeadgateHandshakeMissed',
    'HeadgateTableSilent',
    'HeadgateDeliveriesMissing',
    'HeadgateSlotBehind',
    'HeadgateSlotUnread',
  ];
  for (const { name, severity, holdMs } of rules) {
    if (own.includes(name)) continue;
    const rule = theirs.get(name);
    assert.deepEqual(
      [name, rule?.labels.severity, Number(rule?.for?.slice(0, -1) ?? 0) * minute],
      [name, severity, holdMs],
    );
  }
});

test('every metric that an alert rule reads exists', async () => {
  const read = new Set<string>();
  const view: AlertInput = {
    of: (name) => {
      read.add(name);
      return [];
    },
    grown: () => 0,
    notReady: null,
    disk: null,
    certificates: new Map(),
    unconfirmed: [],
    silent: [],
    slots: [],
    gaps: [],
  };
  for (const { wrong } of rules) assert.deepEqual(wrong(view), []);
  const text = await createMetrics({
    lanes: () => [],
    load: () => ({ connections: 0, bytesInFlight: 0 }),
  }).text();
  assert.deepEqual(
    [...read].filter((name) => !text.includes(`# TYPE ${name} `)),
    [],
  );
});

test('an alert that fires and resolves is reported once each, and a thousand alerts cause few messages', async (t) => {
  const it = await stage(t);
  for (let i = 0; i < 20; i++) {
    it.notReady = i % 4 === 3 ? null : 'away';
    await it.pass(minute);
  }
  const words = () =>
    it.bodies.flatMap((body) => (JSON.parse(body) as Told).alerts.map(({ summary }) => summary));
  const said = 'requests are answered 503, or 202 where their table spools: away';
  assert.deepEqual(words(), [said]);
  assert.deepEqual(it.told(), ['HeadgateNotReady firing']);
  it.notReady = null;
  await it.pass(10 * minute);
  assert.deepEqual(words(), [`it is over. It was: ${said}`]);
  assert.deepEqual(it.told(), ['HeadgateNotReady resolved']);
  for (let i = 0; i < 1_200; i++) it.add('headgate_lane_rows', { ...table, table: `t${i}` }, 9_000);
  await it.pass(3 * minute);
  assert.equal(it.bodies.length, 1);
  const { alerts, more } = JSON.parse(it.bodies.pop() ?? '') as Told;
  assert.deepEqual(
    [alerts.length, more],
    [limits.alertToldMax, limits.alertConditionsMax - limits.alertToldMax],
  );
  // One that begins and ends again and again, each time for long enough.
  it.counts.clear();
  await it.pass(10 * minute);
  it.bodies.length = 0;
  for (let i = 0; i < 60; i++) {
    it.add('headgate_lane_rows', { ...table, table: `u${i}` }, 9_000);
    await it.pass(2 * minute);
  }
  assert.ok(it.bodies.length <= 2 * limits.alertPerHour + limits.alertBurst, String(it.bodies.length));
});

test('an alert is sent again while its receiver hangs, redirects or fails, and arrives once when the receiver is back', async (t) => {
  const patient = createPost({ ...limits, outgoingMs: 60_000 });
  const hurried = createPost({ ...limits, outgoingMs: 300 });
  let post = patient;
  const it = await stage(t, { post: (...sent) => post(...sent) });
  let elsewhere = 0;
  const bad: readonly (readonly [RegExp, Stage['answer']])[] = [
    [/took too long/, () => {}],
    [/answered 302/, (_, response) => response.writeHead(302, { location: '/elsewhere' }).end()],
    [/answered 500/, (_, response) => response.writeHead(500).end('no')],
    [/too large/, (_, response) => response.end(Buffer.alloc(1_000_000))],
    [/hang up|ECONNRESET/, (request) => request.socket.destroy()],
  ];
  it.notReady = 'away';
  for (const [reason, answer] of bad) {
    it.answer = (request, response) => {
      if (request.url === '/elsewhere') elsewhere += 1;
      answer(request, response);
    };
    it.said.length = 0;
    post = reason.source === 'took too long' ? hurried : patient;
    for (const tries = it.bodies.length; it.bodies.length === tries;) await it.pass(30_000);
    const last = it.said.at(-1);
    assert.ok(last?.kind === 'alerts.failed' && reason.test(last.reason), JSON.stringify(last));
    assert.doesNotMatch(JSON.stringify(it.said), /hook|key=x/);
  }
  it.bodies.length = 0;
  post = patient;
  it.answer = (_, response) => response.writeHead(204).end();
  await it.pass(60 * minute);
  assert.deepEqual(it.told(), ['HeadgateNotReady firing']);
  assert.equal(elsewhere, 0);
  assert.equal(it.said.at(-1)?.kind, 'alerts.told');
});

test('an alert receiver that hangs is cut off when the service stops, and short alerts meanwhile are not reported', async (t) => {
  const it = await stage(t, { post: createPost({ ...limits, outgoingMs: 600_000 }) });
  it.answer = () => {};
  it.notReady = 'away';
  it.nowMs += 1;
  await it.alerts.look();
  it.nowMs += 2 * minute;
  const looking = it.alerts.look();
  while (it.bodies.length === 0) await new Promise(setImmediate);
  await it.alerts.close();
  await looking;
  assert.deepEqual(it.said, []);
});

test('an alert reported before a restart is not reported again, and its end is reported', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-alerts-'));
  onEnd(t, 'folder', () => rm(folder, { recursive: true }));
  const file = keptIn(folder);
  assert.deepEqual(await file.read(), [], 'there is none');
  const before = await stage(t, { file });
  before.notReady = 'away';
  before.add('headgate_lane_rows', table, 9_000);
  await before.pass(2 * minute);
  assert.deepEqual(before.told(), ['HeadgateNotReady firing', 'HeadgateLaneFilling firing']);
  const after = await stage(t, { file });
  after.notReady = 'away';
  // Its loop looks at once, and then in an hour.
  after.alerts.start();
  await until(() => after.looks > 0);
  await after.pass(20 * minute);
  assert.deepEqual(after.told(), ['HeadgateLaneFilling resolved']);
  after.notReady = null;
  await after.pass(10 * minute);
  assert.deepEqual(after.told(), ['HeadgateNotReady resolved']);
  assert.deepEqual(await file.read(), []);
  for (const odd of [
    '',
    '{}',
    '[1, null, {"rule": "x"}]',
    '[{"rule":"x","labels":{"a":1},"sinceMs":1,"says":""}]',
    'x'.repeat(limits.alertFileBytesMax + 1),
  ]) {
    await writeFile(join(folder, 'alerts.json'), odd);
    assert.deepEqual(await file.read(), [], odd.slice(0, 40));
  }
  await keptIn(join(folder, 'nowhere')).write([]);
});

test('an alert for Slack has a text in which names are escaped', async (t) => {
  const it = await stage(t, { form: 'slack' });
  it.add('headgate_lane_rows', { ...table, table: '<!channel> & *x*\\n\u202e' }, 9_000);
  await it.pass(3 * minute);
  const { text } = JSON.parse(it.bodies[0] ?? '{}') as { text: string };
  assert.match(
    text,
    /^Headgate on \S+\n:rotating_light: HeadgateLaneFilling · dev\.public\.&lt;!channel&gt; &amp; \*x\*\?\? · 9000 rows wait/,
  );
});
