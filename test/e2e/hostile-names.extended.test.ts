/**
 * Whoever may create in a schema on root's search_path can offer functions and operators that fit the arguments of a statement better
 * than PostgreSQL's own. None of the statements that the console and the commands run themselves calls one.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { earlierArrivals, readArrival, rowsOfArrival } from '../../src/console/accepted-rows.ts';
import { anyKept } from '../../src/console/request-filter.ts';
import {
  countHandshakes,
  countKept,
  findKept,
  findTables,
  listHandshakes,
  listKept,
  readHandshake,
  countByTime,
  sameReason,
  explainValidate,
} from '../../src/console/request-statements.ts';
import {
  countMatching,
  countRetried,
  isOfKept,
  isTable,
  listReplacing,
  retryBatch,
} from '../../src/console/retry-statements.ts';
import { readOrder, readOrders, rowPage, startsOf } from '../../src/console/row-pages.ts';
import {
  compareTraffic,
  countEndpoints,
  countNames,
  countSenders,
  findEndpoints,
  listEndpoints,
  listNeeds,
  listTraffic,
  noEndpointFilter,
  readFacts,
  readState,
  readTraffic,
} from '../../src/console/endpoint-list.ts';
import {
  currentSchema,
  readFirst,
  readMade,
  readQuestion,
  readRefusal,
  takenNames,
} from '../../src/console/new-endpoint.ts';
import {
  listColumns,
  listEventTables,
  listGrowth,
  listTree,
  readColumns,
} from '../../src/console/relation-statements.ts';
import {
  countKeptOf,
  listDatabases,
  listReasons,
  listSecrets,
  ownedTable,
  readEngine,
  readRefused,
  readWal,
  readZone,
  showCreate,
  visibleTables,
} from '../../src/console/statements.ts';
import { cli, consoleLink, post } from '../support/console.ts';
import { sharedHeadgate, startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { until } from '../support/until.ts';

const functions = [
  'pg_partition_tree(oid)',
  'pg_total_relation_size(oid)',
  'pg_relation_size(text)',
  'concat_ws(text, integer, numeric, numeric, numeric)',
  'convert_to(text, text)',
  'format(text, bigint)',
  'format(text, name, name)',
  'row_to_json(public.hooks)',
  'to_jsonb(public.hooks)',
  'json_build_object()',
  'json_build_object(text, jsonb, text, jsonb, text, text)',
  'pg_wal_lsn_diff(pg_lsn, text)',
  'array_to_json(text[])',
];
const aggregates = ['array_agg(text)', 'json_agg(name)'];
const operators = [
  ['/', 'numeric', 'integer'],
  ['->>', 'jsonb', 'jsonb'],
  ['=', 'oid', 'integer'],
  ['=', 'oid', 'regclass'],
  ['=', 'regclass', 'regclass'],
] as const;

/** As a role that may create in `public`. */
async function setTraps(headgate: Headgate, t: TestContext): Promise<void> {
  const root = await headgate.client(t);
  await root.query('CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory');
  const mallory = await headgate.clientAs(t, 'mallory');
  const body = `LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$`;
  const statements = [
    ...functions.map((it) => `CREATE FUNCTION public.${it} RETURNS text ${body}`),
    ...aggregates.flatMap((it) => {
      const [, name = '', type = ''] = /^(\w+)\((\w+)\)$/.exec(it) ?? [];
      return [
        `CREATE FUNCTION public.trap_${name}(text, ${type}) RETURNS text ${body}`,
        `CREATE AGGREGATE public.${it} (SFUNC = public.trap_${name}, STYPE = text)`,
      ];
    }),
    ...operators.flatMap(([operator, left, right], i) => [
      `CREATE FUNCTION public.trap_${i}(${left}, ${right}) RETURNS ${operator === '=' ? 'boolean' : operator === '/' ? 'numeric' : 'text'} ${body}`,
      `CREATE OPERATOR public.${operator} (FUNCTION = public.trap_${i}, LEFTARG = ${left}, RIGHTARG = ${right})`,
    ]),
  ];
  for (const sql of statements) await mallory.query(sql);
}

const shared = sharedHeadgate();
let isTrapped = false;

