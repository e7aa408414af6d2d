/** Slow tables of some owners, on a real PostgreSQL: tables of others get their connections. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { codes, committer, webhookRoom } from '../../test/support/commit-room.ts';
import { ownerLogins } from '../../test/support/owner-logins.ts';
import { Spy } from '../../test/support/postgres.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { until } from '../../test/support/until.ts';
import type { Target } from '../types/target.ts';

/** Owners `a`, `b` and `c`, and tables of theirs that run code. */
async function room(t: TestContext) {
  const { client, database, tableOf } = await webhookRoom(t);
  // Roles are the whole server's.
  const mark = randomBytes(4).toString('hex');
  const roleOf = (owner: string) => `turns_${mark}_${owner}`;
  for (const owner of ['a', 'b', 'c']) await client.query(`create role ${roleOf(owner)}`);
  onEnd(t, 'roles', async () => {
    for (const owner of ['a', 'b', 'c'])
      await client.query(`drop owned by ${roleOf(owner)} cascade; drop role ${roleOf(owner)}`);
  });
  /** Tables with a trigger that does this first. */
  const tables = async (owner: string, count: number, does: string): Promise<Target[]> => {
    await client.query(`create function does_${owner}() returns trigger language plpgsql as
      $$ begin ${does}; return new; end $$`);
    const made: Target[] = [];
    for (let i = 0; i < count; i++) {
      const name = `${owner}${i}`;
      await client.query(`create table ${name} (data jsonb); alter table ${name} owner to ${roleOf(owner)};
        insert into headgate.webhook_table (relation, payload, options, includes) values ('${name}', 'data', '{}', '[]');
        create trigger does before insert on ${name} for each row execute function does_${owner}()`);
      made.push(await tableOf(name, { document: 'data' }));
    }
    return made;
  };
  const working = async (event: string) => {
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event = $1`,
      [event],
    );
    return rows[0]?.n ?? 0;
  };
  const clientConfig = (name: string) => database.engine.clientConfig(name);
  const engine = { clientConfig, logins: ownerLogins(t, clientConfig) };
  return { client, engine, tables, working };
}

suite('the owner scheduler shares PostgreSQL connections fairly', () => {
  test('tables whose triggers sleep again and again cause no refusal for tables of another owner', async (t) => {
    const { engine, tables, working } = await room(t);
    const slow = await tables('a', 20, 'perform pg_sleep(1.9)');
    const [quick] = await tables('b', 1, 'perform 1');
    assert(quick !== undefined);
    const spy = new Spy();
    const send = committer(t, engine, spy);
    assert.deepEqual(codes(await send([rowsOf(quick, '0')])), [1]);
    const over = new AbortController();
    t.after(() => over.abort());
    const load = slow.map(async (target) => {
      while (!over.signal.aborted) await send([rowsOf(target, '{}')]);
    });
    await until(async () => (await working('PgSleep')) > 0);
    for (let n = 1; n <= 20; n++)
      assert.deepEqual(codes(await send([rowsOf(quick, String(n))])), [1], `${n}`);
    over.abort();
    await Promise.all(load);
    // Who waited too long was told so, and is certainly not stored.
    assert(spy.seen.some((it) => it.kind === 'group.aborted' && it.sqlstate === '57014'));
  });

  test('two owners whose groups are stuck do not keep other owners from connections', async (t) => {
    const { client, engine, tables, working } = await room(t);
    const stuck = 'perform pg_advisory_xact_lock_shared(736)';
    const all = [...(await tables('a', 10, stuck)), ...(await tables('c', 10, stuck))];
    const [quick] = await tables('b', 1, 'perform 1');
    assert(quick !== undefined);
    // They stay so for as long as the test holds the lock.
    const patient = { ackDeadlineMs: 60_000, commitStatementTimeoutMs: 59_500 };
    const send = committer(t, engine, new Spy(), patient);
    const rows = (target: Target, n: number) => [
      { ...rowsOf(target, String(n)), ackTimeoutMs: patient.ackDeadlineMs },
    ];
    // The first group of an owner opens its session.
    for (const target of [quick, ...all]) assert.deepEqual(codes(await send(rows(target, 0))), [1]);
    await client.query('select pg_advisory_lock(736)');
    const sent = all.map((target) => send(rows(target, 1)));
    await until(async () => (await working('advisory')) === 7);
    for (let n = 1; n <= 5; n++) assert.deepEqual(codes(await send(rows(quick, n))), [1], `${n}`);
    await client.query('select pg_advisory_unlock(736)');
    for (const outcomes of await Promise.all(sent)) assert.deepEqual(codes(outcomes), [1]);
  });
});
