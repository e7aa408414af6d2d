/**
 * Several Headgates over one database, with one receiver: each alert is reported once, and its end once when no Headgate sees
 * it any more.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { testDatabase } from '../../test/support/postgres.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import { Alerts } from './alerts.ts';
import type { SavedCondition } from './state-file.ts';
import type { SilentTable } from './rules.ts';
import { SharedAlerts } from './claims.ts';

const minute = 60_000;
const labels = { database: 'dev', schema: 'public', table: "gh'\\" };
const silence: SilentTable = { labels, minutes: 100, usualMinutes: 10 };

/** One of them, on a clock of the test. */
class Member {
  silent: readonly SilentTable[] = [];
  kept: readonly SavedCondition[] = [];
  isDeaf = false;
  isAway = false;
  alerts: Alerts;
  readonly #stage: Stage;
  readonly #client: Client;

  constructor(stage: Stage, client: Client) {
    this.#stage = stage;
    this.#client = client;
    this.alerts = this.#made();
  }

  restart(): void {
    this.alerts = this.#made();
  }

  #made(): Alerts {
    const stage = this.#stage;
    const asked = async <Row extends object>(_: string, sql: string): Promise<readonly Row[]> => {
      if (this.isAway) throw new Error('away');
      return (await this.#client.query<Row>(sql)).rows;
    };
    return new Alerts({
      url: new URL('http://localhost/'),
      form: 'json',
      version: '0',
      everyMs: 3_600_000,
      post: async (_url, body) => {
        if (this.isDeaf) throw new Error('no answer');
        const { alerts } = JSON.parse(body) as { alerts: { alert: string; state: string }[] };
        stage.told.push(...alerts.map(({ alert, state }) => `${alert} ${state}`));
      },
      file: { read: async () => this.kept, write: async (kept) => void (this.kept = kept) },
      signs: { certificates: new Map(), unconfirmed: [] },
      metrics: async () => 'headgate_tables{database="dev"} 1',
      ready: () => null,
      disk: async () => null,
      silent: async () => this.silent,
      slots: async () => [],
      gaps: async () => [],
      sharing: new SharedAlerts({ asked }),
      observe: () => undefined,
      nowMs: () => stage.nowMs,
      clock: () => stage.nowMs,
    });
  }
}

class Stage {
  nowMs = 1_000_000;
  readonly told: string[] = [];
  readonly members: Member[] = [];
  readonly client: Client;

  constructor(client: Client) {
    this.client = client;
  }

  /** All of them look twice a minute, one after the other or at once, and the database grows as old as the clock says. */
  async pass(ms: number, members: readonly Member[] = this.members): Promise<string[]> {
    for (const end = this.nowMs + ms; this.nowMs < end;) {
      this.nowMs += minute / 2;
      await this.client.query(`UPDATE headgate.alert SET claimed_at = claimed_at - interval '30 s';
        UPDATE headgate.alert_seen SET seen_at = seen_at - interval '30 s'`);
      await Promise.all(members.map(({ alerts }) => alerts.look()));
    }
    return this.told.splice(0);
  }
}

async function stage(t: TestContext, count: number): Promise<Stage> {
  const database = await testDatabase(t, { catalog: true });
  const client = await database.connect();
  await migrate(client, readMigrations());
  const made = new Stage(client);
  for (let i = 0; i < count; i++) made.members.push(new Member(made, await database.connect()));
  return made;
}

test('an alert seen by three Headgates is reported by one, and its end by the last', async (t) => {
  const it = await stage(t, 3);
  const [first, second, third] = it.members;
  assert(first !== undefined && second !== undefined && third !== undefined);
  first.silent = second.silent = [silence];
  assert.deepEqual(await it.pass(10 * minute), ['HeadgateTableSilent firing']);
  third.silent = [silence];
  first.silent = second.silent = [];
  assert.deepEqual(await it.pass(20 * minute), [], 'one sees it still');
  third.silent = [];
  assert.deepEqual(await it.pass(20 * minute), ['HeadgateTableSilent resolved']);
  assert.deepEqual([first.kept, second.kept, third.kept], [[], [], []]);
  first.silent = [silence];
  assert.deepEqual(await it.pass(5 * minute), ['HeadgateTableSilent firing'], 'and again');
  const { rows } = await it.client.query('SELECT told FROM headgate.alert');
  assert.deepEqual(rows, [{ told: true }]);
});

