/**
 * A row whose trigger, check, domain, generated column or deferred trigger fails, with any SQLSTATE there is: only that row is
 * refused, and the others in its group get 200. Kinds of rows in groups of many SQLSTATEs, and some of them alone.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, committer, describeTable } from '../../test/support/commit-room.ts';
import { Spy } from '../../test/support/postgres.ts';
import { rowsOf, targetOf as madeTarget } from '../../test/support/rows.ts';
import { sampleOf, sampleSeed, someVersion } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { toCode, toShape } from '../relations/shape.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

/** One of each class, and those that mean something to Headgate or to PostgreSQL's own clients. */
const states = (
  '00000 01000 02000 03000 08000 08003 08006 08P01 09000 0A000 0B000 0F000 0L000 0P000 0Z000 20000 21000 22000 22P02 22P03 ' +
  '22P04 23000 23502 23503 23505 23514 24000 25000 25001 25006 25P02 25P03 25P04 26000 27000 28000 28P01 2B000 2D000 2F000 ' +
  '34000 38000 39000 3B000 3D000 3F000 40000 40001 40002 40003 40P01 42000 42501 42601 42703 42P01 42P18 44000 53000 53100 ' +
  '53200 53300 53400 54000 55000 55006 55P03 57000 57014 57P01 57P02 57P03 57P05 58000 58030 58P01 72000 F0000 HV000 HV00N ' +
  'P0000 P0001 P0002 P0003 P0004 XX000 XX001 XX002 HG001 AB123 ZZ999'
).split(' ');

/** What the row's own code does beside raising a SQLSTATE, and what a sender of such a row reads. */
const deeds: readonly (readonly [deed: string, answer: string])[] = [
  ['undefined function', 'aborted row_refused'],
  ['undefined table', 'aborted row_refused'],
  ['not allowed', 'aborted row_refused'],
  ['no sequence yet', 'aborted row_refused'],
  ['assert', 'aborted row_refused'],
  ['commit', 'aborted row_refused'],
  // Nobody can say that it is the row: the lock may be free, and the file there, the next time.
  ['nowait', 'aborted engine_unavailable'],
  ['no file', 'aborted engine_unavailable'],
];

const code = `
  create sequence unused; create table locked (); create role nobody;
  create function fail_now(v text) returns boolean language plpgsql as $$ begin
    if v is null then return true; end if;
    case v
      when 'undefined function' then perform nosuch();
      when 'undefined table' then perform from nosuch;
      when 'not allowed' then set local role nobody; create schema mine;
      when 'no sequence yet' then perform currval('unused');
      when 'assert' then assert false;
      when 'commit' then commit;
      when 'nowait' then lock table locked nowait;
      when 'no file' then perform pg_read_file('nosuch');
      else raise exception 'the secret of another row' using errcode = v;
    end case;
    return true;
  end $$;
  create function fail(v text) returns boolean language plpgsql immutable as $$ begin return fail_now(v); end $$`;

const key = { copy: `data ->> 'c'`, other: 'c' } as const;

/** How a row comes to run its code; \`c\` is the expression that says what it does. */
const hooks: Readonly<Record<string, (table: string, c: string) => string>> = {
  before: (table, c) => trigger(table, c, 'trigger', 'before insert'),
  after: (table, c) => trigger(table, c, 'trigger', 'after insert'),
  deferred: (table, c) =>
    trigger(table, c, 'constraint trigger', 'after insert', 'deferrable initially deferred'),
  check: (table, c) => `alter table ${table} add check (fail(${c}))`,
  generated: (table, c) => `alter table ${table} add made boolean generated always as (fail(${c})) stored`,
  domain: (table, c) =>
    c === key.copy
      ? `create domain document_${table} as jsonb check (fail(value ->> 'c'));
         alter table ${table} alter data type document_${table}`
      : `create domain word_${table} as text check (fail(value)); alter table ${table} alter c type word_${table}`,
};

function trigger(table: string, c: string, kind: string, when: string, how = ''): string {
  return `create function ${table}_f() returns trigger language plpgsql as $$ begin
      perform fail(new.${c}); return new; end $$;
    create ${kind} ${table}_t ${when} on ${table} ${how} for each row execute function ${table}_f()`;
}

const ways: Readonly<Record<string, string>> = {
  copy: 'data jsonb',
  insert: 'id int, c text',
  upsert: 'id int primary key, c text',
};

async function roomOn(t: TestContext, bin: string) {
  const server = await startServer(bin);
  onEnd(t, 'server', () => server.close());
  const config = { host: server.socketDir, user: 'root', database: 'postgres' };
  const client = new Client(config);
  await client.connect();
  onEnd(t, 'client', () => client.end());
  await runOurs(client, `create table first (data jsonb) with (connector = 'webhook')`);
  await client.query(code);
  const spy = new Spy();
  const engine = { clientConfig: (database: string) => ({ ...config, database }) };
  const target = async (name: string, way: string): Promise<Target> => {
    const row = await describeTable(client, name);
    assert(row !== null);
    const found = toCode(row);
    assert(typeof found !== 'string');
    const code = { ...found, functionsIn: way === 'copy' ? 'headgate' : null } as const;
    const given = { database: 'postgres', table: name, oid: row.relation, code };
    if (way === 'copy') return madeTarget({ ...given, shape: { version: row.version } });
    const shape = toShape(row, { writeMode: null, document: null, includes: [], onTypeError: 'reject' });
    assert(typeof shape !== 'string');
    return madeTarget({ ...given, shape });
  };
  const make = async (name: string, way: string, hook: string): Promise<Target> => {
    const columns = `create table ${name} (${ways[way]})`;
    if (way === 'copy') await runOurs(client, `${columns} with (connector = 'webhook')`);
    else await client.query(columns);
    await client.query(hooks[hook]?.(name, way === 'copy' ? key.copy : key.other) ?? '');
    return target(name, way);
  };
  return { config, client, make, spy, send: committer(t, engine, spy, { ackDeadlineMs: 60_000 }) };
}