async function trapped(t: TestContext): Promise<Headgate> {
  const headgate = await shared();
  if (isTrapped) return headgate;
  isTrapped = true;
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE hooks (data JSONB) INCLUDE HEADER 'x-name' AS name WITH (connector = 'webhook');
    CREATE SECRET guard WITH (backend = 'meta') AS 'a key of sixteen bytes';
    CREATE TABLE guarded (data JSONB) WITH (connector = 'webhook')
      VALIDATE SECRET guard AS secure_compare(headers->>'x', guard)`);
  await setTraps(headgate, t);
  assert.equal((await headgate.post('dev/public/hooks', '{"n":1}', { 'x-name': 'a' })).status, 200);
  assert.equal((await headgate.post('dev/public/guarded', '{"n":1}')).status, 401);
  await until(async () => {
    const { rows } =
      await client.query(`SELECT FROM headgate.rejected_requests, headgate.traffic, headgate.endpoint_states s
      WHERE headgate.traffic.stored > 0 AND headgate.traffic.table_name = 'hooks' AND s.table_name = 'guarded' AND s.since_unauthorized = 1`);
    return rows.length > 0;
  });
  // As if it had refused more of them: then it is one of those that need somebody.
  await client.query('UPDATE headgate.traffic_since SET unauthorized = 3 WHERE unauthorized = 1');
  await client.query(`INSERT INTO headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason, authenticated,
      remote_address, method, target, headers, headers_left_out, cause)
    SELECT received_at, relation, schema_name, table_name, door, status, code, reason, authenticated, remote_address, method, target, headers,
      headers_left_out, '{"kind":"signature"}'
    FROM headgate.rejected_requests CROSS JOIN pg_catalog.generate_series(1, 3)`);
  return headgate;
}

const hooks = { schema: 'public', table: 'hooks' };
const filter = { ...anyKept, text: 'n', checked: 'no', stored: 'no' };
/** Of what there is none here. */
const counted = (sql: string | null): string => `SELECT count(*) AS rows FROM (${sql}) AS shown`;
const slice = { from: [1_000, 'r9'], max: 10, scanned: 100 } as const;
const seen = { arrivedAtMs: 1_000, schema: 'public', table: 'hooks', address: '127.0.0.1' };
const explained = { headers: [], body: '', url: '', method: '', now: '' };
const rows = {
  column: 'name',
  direction: 'desc',
  from: null,
  text: '',
  names: ['data', 'name'],
  max: 50,
} as const;
const shown = {
  countMatching: countMatching(filter),
  countRetried: countRetried(['1']),
  explainValidate: explainValidate({ schema: 'public', table: 'guarded' }, explained),
  readOrders: readOrders({ schema: 'headgate', table: 'rejected_requests' }),
  rowPage: rowPage(hooks, rows),
  searchedRows: rowPage(hooks, { ...rows, text: 'n', from: { value: 'z', at: '' } }),
  startsOf: startsOf(hooks, { ...rows, text: 'n', from: { value: 'z', at: '9999999 (0,1)' } }),
  startsOfAny: startsOf(hooks, { ...rows, column: null }),
  readOrder: readOrder(hooks),
  listColumns,
  listEventTables,
  countKeptOf: countKeptOf(hooks),
  countKeptOfAll: countKeptOf(null),
  listReplacing: counted(listReplacing(isTable(hooks))),
  listReplacingOfKept: counted(listReplacing(isOfKept(filter))),
  listDatabases,
  countEndpoints: countEndpoints({ ...noEndpointFilter, text: 'hook' }),
  listEndpoints: listEndpoints({ ...noEndpointFilter, text: 'HOOK' }),
  listEndpointsThatNeed: listEndpoints({ ...noEndpointFilter, show: 'need', sort: 'refused' }),
  listEndpointsOfOthers: listEndpoints({
    ...noEndpointFilter,
    checks: { ids: ['github'], keys: ['none'], isNot: true },
    owner: 'root',
  }),
  countSenders: countSenders(['github', 'guard']),
  countOwners: countNames('owner', 'O', 5),
  countSchemas: countNames('schema', 'P', 5),
  compareTraffic: compareTraffic(null, 1),
  compareTrafficOf: compareTraffic(hooks, 7),
  findEndpoints: findEndpoints('HOOK', 5),
  listNeeds,
  takenNames: takenNames('public', 'hook'),
  readMade: readMade(hooks),
  readFirst: readFirst(hooks, ['data']),
  readRefusal: readRefusal({ schema: 'public', table: 'guarded' }),
  readQuestion: readQuestion(hooks),
  readFacts: readFacts(hooks),
  readZone,
  listTree: listTree('HOOK'),
  readColumns: readColumns(hooks),
  currentSchema,
  listGrowth,
  listReasons: listReasons(null),
  countHandshakes: countHandshakes(anyKept, 1_000) ?? '',
  countKept: countKept(filter, 1_000) ?? '',
  findKept: counted(findKept(seen)),
  findTables: findTables('HOOK'),
  listHandshakes: counted(listHandshakes({ ...anyKept, text: 'n' }, slice)),
  listKept: listKept(filter, { ...slice, from: null }) ?? '',
  listAllKept: listKept(anyKept, { ...slice, from: null }) ?? '',
  readArrival: readArrival('public', 'hooks'),
  earlierArrivals: earlierArrivals(
    { schema: 'headgate', table: 'rejected_requests' },
    'received_at',
    '2999-01-01',
    1_000,
  ),
  readHandshake: counted(readHandshake('1')),
  rowsOfArrival: counted(rowsOfArrival('public', 'hooks', 'name', 1_000).replace(/= timestamptz/, '= text')),
  countByTime: countByTime(filter, 60),
  sameReason: sameReason('1'),
  listSecrets,
  listTraffic: listTraffic([hooks]),
  ownedTable: ownedTable(hooks),
  readEngine,
  readRefused: readRefused('1'),
  readState: counted(readState(1)),
  readTraffic: readTraffic(hooks, { hours: 24, fromMs: null, untilMs: null }, 900),
  readTrafficOfAll: readTraffic(null, { hours: 1, fromMs: null, untilMs: 4_000_000_000_000 }, 60),
  readWal,
  retryBatch: retryBatch(filter, { after: '0', last: '100' }, false, 10),
  showCreate: showCreate(hooks),
  visibleTables: counted(visibleTables([1, 2])),
};

suite('Headgate calls no functions and operators of other roles', () => {
  // The console's retries what the commands explain.
  test('headgate commands call no functions and operators that other roles created', async (t) => {
    const headgate = await trapped(t);
    const at = `--data-dir=${headgate.dataDir}`;
    for (const [args, said] of [
      [['endpoints', at], /hooks/],
      [['doctor', at], /public\.hooks has no VALIDATE/],
      [['explain', at], /unauthorized|signature/i],
      [['export', 'hooks', at], /\{"data":\{"n": 1\},"name":"a"\}/],
      [['export', 'hooks', '--format=csv', '--since=0', at], /n/],
      [['infer', '--table=hooks', at], /n BIGINT/],
      [['sql', at], /data +jsonb/],
      [['replay', 'hooks', '--to=hooks', "--where=data->>'n' = '1'", at], /200: 1/],
    ] as const) {
      const [command] = args;
      const input = command === 'sql' ? '\\d\n\\d hooks\n\\endpoints\n' : '';
      const { code, stdout, stderr } = await run(process.execPath, [cli, ...args], { input });
      assert.doesNotMatch(stdout + stderr, /trapped/, command);
      assert.match(stdout, said, command);
      // The finding of doctor is one to look at.
      assert.ok(code === 0 || command === 'doctor', `${command}: ${stderr}`);
    }
  });

  test("the console's views and statements call no functions and operators that other roles created", async (t) => {
    const headgate = await trapped(t);
    const { port } = headgate.ports.admin;
    const [, link = ''] = (await consoleLink(headgate)).split('#t=');
    const { token } = JSON.parse((await post(port, 'login', { link })).text) as { token: string };
    const asks = (sql: string, own: boolean) => post(port, 'sql', { sql, write: false, own }, token);
    const hostile = 'SELECT pg_total_relation_size(c.oid) FROM pg_class c LIMIT 1';
    // What a user types means what it means in psql.
    assert.match((await asks(hostile, false)).text, /trapped as root/);
    assert.equal((await asks(hostile, true)).status, 200);
    for (const [name, sql] of Object.entries(shown))
      for (const own of name === 'retryBatch' ? [] : [true, false]) {
        const { status, text } = await asks(sql, own);
        assert.equal(status, 200, `${name}: ${text}`);
        if (name !== 'readQuestion')
          assert.notEqual(text.includes('"rows":[]'), true, `${name} read nothing`);
      }
    const client = await headgate.client(t);
    assert.equal((await client.query(shown.retryBatch)).rows.length, 4);
    assert.equal((await post(port, 'retry', { filter, force: true }, token)).status, 200);
  });
});

test('a locked table is listed without its size, and no view of Headgate waits for it', async (t) => {
  const headgate = await startHeadgate(t);
  const [client, holder] = [await headgate.client(t), await headgate.client(t)];
  await client.query(`CREATE TABLE free (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE held (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE indexed (id INT PRIMARY KEY) WITH (connector = 'webhook');
    CREATE TABLE parts (data JSONB) INCLUDE TIMESTAMP AS at PARTITION BY RANGE (at) WITH (connector = 'webhook');
    CREATE TABLE old PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
    CREATE TABLE new PARTITION OF parts DEFAULT;
    INSERT INTO new VALUES ('1', now())`);
  await holder.query('BEGIN; LOCK TABLE held, old; REINDEX INDEX indexed_pkey');
  // A view that waits fails.
  await client.query(`SET lock_timeout = '5s'`);
  const everything = listEndpoints({ ...noEndpointFilter, sort: 'name' });
  for (const sql of [everything, listGrowth]) {
    const { rows } = await client.query<{ relname: string; bytes: string | null }>(sql);
    const known = rows.map(({ relname, bytes }) => [relname, bytes === null ? null : Number(bytes) > 0]);
    assert.deepEqual(
      known.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
      [
        ['free', true],
        ['held', null],
        ['indexed', null],
        ['parts', true],
      ],
    );
  }
  for (const sql of ['SHOW ENDPOINTS', listTraffic([]), listReasons(null), listColumns, listSecrets])
    await client.query(sql);
  await holder.query('ROLLBACK');
});
