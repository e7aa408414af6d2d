/**
 * A fifth of the deliveries never arrives; the API refuses calls, fails, and grows while it is read; Headgate is killed meanwhile, and its clock is another
 * one. In the end the table has what the log announces, and at every look headgate.gaps has said the truth. The suite tries some of it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { seededRandom } from '../support/random.ts';
import { sampleOf, times } from '../support/sample.ts';
import { githubToken, SenderLogs, stripeToken } from '../support/sender-logs.ts';

const secret = 'whsec_0123456789abcdef';

/** What one statement says, so that all of it is of one moment. */
const truthSql = (table: string) => `SELECT
  (SELECT count(*)::int FROM ${table}) AS stored,
  (SELECT coalesce(sum(came), 0)::int FROM headgate.gaps) AS came, (SELECT coalesce(sum(announced), 0)::int FROM headgate.gaps) AS announced,
  (SELECT coalesce(sum(missing), 0)::int FROM headgate.gaps) AS missing, (SELECT coalesce(sum(fetched), 0)::int FROM headgate.gaps) AS fetched,
  (SELECT count(*)::int FROM headgate.gaps g, unnest(g.missing_ids) AS m (id) JOIN ${table} t USING (id)) AS untrue,
  (SELECT bool_or(state IN ('complete', 'lost', 'unread') AND missing > 0) FROM headgate.gaps WHERE state <> 'lost') AS wrong,
  (SELECT max(problem) FROM headgate.gaps) AS problem`;

interface Truth {
  readonly stored: number;
  readonly came: number;
  readonly announced: number;
  readonly missing: number;
  readonly fetched: number;
  readonly untrue: number;
  readonly wrong: boolean | null;
}

/** Looks until everything announced has come; kills Headgate `kills` times meanwhile. Returns how often it looked. */
async function untilWhole(
  stage: {
    table: string;
    options: Parameters<typeof startHeadgate>[1];
    client: Client;
    kill: () => Promise<Client>;
  },
  announced: () => number,
  kills: number,
): Promise<{ client: Client; looks: number; last: Truth }> {
  let { client } = stage;
  let left = kills;
  for (let looks = 1; ; looks++) {
    const { rows } = await client.query<Truth>(truthSql(stage.table));
    const [last] = rows;
    assert.ok(last !== undefined);
    assert.equal(last.untrue, 0, 'nothing is called missing that is there');
    assert.ok(last.came <= last.stored, 'nothing has come that is not there');
    assert.ok(last.announced <= announced() && last.announced === last.came + last.missing);
    assert.notEqual(last.wrong, true);
    if (last.announced === announced() && last.missing === 0) return { client, looks, last };
    if (left > 0 && last.came > ((kills - left + 1) * announced()) / (kills + 2)) {
      left -= 1;
      client = await stage.kill();
    }
    // Time that passes: after a rest, and after a kill the table is held for two minutes.
    await client.query(
      `UPDATE headgate.reconciling SET next_at = now() WHERE holder IS NULL AND next_at > now() + interval '2 seconds'
        AND (problem IS NULL OR problem NOT LIKE '%rate%')`,
    );
    if (looks % 20 === 0)
      await client.query(
        `UPDATE headgate.announced SET next_at = now() WHERE next_at > now() AND next_at < 'infinity' AND asked > 0`,
      );
    await delay(200);
  }
}

async function stageOf(t: TestContext, table: string, create: string) {
  const logs = await SenderLogs.open(t);
  logs.aheadMs = 3_000_000;
  const options = { dataDir: await temporaryFolder(t), env: { HEADGATE_RECONCILE_APIS: logs.apis } };
  let headgate = await startHeadgate(t, options);
  const client = await headgate.client(t);
  await client.query(
    `CREATE SECRET signing WITH (backend = 'meta') AS '${secret}'; CREATE SECRET token WITH (backend = 'meta') AS '${
      table === 'stripe_events' ? stripeToken : githubToken
    }'; ${create}`,
  );
  const kill = async (): Promise<Client> => {
    await headgate.signal('SIGKILL');
    headgate = await (await spawnHeadgate(t, options)).ready();
    logs.githubHook = { url: url(), secret };
    const again = await headgate.client(t);
    await again.query('UPDATE headgate.reconciling SET held_until = now()');
    return again;
  };
  const url = () => `${headgate.webhookUrl}/dev/public/${table}`;
  logs.githubHook = { url: url(), secret };
  return { logs, table, options, client, kill, url };
}

async function inParallel<T>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: most }, async () => {
      for (const item of left) await work(item);
    }),
  );
}

async function differences(client: Client, table: string, ids: readonly string[]): Promise<unknown> {
  await client.query('CREATE TEMP TABLE announced_ids (id text)');
  await client.query('INSERT INTO announced_ids SELECT unnest($1::text[])', [ids]);
  const { rows } =
    await client.query(`SELECT (SELECT count(*)::int FROM (SELECT id FROM ${table} EXCEPT ALL SELECT id FROM announced_ids) a) AS surplus,
    (SELECT count(*)::int FROM (SELECT id FROM announced_ids EXCEPT ALL SELECT id FROM ${table}) b) AS lost`);
  return rows[0];
}