const tell = (outcomes: readonly Outcome[]) =>
  codes(outcomes).map((it) => (it === 'aborted payload_undecodable' ? 'aborted row_refused' : it));

function faultsOn(bin: string): void {
  test('a row whose code fails with any SQLSTATE is refused alone', async (t) => {
    const { config, client, make, send } = await roomOn(t, bin);
    const holder = new Client(config);
    await holder.connect();
    onEnd(t, 'holder', () => holder.end());
    await holder.query('begin; lock table locked');
    let ids = 0;
    const kinds = Object.keys(ways).flatMap((way) => Object.keys(hooks).map((hook) => [way, hook] as const));
    for (const [way, hook] of sampleOf(kinds, 6)) {
      const table = `${way}_${hook}`;
      const target = await make(table, way, hook);
      const rows = (...deeds: (string | null)[]): Rows => ({
        ...rowsOf(target, ...deeds.map((c) => JSON.stringify({ id: ++ids, c }))),
        ackTimeoutMs: 60_000,
      });
      let honest = 0;
      const cases = [...states.map((state) => [state, 'aborted row_refused'] as const), ...deeds];
      const apart = sampleOf(cases, 4);
      for (const [deed, answer] of apart) {
        const outcomes = await send([rows(null), rows(deed), rows(null, null), rows(null, deed, null)]);
        assert.deepEqual(tell(outcomes), [1, answer, 2, answer], `${table}: ${deed} ${sampleSeed}`);
        assert(
          !JSON.stringify(outcomes, (key, value: unknown) => (key === 'engineError' ? null : value)).includes(
            'secret',
          ),
          `${table}: ${deed}`,
        );
        assert.deepEqual(tell(await send([rows(deed)])), [answer], `${table}: ${deed} alone`);
        honest += 3;
      }
      const together = sampleOf(cases, 30);
      const mixed = together.flatMap(([deed]) => [rows(null), rows(deed)]);
      assert.deepEqual(
        tell(await send(mixed)),
        together.flatMap(([, answer]) => [1, answer]),
        `${table}: ${together.map(([deed]) => deed).join()} together ${sampleSeed}`,
      );
      honest += together.length;
      const { rows: counted } = await client.query<{ n: number }>(`select count(*)::int as n from ${table}`);
      assert.equal(counted[0]?.n, honest, table);
    }
  });

  test("an engine error that is no row's fault gives the whole group 503, and blames no row", async (t) => {
    const { config, client, make, spy } = await roomOn(t, bin);
    await client.query(`create role headgate login; grant usage on schema headgate to headgate;
      grant execute on function headgate.confirm(text, oid, text, oid), headgate.stays(text, oid, text, oid) to headgate; grant select on headgate.webhook_table to headgate`);
    const as = (options: string, bounds = {}) =>
      committer(
        t,
        { clientConfig: (database) => ({ ...config, database, user: 'headgate', options }) },
        spy,
        bounds,
      );
    const [usual, hasty, reading, brief] = [
      as(''),
      as('-c lock_timeout=50ms'),
      as('-c default_transaction_read_only=on'),
      as('', { commitStatementTimeoutMs: 500, ackDeadlineMs: 2_000 }),
    ];
    for (const way of Object.keys(ways)) {
      const table = `${way}_nobody`;
      const target = await make(table, way, 'before');
      const rows = (given: Partial<Rows> = {}): Rows[] =>
        [1, 2, 3].map((id) => ({ ...rowsOf(target, JSON.stringify({ id })), ...given }));
      const alone = (given?: Partial<Rows>) => rows(given).slice(0, 1);
      await client.query(`grant select, insert, update, delete on ${table} to headgate`);
      assert.deepEqual(codes(await usual(rows())), [1, 1, 1]);
      const everybody = async (send: typeof usual, answer: string, given?: Partial<Rows>) => {
        assert.deepEqual(codes(await send(rows(given))), [answer, answer, answer], `${table}: a group`);
        assert.deepEqual(codes(await send(alone(given))), [answer], `${table}: alone`);
      };
      await everybody(reading, 'aborted engine_unavailable');
      const holder = new Client(config);
      await holder.connect();
      onEnd(t, 'holder', () => holder.end());
      await holder.query(`begin; lock table ${table}`);
      await everybody(hasty, 'aborted engine_unavailable');
      await everybody(brief, 'aborted deadline', { ackTimeoutMs: 2_000 });
      await holder.query('rollback');
      await client.query(`revoke insert on ${table} from headgate`);
      await everybody(usual, 'aborted table_changed');
      await client.query(`grant insert on ${table} to headgate`);
      assert.deepEqual(codes(await usual(alone())), [1]);
    }
  });
}

for (const [version, bin] of someVersion())
  suite(`rows at fault are told from engine errors on PostgreSQL ${version}`, () => faultsOn(bin));
