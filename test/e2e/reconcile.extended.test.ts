/** The option `reconcile` of the running program: a table ends with every delivery that its sender's log announces, and headgate.gaps says what is missing. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { listNeeds } from '../../src/console/endpoint-list.ts';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { sharedHeadgate, startHeadgate } from '../support/headgate.ts';
import { chunked, post, RawClient } from '../support/raw-http.ts';
import { run } from '../support/run.ts';
import { githubToken, SenderLogs, stripeToken } from '../support/sender-logs.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const signingSecret = 'whsec_0123456789abcdef';
const hook = 'github:octo-org/hello.world/hooks/42';

async function stage(t: TestContext) {
  const logs = await SenderLogs.open(t);
  const headgate = await startHeadgate(t, { env: { HEADGATE_RECONCILE_APIS: logs.apis } });
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET signing WITH (backend = 'meta') AS '${signingSecret}';
    CREATE SECRET github_token WITH (backend = 'meta') AS '${githubToken}';
    CREATE SECRET stripe_token WITH (backend = 'meta') AS '${stripeToken}'`);
  return { logs, headgate, client };
}

interface Gap {
  readonly announced: number;
  readonly came: number;
  readonly fetched: number;
  readonly missing: number;
  readonly ids: readonly string[] | null;
  readonly problem: string | null;
  readonly looked: boolean;
}

/** A line of `headgate endpoints --json`. */
interface Need {
  readonly table: string;
  readonly log_problem: string;
  readonly log_missing: number;
}

async function gapsOf(client: Client, table: string): Promise<Gap | undefined> {
  const { rows } = await client.query<Gap>(
    `SELECT coalesce(sum(announced), 0)::int AS announced, coalesce(sum(came), 0)::int AS came, coalesce(sum(fetched), 0)::int AS fetched,
      coalesce(sum(missing), 0)::int AS missing, (array_agg(m) FILTER (WHERE m IS NOT NULL)) AS ids, max(problem) AS problem, bool_or(looked_at IS NOT NULL) AS looked
     FROM headgate.gaps LEFT JOIN LATERAL unnest(CASE WHEN missing > 0 THEN missing_ids END) AS m ON false WHERE table_name = $1`,
    [table],
  );
  return rows[0];
}

/** Waits for gaps like these, and looks more often than the option can say. */
function untilGaps(
  client: Client,
  table: string,
  isSo: (gap: Gap) => boolean | Promise<boolean>,
): Promise<void> {
  return until(async () => {
    const gap = await gapsOf(client, table);
    if (gap !== undefined && (await isSo(gap))) return true;
    await client.query(
      "UPDATE headgate.reconciling SET next_at = now() WHERE next_at < now() + interval '1 day'",
    );
    // The question looks at everything that was announced, and would take a core from what it waits for.
    await delay(200);
    return false;
  });
}

