/** `headgate init` from nothing to a delivery that the sender's own secret signs, typed on a terminal, from a file, and without a terminal. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate } from '../support/headgate.ts';
import { keys, openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/** https://docs.stripe.com/webhooks#verify-manually */
function stripeSignature(body: string, secret: string): string {
  const time = Math.floor(Date.now() / 1000);
  return `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')}`;
}

test('headgate init leads from nothing to the first delivery', { timeout: 180_000 }, async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const at = [`--data-dir=${headgate.dataDir}`];
  const headgateRuns = (args: readonly string[], input = '') =>
    run(process.execPath, [cli, ...args], { input });
  const count = async (table: string) =>
    (await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`)).rows[0]?.n;

  await t.test('headgate init for Stripe takes the secret after the URL', async (step) => {
    if (requireTool(step, 'script') === null) return;
    const secret = `whsec_${'k'.repeat(32)}`;
    const terminal = openTerminal(step, `${process.execPath} ${cli} init stripe ${at.join(' ')}`, {
      cwd: headgate.dataDir,
      env: { PATH: process.env['PATH'] ?? '' },
    });
    assert(terminal !== null);
    await terminal.shows(/URL +http:\S+\/stripe_events[^]*At Stripe:[^]*Paste the secret/);
    terminal.type(`${secret}\r`);
    await terminal.shows(/its row was deleted again[^]*waiting for the first real delivery/);
    assert.doesNotMatch(terminal.screen, /kkkk/);
    assert.equal(await count('stripe_events'), 0);
    const body = '{"id":"evt_1","type":"charge.refunded","object":"event"}';
    const { status } = await headgate.post('dev/public/stripe_events', body, {
      'stripe-signature': stripeSignature(body, secret),
    });
    assert.equal(status, 200);
    assert.equal(await terminal.ended, 0, terminal.screen);
    assert.match(terminal.screen, /received[^]*charge\.refunded[^]*evt_1/);
    const { rows } = await client.query('SELECT event, delivery_id, raw FROM stripe_events');
    assert.deepEqual(rows, [{ event: 'charge.refunded', delivery_id: 'evt_1', raw: Buffer.from(body) }]);
  });

  await t.test('Ctrl-C during headgate init prints the remaining steps', async (step) => {
    if (requireTool(step, 'script') === null) return;
    const terminal = openTerminal(step, `${process.execPath} ${cli} init linear ${at.join(' ')}`, {
      cwd: headgate.dataDir,
      env: { PATH: process.env['PATH'] ?? '' },
    });
    assert(terminal !== null);
    await terminal.shows(/Paste the secret[^]*Enter alone/);
    terminal.type('\r');
    await terminal.shows(/waiting for the first real delivery/);
    terminal.type(keys.interrupt);
    assert.equal(await terminal.ended, 130, terminal.screen);
    assert.match(terminal.screen, /… (?:\^C)?nothing was stored yet\s+Still to do at Linear:/);
    const other = openTerminal(step, `${process.execPath} ${cli} init figma ${at.join(' ')}`, {
      cwd: headgate.dataDir,
      env: { PATH: process.env['PATH'] ?? '' },
    });
    assert(other !== null);
    await other.shows(/Paste the secret[^]*Enter alone/);
    other.type(keys.interrupt);
    assert.equal(await other.ended, 130, other.screen);
    await assert.rejects(count('figma_events'), { code: '42P01' });
  });

  await t.test('headgate init shows why deliveries are refused while it waits', async (step) => {
    if (requireTool(step, 'script') === null) return;
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const url = `http://127.0.0.1:${headgate.ports.listen.port}`;
    const places = [
      ['mistyped', at.join(' ')],
      ['far', `--dsn=${dsn} --url=${url}`],
      // Its answers are read by another program.
      ['piped', `${at.join(' ')} | sh -c "trap '' INT; cat"`],
    ] as const;
    step.diagnostic(sampleSeed);
    for (const [table, place] of sampleOf(places, 1)) {
      const command = `${process.execPath} ${cli} init github --table ${table} ${place}`;
      const terminal = openTerminal(step, command, {
        cwd: headgate.dataDir,
        env: { PATH: process.env['PATH'] ?? '' },
        columns: 400,
      });
      assert(terminal !== null);
      await terminal.shows(/Paste the secret[^]*Enter alone/);
      terminal.type('another secret\r');
      await terminal.shows(/its row was deleted again[^]*waiting for the first real delivery/);
      const push = async (secret: string, body: string) =>
        headgate.post(`dev/public/${table}`, body, {
          'x-github-event': 'push',
          'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
        });
      assert.equal((await push('the secret', '{"n":1}')).status, 401);
      const [, reason = '', id = ''] = await terminal.shows(
        new RegExp(
          `a delivery was refused: 401 signature_failed \\((.+)\\): headgate explain (\\d+); another secret: headgate secrets set ${table}_secret\\s`,
        ),
      );
      const explained = await headgateRuns(['explain', id, ...at]);
      assert(explained.stdout.includes(reason) && explained.stdout.includes('{"n":1}'), explained.stdout);
      const kept = async (n: number) => {
        const { rows } = await client.query(
          `SELECT count(*)::int AS n FROM headgate.rejected_requests WHERE table_name = $1`,
          [table],
        );
        assert.deepEqual(rows, [{ n }]);
      };
      assert.equal((await push('the secret', '{"n":2}')).status, 401);
      await within(5_000, async () => kept(2));
      if (table === 'far') {
        const set = ['secrets', 'set', 'far_secret', '--dsn', dsn, '--secret-file', '-'];
        assert.equal((await headgateRuns(set, 'the secret')).code, 0);
        await within(5_000, async () => assert.equal((await push('the secret', '{"n":3}')).status, 200));
        assert.equal(await terminal.ended, 0, terminal.screen);
        assert.match(terminal.screen, /received\s+\S+ {2}push\s+\{"n": 3\}/);
      } else {
        // Of another reason.
        assert.equal((await headgate.post(`dev/public/${table}`, '{"n":3}')).status, 401);
        const [, other = ''] = await terminal.shows(
          /\): headgate explain \d+;[^]*signature_failed \((.+)\): headgate/,
        );
        assert.notEqual(other, reason);
        terminal.type(keys.interrupt);
        await terminal.ended;
        assert.match(
          terminal.screen,
          new RegExp(
            `nothing was stored yet; 3 refused: headgate tail ${table} --failed\\s+Still to do at GitHub`,
          ),
        );
      }
      assert.equal(terminal.screen.split(`(${reason})`).length, 2, terminal.screen);
    }
  });

  await t.test('headgate init does not count its own test as a delivery that was refused', async (step) => {
    if (requireTool(step, 'script') === null) return;
    const command = `${process.execPath} ${cli} init twilio_form --table calls ${at.join(' ')}`;
    const terminal = openTerminal(step, command, {
      cwd: headgate.dataDir,
      env: { PATH: process.env['PATH'] ?? '' },
    });
    assert(terminal !== null);
    await terminal.shows(/Paste the secret[^]*Enter alone/);
    terminal.type('a token\r');
    await terminal.shows(/a test delivery: 401[^]*waiting for the first real delivery/);
    assert.equal((await headgate.post('dev/public/calls', '')).status, 401);
    const [, id = ''] = await terminal.shows(/a delivery was refused: 401 .*: headgate\s+explain\s+(\d+)/);
    const { rows } = await client.query(
      `SELECT id::int, body_bytes::int AS bytes FROM headgate.rejected_requests WHERE table_name = 'calls' ORDER BY id`,
    );
    assert.equal(rows.length, 2);
    assert.deepEqual(rows[1], { id: Number(id), bytes: 0 });
    terminal.type(keys.interrupt);
    assert.equal(await terminal.ended, 130, terminal.screen);
    assert.match(terminal.screen, /nothing was stored yet; 1 refused/);
    assert.equal(terminal.screen.match(/a delivery was refused/g)?.length, 1);
  });

  await t.test('Ctrl-C during the test delivery of headgate init leaves no row of it', async (step) => {
    if (requireTool(step, 'script') === null) return;
    // The row waits for a lock of this test.
    await client.query(`
      CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NEW; END $$;
      CREATE FUNCTION arm() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        CREATE TRIGGER hold BEFORE INSERT ON public.held FOR EACH ROW EXECUTE FUNCTION public.hold(); END $$;
      CREATE EVENT TRIGGER arm ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION arm();
      SELECT pg_advisory_lock(77)`);
    const terminal = openTerminal(
      step,
      `${process.execPath} ${cli} init gitlab --table held ${at.join(' ')}`,
      { cwd: headgate.dataDir, env: { PATH: process.env['PATH'] ?? '' } },
    );
    assert(terminal !== null);
    await terminal.shows(/Paste the secret[^]*Enter alone/);
    terminal.type('a token\r');
    const waits = `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
    await within(15_000, async () => assert.equal((await client.query(waits)).rows[0]?.n, 1));
    terminal.type(keys.interrupt);
    await terminal.shows(/\^C/);
    await client.query('SELECT pg_advisory_unlock(77); DROP EVENT TRIGGER arm');
    assert.equal(await terminal.ended, 130, terminal.screen);
    assert.match(terminal.screen, /its row was deleted again[^]*Still to do at GitLab/);
    assert.equal(await count('held'), 0);
  });

  await t.test('headgate init without a terminal asks nothing and does not wait', async () => {
    const made = await headgateRuns(['init', 'shopify', ...at, '--secret-file', '-'], 'shpss_0123456789\n');
    assert.equal(made.code, 0, made.stdout + made.stderr);
    assert.equal(await count('shopify_events'), 0);
    assert.equal(made.stdout.match(/^ {2}URL /gm)?.length, 1, made.stdout);
    const [alter = ''] = /ALTER TABLE .*;/.exec(made.stdout) ?? [];
    assert.match(alter, /^ALTER TABLE public\.shopify_events SET \(dedupe = 'sender:shopify'\);$/);
    await client.query(`BEGIN; ${alter} ROLLBACK`);
    const body = '{"id":1}';
    const mac = (key: string) => createHmac('sha256', key).update(body).digest('base64');
    const order = (key: string) =>
      headgate.post('dev/public/shopify_events', body, {
        'x-shopify-topic': 'orders/paid',
        'x-shopify-hmac-sha256': mac(key),
      });
    assert.equal((await order('shpss_0123456789')).status, 200);
    const set = await headgateRuns(
      ['secrets', 'set', 'shopify_events_secret', ...at, '--secret-file', '-'],
      "it's; new\n",
    );
    assert.equal(set.code, 0, set.stderr);
    await within(5_000, async () => assert.equal((await order("it's; new")).status, 200));
    const listed = (await headgateRuns(['secrets', 'list', ...at])).stdout;
    assert.match(listed, /^schema +name +backend +learned\n[^]*public +shopify_events_secret +meta\n/);
    const [first = ''] = (await headgateRuns(['secrets', 'list', '--json', ...at])).stdout.split('\n');
    assert.deepEqual(Object.keys(JSON.parse(first) as object), ['schema', 'name', 'backend', 'learned']);
    const { rows } = await client.query(
      'SELECT event, count(*)::int AS n FROM shopify_events GROUP BY event',
    );
    assert.deepEqual(rows, [{ event: 'orders/paid', n: 2 }]);
  });

  await t.test(
    'headgate tail refuses a table that does not exist, and exits with 130 on Ctrl-C',
    async (step) => {
      if (requireTool(step, 'script') === null) return;
      const refused = await headgateRuns(['tail', 'strpe_events', ...at]);
      assert.equal(refused.code, 1);
      assert.match(
        refused.stderr,
        /there is no table strpe_events: Perhaps stripe_events\? Of another database: database\.schema\.table$/m,
      );
      const terminal = openTerminal(step, `${process.execPath} ${cli} tail shopify_events ${at.join(' ')}`, {
        cwd: headgate.dataDir,
        env: { PATH: process.env['PATH'] ?? '' },
      });
      assert(terminal !== null);
      // Only what comes after its beginning is shown.
      await within(15_000, async () => {
        assert.equal((await headgate.post('dev/public/shopify_events', '{}')).status, 401);
        assert.match(terminal.screen, /401 .*shopify_events/);
      });
      terminal.type(keys.interrupt);
      assert.equal(await terminal.ended, 130, terminal.screen);
    },
  );

  await t.test('commands answer a mistyped table or sender with the nearest name', async () => {
    await client.query(`CREATE SCHEMA shop; CREATE TABLE shop."Paid orders" (data JSONB) WITH (connector = 'webhook');
      CREATE ROLE stranger LOGIN`);
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const strangers = dsn.replace('root', 'stranger');
    const to = 'http://127.0.0.1:9/';
    const mistakes = [
      [
        ['listen', 'shopfy_events', '--forward-to', to, ...at],
        /own no webhook table shopfy_events: Perhaps shopify_events\?$/m,
      ],
      [['replay', 'public.shopfy_events', '--to', to, ...at], /: Perhaps shopify_events\?$/m],
      [['replay', 'shopify_events', '--to', 'shop_events', ...at], /no webhook table shop_events$/m],
      [['replay', 'shopify_events', '--to', 'linear', ...at], /: Perhaps linear_events\?$/m],
      [['tail', 'shopfy_events', '--dsn', dsn], /: Perhaps shopify_events\?$/m],
      [['export', 'shopfy_events', ...at], /there is no table shopfy_events: Perhaps shopify_events\?$/m],
      [['infer', '--table', 'paid_order', ...at], /: Perhaps shop\."Paid orders"\?$/m],
      // Nobody is told what others call their tables.
      [
        ['listen', 'shopfy_events', '--forward-to', to, '--dsn', strangers],
        /own no webhook table shopfy_events$/m,
      ],
      [['init', 'stripe_events', ...at], /unknown sender "stripe_events": Perhaps stripe\?/],
    ] as const;
    for (const [args, said] of sampleOf(mistakes, 3)) {
      const { code, stderr } = await headgateRuns(args);
      assert.match(stderr, said, args.join(' '));
      assert.equal(code, 1);
    }
  });

  await t.test(
    'headgate init repeats for a dropped table, and refuses an existing table or a secret in use',
    async () => {
      const init = (secret: string) =>
        headgateRuns(['init', 'GitHub', ...at, '--table', 'again', '--secret-file', '-'], `${secret}\n`);
      const push = (secret: string) =>
        headgate.post('dev/public/again', '{}', {
          'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update('{}').digest('hex')}`,
        });
      assert.equal((await init('first')).code, 0);
      const twice = await init('second');
      assert.equal(twice.code, 1);
      assert.match(twice.stderr, /the table again already exists: choose another name with --table/);
      assert.equal((await push('first')).status, 200);
      await client.query('DROP TABLE again');
      assert.equal((await init('second')).code, 0);
      assert.equal((await push('first')).status, 401);
      assert.equal((await push('second')).status, 200);
      await client.query(
        `CREATE TABLE other (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET again_secret USING github; DROP TABLE again`,
      );
      const used = await init('third');
      assert.equal(used.code, 1);
      assert.match(
        used.stderr,
        /another table uses the secret again_secret: choose another name with --table/,
      );
      await assert.rejects(count('again'), { code: '42P01' });
      const unknown = await headgateRuns(['init', 'hmac', ...at]);
      assert.equal(unknown.code, 1);
      assert.match(
        unknown.stderr,
        /headgate senders lists them\. For a signature of your own see docs\/sql\/validate\.md/,
      );
    },
  );

  await t.test('headgate init names HEADGATE_PUBLIC_URL where a sender signs the URL', async () => {
    const made = await headgateRuns(['init', 'twilio_form', ...at, '--secret-file', '-'], 'a token\n');
    assert.equal(made.code, 1);
    assert.match(made.stdout, /a test delivery: 401 [^]*start Headgate with HEADGATE_PUBLIC_URL=https/);
  });

  await t.test('headgate secrets set creates a secret, and replaces it', async () => {
    const set = (value: string) =>
      headgateRuns(['secrets', 'set', 'mine', ...at, '--secret-file', '-'], `${value}\n`);
    assert.match((await set('one')).stderr, /secret mine is created/);
    await client.query(
      `CREATE TABLE mine (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET mine AS secure_compare(headers->>'key', mine)`,
    );
    assert.equal((await headgate.post('dev/public/mine', '{}', { key: 'one' })).status, 200);
    assert.match((await set('two')).stderr, /secret mine is set/);
    await within(5_000, async () =>
      assert.equal((await headgate.post('dev/public/mine', '{}', { key: 'two' })).status, 200),
    );
  });

  await t.test('headgate init creates a table in a schema, and a refusal leaves nothing', async () => {
    await client.query('CREATE SCHEMA app');
    const made = await headgateRuns(['init', 'github', ...at, '--table', 'app.hooks', '--json']);
    assert.equal(made.code, 0, made.stderr);
    const said = JSON.parse(made.stdout) as { url: string; note: string | null };
    assert.match(said.url, /\/webhook\/dev\/app\/hooks$/);
    assert.equal(said.note, null, 'GitHub takes the secret that is made here');
    const stripe = await headgateRuns(['init', 'stripe', ...at, '--table', 'app.paid']);
    assert.match(
      stripe.stdout,
      /secret {2}whsec_\w+\n +It was made here, and Stripe has its own: .*headgate secrets set app\.paid_secret --secret-file/,
    );
    assert.match(stripe.stdout, /HEADGATE_TRUSTED_PROXIES=127\.0\.0\.1,::1/);
    assert.equal(await count('app.hooks'), 0);
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const refused = await headgateRuns(['init', 'gitlab', '--dsn', dsn]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /set it with --url/);
    await assert.rejects(count('gitlab_events'), { code: '42P01' });
  });
});