test('a Headgate that is gone or whose alert receiver is silent leaves its claims to the others', async (t) => {
  const it = await stage(t, 2);
  const [first, second] = it.members;
  assert(first !== undefined && second !== undefined);
  first.silent = second.silent = [silence];
  first.isDeaf = true;
  assert.deepEqual(await it.pass(2 * minute, [first]), []);
  assert.deepEqual(await it.pass(3 * minute), ['HeadgateTableSilent firing']);
  // The one that told is gone; the other one has seen nothing of it.
  first.isDeaf = false;
  first.silent = [];
  assert.deepEqual(await it.pass(20 * minute, [first]), ['HeadgateTableSilent resolved']);

  second.silent = [silence];
  second.restart();
  assert.deepEqual(await it.pass(3 * minute, [second]), ['HeadgateTableSilent firing']);
  assert.deepEqual(await it.pass(30 * minute, [first]), ['HeadgateTableSilent resolved']);
  assert.deepEqual((await it.client.query('SELECT FROM headgate.alert')).rowCount, 0);
});

test('a restarted Headgate repeats no alert, and without the database each Headgate reports for itself', async (t) => {
  const it = await stage(t, 2);
  const [first, second] = it.members;
  assert(first !== undefined && second !== undefined);
  first.silent = second.silent = [silence];
  assert.deepEqual(await it.pass(3 * minute), ['HeadgateTableSilent firing']);
  first.restart();
  assert.deepEqual(await it.pass(3 * minute), []);
  first.silent = second.silent = [];
  first.isAway = second.isAway = true;
  // The one that was started anew without its file is told by the database; here it knows nothing.
  assert.deepEqual(await it.pass(20 * minute, [second]), ['HeadgateTableSilent resolved']);
});

test('the arguments of alert claims are bounded, and other roles cannot claim', async (t) => {
  const it = await stage(t, 0);
  const asks = (given: unknown) =>
    it.client.query<{ verdict: string }>('SELECT verdict FROM headgate.claim_alerts($1, $2)', [
      'me',
      JSON.stringify(given),
    ]);
  const one = { firing: true, told: false, since: '2026-01-01T00:00:00Z', says: 'x' };
  const many = Array.from({ length: 1_200 }, (_, i) => ({ ...one, condition: `c${i}` }));
  assert.equal((await asks(many)).rowCount, 1_000);
  await it.client.query(`INSERT INTO headgate.alert (condition, since, says, told)
    SELECT 'x' || i, now(), '', true FROM generate_series(1, 9500) i`);
  assert.deepEqual((await asks([{ ...one, condition: 'beyond' }])).rows, [{ verdict: 'tell' }]);
  assert.equal(
    (await it.client.query('SELECT FROM headgate.left_alerts()')).rowCount,
    limits.alertConditionsMax,
  );
  const stranger = `stranger_${Math.random().toString(36).slice(2)}`;
  await it.client.query(`CREATE ROLE ${stranger}`);
  await it.client.query(`GRANT USAGE ON SCHEMA headgate TO ${stranger}; SET ROLE ${stranger}`);
  for (const sql of [
    'SELECT * FROM headgate.alert',
    'DELETE FROM headgate.alert_seen',
    "SELECT headgate.claim_alerts('x', '[]')",
    "SELECT headgate.told_alerts('x', '[]')",
    'SELECT headgate.left_alerts()',
  ])
    await assert.rejects(it.client.query(sql), { code: '42501' }, sql);
  await it.client.query(`RESET ROLE; REVOKE ALL ON SCHEMA headgate FROM ${stranger}; DROP ROLE ${stranger}`);
});