suite('tables with the option reconcile get missing deliveries', () => {
  test('reconcile has GitHub redeliver only the deliveries that never arrived', async (t) => {
    const { logs, headgate, client } = await stage(t);
    logs.githubHook = { url: `${headgate.webhookUrl}/dev/public/github_events`, secret: signingSecret };
    await client.query(`CREATE TABLE github_events (data JSONB) INCLUDE HEADER 'x-github-delivery' AS id
      WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET signing USING github`);
    const sent = Array.from({ length: 150 }, (_, i) => logs.addGithub(300_000, `n${i}`));
    const lost = sent.filter((_, i) => i % 50 === 7);
    for (const entry of sent) if (!lost.includes(entry)) assert.equal(await logs.deliverGithub(entry), 200);
    await client.query(
      `ALTER TABLE github_events SET (reconcile = '${hook}', every = '1 minute', reconcile_secret = github_token)`,
    );
    await untilGaps(client, 'github_events', ({ announced, missing }) => announced === 150 && missing === 0);
    const { rows } = await client.query<{ id: string }>('SELECT id FROM github_events ORDER BY id');
    assert.deepEqual(
      rows.map(({ id }) => id),
      sent.map(({ guid }) => guid).toSorted(),
    );
    const gaps = await gapsOf(client, 'github_events');
    assert.deepEqual(
      [gaps?.announced, gaps?.came, gaps?.fetched, gaps?.problem],
      [150, 150, lost.length, null],
    );
    assert.equal(logs.calls.filter(({ what }) => what.startsWith('POST')).length, lost.length);
    assert.doesNotMatch(headgate.stderr + headgate.stdout, new RegExp(githubToken));
  });

  test("of two Headgates on one database one reads the sender's log, and the other goes on after a kill", async (t) => {
    const [logs, server] = [await SenderLogs.open(t), await startTcpServer()];
    onEnd(t, 'server', () => server.close());
    const env = {
      HEADGATE_RECONCILE_APIS: logs.apis,
      HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${server.port}/postgres?sslmode=disable`,
      HEADGATE_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    const [one, other] = [await startHeadgate(t, { env }), await startHeadgate(t, { env })];
    const client = await other.client(t, 'postgres');
    await client.query(`CREATE SECRET signing WITH (backend = 'meta') AS '${signingSecret}';
      CREATE SECRET token WITH (backend = 'meta') AS '${stripeToken}'`);
    await client.query(`CREATE TABLE stripe_events (data JSONB) INCLUDE BODY AS body WITH (connector = 'webhook', document = 'data', dedupe = 'sender')
      VALIDATE SECRET signing USING stripe`);
    const sent = Array.from({ length: 350 }, (_, i) => logs.addStripe(300_000, `n${i}`));
    await client.query(`ALTER TABLE stripe_events SET (reconcile = 'stripe', reconcile_secret = token)`);
    await until(async () => {
      await delay(200);
      return (await gapsOf(client, 'stripe_events'))?.came === sent.length;
    });
    const paths = logs.calls.map(({ what }) => what);
    assert.ok(paths.length >= 4);
    assert.deepEqual(paths, [...new Set(paths)], 'no page is read twice');
    sent.push(...Array.from({ length: 150 }, (_, i) => logs.addStripe(200_000, `m${i}`)));
    // The first turn may not have ended yet.
    await untilGaps(client, 'stripe_events', () => logs.calls.length > paths.length);
    await one.signal('SIGKILL');
    await client.query('UPDATE headgate.reconciling SET held_until = now()');
    // What the killed one had asked for and not stored would be asked for again after minutes.
    await untilGaps(client, 'stripe_events', async ({ came }) => {
      if (came === sent.length) return true;
      await client.query(
        "UPDATE headgate.announced SET next_at = now() WHERE came_at IS NULL AND asked > 0 AND next_at < 'infinity'",
      );
      return false;
    });
    const { rows } = await client.query<{ body: Buffer }>('SELECT body FROM stripe_events');
    assert.deepEqual(
      rows.map(({ body }) => body.toString()).toSorted(),
      sent.map(({ text }) => text).toSorted(),
    );
  });

  test('reconcile stores Stripe events that never arrived, marked as fetched', async (t) => {
    const { logs, headgate, client } = await stage(t);
    logs.enabledEvents = ['invoice.paid'];
    await client.query(`CREATE TABLE stripe_events (data JSONB) INCLUDE HEADER 'headgate-fetched' AS fetched INCLUDE BODY AS body
      WITH (connector = 'webhook', document = 'data', dedupe = 'sender') VALIDATE SECRET signing USING stripe`);
    const sent = Array.from({ length: 130 }, (_, i) => logs.addStripe(300_000, `n${i}`));
    for (let i = 0; i < 20; i++) logs.addStripe(300_000, 'of another type', 'charge.failed');
    const url = `${headgate.webhookUrl}/dev/public/stripe_events`;
    const lost = sent.filter((_, i) => i % 40 === 3);
    for (const event of sent)
      if (!lost.includes(event)) assert.equal(await logs.deliverStripe(event, url, signingSecret), 200);
    await client.query(
      `ALTER TABLE stripe_events SET (reconcile = 'stripe:we_1', reconcile_secret = stripe_token)`,
    );
    // The log grows while it is read.
    logs.onPage = () => {
      if (sent.length < 135) sent.push(logs.addStripe(200_000, 'later'));
    };
    await untilGaps(client, 'stripe_events', ({ announced, missing }) => announced === 135 && missing === 0);
    const { rows } = await client.query<{ body: Buffer; fetched: string | null }>(
      'SELECT body, fetched FROM stripe_events',
    );
    assert.deepEqual(
      rows.map(({ body }) => body.toString()).toSorted(),
      sent.map(({ text }) => text).toSorted(),
    );
    assert.equal(
      rows.filter(({ fetched }) => fetched === 'stripe:we_1').length,
      lost.length + sent.length - 130,
    );
    // Late after all: a copy.
    const [late] = lost;
    assert.ok(late !== undefined);
    assert.equal(
      await logs.deliverStripe(
        { ...late, text: late.text.replace('12345678901234567890', '1') },
        url,
        signingSecret,
      ),
      200,
    );
    assert.equal((await client.query('SELECT FROM stripe_events')).rowCount, sent.length);
    const gaps = await gapsOf(client, 'stripe_events');
    assert.deepEqual([gaps?.came, gaps?.fetched], [sent.length, lost.length + sent.length - 130]);
  });
});

// Nobody is there: nothing of this leaves the machine.
const shared = sharedHeadgate({
  env: { HEADGATE_RECONCILE_APIS: 'github=http://127.0.0.1:9,stripe=http://127.0.0.1:9' },
});

test('no sender can mark a row as fetched, at any port', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET own WITH (backend = 'meta') AS 'kept';
    CREATE TABLE marked (data JSONB) INCLUDE HEADER 'headgate-fetched' AS fetched WITH (connector = 'webhook', document = 'data')
    VALIDATE SECRET own AS headers ->> 'headgate-fetched' IS NULL AND secure_compare(headers ->> 'x-own', own)`);
  const path = '/webhook/dev/public/marked';
  const port = headgate.ports.listen.port;
  const raw = await RawClient.connect(port);
  const own = 'x-own: kept\r\n';
  for (const bytes of [
    post(path, '{}', own),
    post(path, '{}', `Headgate-Fetched: stripe\r\n${own}`),
    post(path, '{}', `${own}HEADGATE-FETCHED: stripe\r\nheadgate-fetched: github\r\n`),
    chunked(path, ['{', '}'], `headgate-Fetched: stripe\r\n${own}`, 'Headgate-Fetched: stripe\r\n'),
    post(path, '{}', own),
  ]) {
    raw.send(bytes);
    assert.equal((await raw.answer())?.status, 200, bytes);
  }
  raw.destroy();
  const socket = await WsClient.open(`ws://127.0.0.1:${port}/ingest/dev/public/marked`, {
    headers: { 'Headgate-Fetched': 'stripe', 'x-own': 'kept' },
  });
  socket.send(1, [{ op: 'insert', data: {} }]);
  await socket.acked(1);
  await socket.close();
  const { rows } = await client.query('SELECT count(*)::int AS n, count(fetched)::int AS marked FROM marked');
  assert.deepEqual(rows, [{ n: 6, marked: 0 }]);
  await client.query('DROP TABLE marked; DROP SECRET own');
});

suite('statements accept the option reconcile', () => {
  test('CREATE TABLE refuses an unusable reconcile, SHOW CREATE TABLE prints it, and its secret cannot be dropped', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(
      `CREATE SECRET r_signing WITH (backend = 'meta') AS 'x'; CREATE SECRET r_token WITH (backend = 'meta') AS 'token'`,
    );
    const made = (options: string) =>
      client.query(
        `CREATE TABLE r (data JSONB) WITH (connector = 'webhook'${options}) VALIDATE SECRET r_signing USING github`,
      );
    for (const [options, why] of [
      [
        ", dedupe = 'sender', reconcile = 'gitlab:x', reconcile_secret = r_token",
        /reconcile "gitlab:x" is not known/,
      ],
      [", dedupe = 'sender', reconcile = 'github:../x/hooks/1', reconcile_secret = r_token", /is not known/],
      [", dedupe = 'sender', reconcile = 'github:a/../hooks/1', reconcile_secret = r_token", /is not known/],
      [
        ", dedupe = 'sender', reconcile = 'github:a/b/hooks/1@evil.example', reconcile_secret = r_token",
        /is not known/,
      ],
      [", dedupe = 'sender', reconcile = 'stripe:we_1/../x', reconcile_secret = r_token", /is not known/],
      [
        `, reconcile = '${hook}', reconcile_secret = r_token`,
        /reconcile needs dedupe = 'header:x-github-delivery'/,
      ],
      [
        ", dedupe = 'sender', reconcile = 'stripe', reconcile_secret = r_token",
        /reconcile needs dedupe = '\$\.id'/,
      ],
      [`, dedupe = 'sender', reconcile = '${hook}'`, /needs the option reconcile_secret/],
      [
        `, dedupe = 'sender', reconcile = '${hook}', reconcile_secret = no_such`,
        /secret "no_such" does not exist/,
      ],
      [
        `, dedupe = 'sender', dedupe_window = '1 hour', reconcile = '${hook}', reconcile_secret = r_token`,
        /dedupe_window of at least a day/,
      ],
      [
        `, dedupe = 'sender', is_batched = true, reconcile = '${hook}', reconcile_secret = r_token`,
        /is_batched/,
      ],
      [
        `, dedupe = 'sender', every = '1 second', reconcile = '${hook}', reconcile_secret = r_token`,
        /every "1 second"/,
      ],
      [", every = '1 hour'", /every needs the option reconcile/],
    ] as const)
      await assert.rejects(made(options), why, options);
    await made(`, dedupe = 'sender', reconcile = '${hook}', every = '1 hour', reconcile_secret = r_token`);
    const shown = async () =>
      (await client.query<{ 'Create Sql': string }>('SHOW CREATE TABLE r')).rows[0]?.['Create Sql'] ?? '';
    const before = await shown();
    assert.match(
      before,
      /every = '1 hour',\n {2}reconcile = 'github:octo-org\/hello\.world\/hooks\/42',\n {2}reconcile_secret = 'public\.r_token'/,
    );
    await assert.rejects(client.query('DROP SECRET r_token'), /cannot drop secret r_token/);
    await assert.rejects(client.query("ALTER TABLE r SET (dedupe = 'off')"), /reconcile needs dedupe/);
    await client.query('DROP TABLE r');
    await client.query(before);
    assert.equal(await shown(), before);
    await client.query('ALTER TABLE r RESET (reconcile)');
    assert.doesNotMatch(await shown(), /reconcile|every/);
    await client.query('DROP SECRET r_token');
    assert.equal((await client.query('SELECT FROM headgate.gaps')).rowCount, 0);
  });

  test('the statements of docs/reconcile.md are accepted as printed', async (t) => {
    const client = await (await shared()).client(t);
    await client.query(await commandsOf('docs/reconcile.md', 'github'));
    await client.query(
      `CREATE SECRET stripe_token WITH (backend = 'meta') AS 'x'; CREATE TABLE stripe_events (data JSONB) WITH (connector = 'webhook')`,
    );
    await client.query(await commandsOf('docs/reconcile.md', 'stripe'));
    await client.query(await commandsOf('docs/reconcile.md', 'gaps'));
    await client.query(
      'DROP TABLE github_events, stripe_events; DROP SECRET github_token; DROP SECRET stripe_token; DROP SECRET github_key',
    );
  });

  test('reconcile uses no secret of another owner, and headgate.gaps shows own tables only', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(
      `CREATE ROLE rec_alice LOGIN; CREATE ROLE rec_mallory LOGIN; GRANT CREATE ON SCHEMA public TO rec_alice, rec_mallory`,
    );
    const alice = await headgate.clientAs(t, 'rec_alice');
    const mallory = await headgate.clientAs(t, 'rec_mallory');
    await alice.query(`CREATE SECRET alices WITH (backend = 'meta') AS 'token of alice'`);
    const table = (name: string, secret: string) =>
      `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook', dedupe = '$.id', reconcile = 'stripe', reconcile_secret = ${secret})`;
    await assert.rejects(mallory.query(table('m', 'alices')), /permission denied for secret "alices"/);
    await alice.query(table('a', 'alices'));
    await mallory.query(`CREATE SECRET mallorys WITH (backend = 'meta') AS 'x'`);
    await mallory.query(table('m', 'mallorys'));
    await assert.rejects(
      mallory.query('ALTER TABLE m SET (reconcile_secret = alices)'),
      /permission denied for secret "alices"/,
    );
    // By hand, without the SQL port's grammar: nothing that the grammar refuses is asked for.
    await mallory.query(`INSERT INTO headgate.request (action, given) SELECT 'options', jsonb_build_object('relation', 'm'::regclass::oid::bigint, 'private', '[]'::jsonb,
      'options', '{"connector": "webhook", "dedupe": "$.id", "reconcile": "stripe:../../elsewhere"}'::jsonb)`);
    for (const name of ['reconciling', 'announced', 'past_window'])
      await assert.rejects(mallory.query(`SELECT * FROM headgate.${name}`), /permission denied/);
    await assert.rejects(
      mallory.query(`SELECT * FROM headgate.take_reconciling(gen_random_uuid(), 1, 1)`),
      /permission denied/,
    );
    await until(
      async () =>
        (
          await client.query(
            `SELECT FROM headgate.gaps WHERE table_name = 'm' AND problem LIKE '%names no log%'`,
          )
        ).rowCount === 1,
    );
    const seen = async (by: Client) =>
      (await by.query<{ table_name: string }>('SELECT table_name FROM headgate.gaps ORDER BY 1')).rows.map(
        (it) => it.table_name,
      );
    await until(async () => (await seen(alice)).length === 1);
    assert.deepEqual([await seen(alice), await seen(mallory)], [['a'], ['m']]);
    // It is one of the tables that need their owner in the console, whatever its requests are.
    const [need] = (await mallory.query<Record<string, unknown>>(listNeeds)).rows;
    assert.deepEqual([need?.['relname'], need?.['rank']], ['m', 1]);
    assert.match(String(need?.['log_problem']), /names no log/);
    // Nor does anybody's doctor.
    const dsn = `postgresql://rec_mallory@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const { stdout } = await run(process.execPath, [cli, 'doctor', '--dsn', dsn]);
    const looks = stdout.split('\n').filter((line) => line.includes('reconcile'));
    assert.equal(looks.length, 1, stdout);
    assert.match(
      looks[0] ?? '',
      /^look +reconcile +the log of public\.m is not read: .*names no log.*; again at 20\S+Z$/,
    );
    const listed = await run(process.execPath, [cli, 'endpoints', '--dsn', dsn, '--json']);
    const { table: m, log_problem: problem, log_missing: missing } = JSON.parse(listed.stdout) as Need;
    assert.deepEqual([m, /names no log/.test(problem), missing], ['m', true, 0], listed.stdout);
    const shown = await run(process.execPath, [cli, 'endpoints', '--dsn', dsn]);
    assert.match(shown.stdout, /^schema .* log +url\n.*not read: .*names no log/);
    const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
    assert.match(
      metrics,
      /headgate_reconcile_readings_total\{database="dev",schema="public",table="m",outcome="refused"\} \d/,
    );
    // Another owner does not get the token with the table.
    await client.query('ALTER TABLE a OWNER TO rec_mallory; UPDATE headgate.reconciling SET next_at = now()');
    await until(
      async () =>
        (
          await mallory.query(
            `SELECT FROM headgate.gaps WHERE table_name = 'a' AND problem LIKE '%may not use the secret%'`,
          )
        ).rowCount === 1,
    );
    assert.doesNotMatch(headgate.stderr, /token of alice/);
    await client.query('DROP TABLE a, m; DROP SECRET alices; DROP SECRET mallorys');
  });
});