async function stripe(t: TestContext): Promise<void> {
  const { random, seed } = seededRandom();
  const count = times(1_000, 100_000);
  const stage = await stageOf(
    t,
    'stripe_events',
    `CREATE TABLE stripe_events (data JSONB, id TEXT GENERATED ALWAYS AS (data ->> 'id') STORED)
      WITH (connector = 'webhook', document = 'data', dedupe = 'sender') VALIDATE SECRET signing USING stripe`,
  );
  const { logs } = stage;
  const sent = Array.from({ length: count }, (_, i) =>
    logs.addStripe(2_900_000 - (2_600_000 * i) / count, `n${i}`),
  );
  const arriving = sent.filter((_, i) => i % 5 !== 0);
  const late = arriving.splice(0, count / 100);
  await inParallel(arriving, 32, async (event) => {
    assert.equal(await logs.deliverStripe(event, stage.url(), secret), 200);
  });
  logs.fault = () => {
    const roll = random();
    if (roll < 0.04)
      return {
        status: 429,
        headers: roll < 0.02 ? { 'retry-after': '1' } : {},
        body: '{"error":{"code":"rate_limit"}}',
      };
    return roll < 0.07 ? { status: 500 + Math.floor(random() * 4) } : null;
  };
  let grown = 0;
  logs.onPage = () => {
    if (grown < count / 50 && random() < 0.3) sent.push(logs.addStripe(200_000, `grown ${grown++}`));
    const event = late.pop();
    if (event !== undefined) void logs.deliverStripe(event, stage.url(), secret);
  };
  await stage.client.query(
    `ALTER TABLE stripe_events SET (reconcile = 'stripe', every = '1 minute', reconcile_secret = token)`,
  );
  const { client, looks, last } = await untilWhole(stage, () => sent.length, times(1, 12));
  assert.deepEqual(
    await differences(
      client,
      'stripe_events',
      sent.map(({ id }) => id),
    ),
    { surplus: 0, lost: 0 },
    `seed ${seed}`,
  );
  assert.ok(last.fetched >= count / 5);
  const seconds = new Map<number, number>();
  for (const { atMs } of logs.calls)
    seconds.set(Math.floor(atMs / 1_000), (seconds.get(Math.floor(atMs / 1_000)) ?? 0) + 1);
  const most = Math.max(...seconds.values());
  // docs.stripe.com/rate-limits: 25 a second in a sandbox, 100 live.
  assert.ok(most <= 25, `${most} calls in a second`);
  t.diagnostic(
    `seed ${seed}: ${sent.length} announced, ${last.fetched} fetched, ${logs.calls.length} calls, ${most} in a second at most, ${looks} looks`,
  );
}

async function github(t: TestContext): Promise<void> {
  const { random, seed } = seededRandom();
  const count = times(40, 1_500);
  const stage = await stageOf(
    t,
    'github_events',
    `CREATE TABLE github_events (data JSONB) INCLUDE HEADER 'x-github-delivery' AS id
      WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET signing USING github`,
  );
  const { logs } = stage;
  const sent = Array.from({ length: count }, (_, i) =>
    logs.addGithub(2_900_000 - (2_600_000 * i) / count, `n${i}`),
  );
  await inParallel(
    sent.filter((_, i) => i % 5 !== 0),
    32,
    async (entry) => {
      assert.equal(await logs.deliverGithub(entry), 200);
    },
  );
  // A rate that is used up soon, and given back soon.
  logs.rate = { limit: times(20, 200), windowS: 15, used: 0, resetS: Math.ceil(logs.nowMs / 1_000) + 15 };
  logs.fault = () => (random() < 0.05 ? { status: 502 } : null);
  await stage.client.query(
    `ALTER TABLE github_events SET (reconcile = 'github:octo-org/hello.world/hooks/42', every = '1 minute', reconcile_secret = token)`,
  );
  const { client, looks, last } = await untilWhole(stage, () => count, times(1, 6));
  assert.deepEqual(
    await differences(
      client,
      'github_events',
      sent.map(({ guid }) => guid),
    ),
    { surplus: 0, lost: 0 },
    `seed ${seed}`,
  );
  assert.equal(logs.calls.filter(({ status }) => status === 403).length, 0);
  t.diagnostic(
    `seed ${seed}: ${count} announced, ${last.fetched} fetched, ${logs.calls.length} calls, ${looks} looks`,
  );
}

for (const [name, run] of sampleOf(
  [
    ['reconcile fetches each Stripe event that never arrived, despite kills and API failures', stripe],
    ['reconcile gets each GitHub delivery that never arrived, within the rate limit of the API', github],
  ] as const,
  1,
))
  test(name, run);
