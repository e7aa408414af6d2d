/** What `listen` and `replay` send on, compared byte for byte with what the sender had sent. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { keys, openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const key = 'a long random key';

interface Received {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Receiver {
  url: string;
  readonly got: Received[];
  /** Requests are answered when it is resolved. */
  answering: Promise<void>;
}

/** A program that remembers each request. */
async function program(t: TestContext): Promise<Receiver> {
  const got: Received[] = [];
  const receiver: Receiver = { url: '', got, answering: Promise.resolve() };
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const headers = Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      );
      got.push({ headers, body: Buffer.concat(pieces) });
      void receiver.answering.then(() => response.end());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'program', () => new Promise<void>((resolve) => void server.close(() => resolve())));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return receiver;
}

/** Keys in an order that jsonb changes, blanks that it removes, and a number of more digits than a double has. */
const body = '{"zen" : "Größe",\n "ref":"refs/heads/main", "a":12345678901234567890.10 }';
const signed = (text: string) => `sha256=${createHmac('sha256', key).update(text).digest('hex')}`;

/** As curl sends it: a push, with headers of GitHub's and one in UTF-8. */
async function push(headgate: Headgate, table: string): Promise<void> {
  const { status, text } = await headgate.post(`dev/public/${table}`, body, {
    'content-type': 'application/json',
    'user-agent': 'GitHub-Hookshot/044aadd',
    'x-github-event': 'push',
    'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    'x-note': Buffer.from('Größe').toString('latin1'),
    'x-hub-signature-256': signed(body),
  });
  assert.equal(status, 200, text);
}

const ofConnection = ['host', 'connection', 'content-length', 'headgate-table'];
const rest = ({ headers }: Received) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !ofConnection.includes(name)));

test('headgate replay sends exactly what the sender sent', { timeout: 180_000 }, async (t) => {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS '${key}'`);
  const check = `WITH (connector = 'webhook') VALIDATE SECRET s USING github`;
  const receiver = await program(t);
  const { url, got } = receiver;
  const replay = async (table: string, ...args: readonly string[]) => {
    got.length = 0;
    const at = [`--data-dir=${headgate.dataDir}`, '--to', url];
    return run(process.execPath, [cli, 'replay', table, ...at, ...args]);
  };
  const signing = ['--sender', 'github', '--secret', key];

  await t.test('headgate replay repeats headers and body of a table that keeps both', async () => {
    await client.query(
      `CREATE TABLE whole (data JSONB) INCLUDE HEADERS AS headers INCLUDE BODY AS raw ${check}`,
    );
    await push(headgate, 'whole');
    const again = await replay('whole', ...signing);
    assert.equal(again.code, 0, again.stderr);
    assert.equal(again.stderr, '1/1\n');
    assert.deepEqual(rest(got[0] as Received), {
      accept: '*/*',
      'content-type': 'application/json',
      'user-agent': 'GitHub-Hookshot/044aadd',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      'x-github-event': 'push',
      'x-hub-signature-256': signed(body),
      'x-note': Buffer.from('Größe').toString('latin1'),
    });
    assert.equal(got[0]?.body.toString(), body);
    const unsigned = await replay('whole');
    assert.match(unsigned.stderr, /x-hub-signature-256, which VALIDATE reads: --sender github signs again$/m);
    assert.equal(got[0]?.headers['x-hub-signature-256'], undefined);
    assert.equal(got[0]?.body.toString(), body);
  });

  await t.test(
    'headgate replay names what a table does not keep and prints the ALTER TABLE that keeps it',
    async () => {
      await client.query(
        `CREATE TABLE "it's ""x" (data JSONB, headers text) ${check} `.replace(', headers text', ''),
      );
      await client.query(
        `DROP TABLE "it's ""x"; CREATE TABLE bare (data JSONB, raw INT GENERATED ALWAYS AS (1) STORED) ${check}`,
      );
      await push(headgate, 'bare');
      const first = await replay('bare', ...signing);
      assert.equal(first.code, 0, first.stderr);
      const without = rest(got[0] as Received);
      assert.deepEqual(Object.keys(without).toSorted(), ['content-type', 'x-hub-signature-256']);
      assert.equal(without['x-hub-signature-256'], signed(got[0]?.body.toString() ?? ''));
      assert.match(
        first.stderr,
        /"public"\."bare" does not keep\n {2}- the headers, among them the event's name \(X-GitHub-Event\)/,
      );
      const [, alter = ''] = /From now on: (ALTER TABLE .*;)/.exec(first.stderr) ?? [];
      assert.equal(
        alter,
        `ALTER TABLE "public"."bare" INCLUDE HEADERS AS "headers" INCLUDE BODY AS "raw_2";`,
      );
      const psql = ['-h', '127.0.0.1', '-p', String(headgate.ports.sql.port), '-U', 'root', '-d', 'dev'];
      const altered = await run('psql', [...psql, '-Xc', alter]);
      assert.equal(altered.stdout.trim(), 'ALTER TABLE', altered.stderr);
      await push(headgate, 'bare');
      const second = await replay('bare', ...signing);
      assert.match(second.stderr, /some rows are older than the columns that keep headers and raw body/);
      assert.equal(got[0]?.headers['x-github-event'], undefined);
      assert.equal(got[1]?.headers['x-github-event'], 'push');
      assert.equal(got[1]?.body.toString(), body);
    },
  );

  await t.test('headgate replay does not send a delivery whose signed id was not kept', async () => {
    const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    await client.query(`CREATE SECRET w WITH (backend = 'meta') AS '${secret}'`);
    await client.query(
      `CREATE TABLE orders (data JSONB) INCLUDE HEADERS AS headers INCLUDE BODY AS raw WITH (connector = 'webhook') VALIDATE SECRET w USING standard_webhooks`,
    );
    const deliver = async () => {
      const [id, time] = ['msg_2KWPBgLlAfxdpx2AI54pPJ85f4W', String(Math.floor(Date.now() / 1000))];
      const mac = createHmac('sha256', Buffer.alloc(24, 7)).update(`${id}.${time}.${body}`).digest('base64');
      const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': `v1,${mac}` };
      assert.equal((await headgate.post('dev/public/orders', body, headers)).status, 200);
    };
    await deliver();
    const args = ['--sender', 'standard_webhooks', '--secret', secret];
    const first = await replay('orders', ...args);
    assert.equal(first.code, 1);
    assert.equal(got.length, 0);
    assert.match(
      first.stdout,
      /^0 of 1 sent\n {2}not sent: .* signs webhook-id, which this request does not have: 1\n/,
    );
    const [, alter = ''] = /From now on: (ALTER TABLE .*;)/.exec(first.stderr) ?? [];
    // Its senders call the header either way.
    const ids = `INCLUDE HEADER 'webhook-id' AS "webhook_id" INCLUDE HEADER 'svix-id' AS "svix_id"`;
    assert.equal(alter, `ALTER TABLE "public"."orders" ${ids};`);
    await client.query(alter);
    await deliver();
    const second = await replay('orders', ...args);
    assert.match(second.stdout, /^1 of 2 sent\n/);
    const { headers = {} } = got[0] ?? {};
    const [id, time] = [headers['webhook-id'] ?? '', headers['webhook-timestamp'] ?? ''];
    assert.equal(id, 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W');
    const mac = createHmac('sha256', Buffer.alloc(24, 7)).update(`${id}.${time}.${body}`).digest('base64');
    assert.equal(headers['webhook-signature'], `v1,${mac}`);
  });

  await t.test(
    'headgate replay prints how to keep the header of a custom signature, but not that of a password',
    async () => {
      await client.query(
        `CREATE TABLE own (data JSONB) INCLUDE HEADERS AS headers INCLUDE BODY AS raw WITH (connector = 'webhook')
       VALIDATE SECRET s AS secure_compare(headers->>'x-signature', encode(hmac(s, data, 'sha256'), 'hex'));
       CREATE TABLE token (data JSONB) INCLUDE HEADERS AS headers INCLUDE BODY AS raw WITH (connector = 'webhook')
       VALIDATE SECRET s AS secure_compare(headers->>'x-signature', s)`,
      );
      const mac = createHmac('sha256', key).update(body).digest('hex');
      const deliver = async (table: string, signature: string) =>
        assert.equal(
          (await headgate.post(`dev/public/${table}`, body, { 'x-signature': signature })).status,
          200,
        );
      await deliver('own', mac);
      const first = await replay('own');
      assert.match(first.stderr, /x-signature, which VALIDATE reads$/m);
      const [, alter = ''] = /From now on: (ALTER TABLE .*;)/.exec(first.stderr) ?? [];
      assert.equal(alter, `ALTER TABLE "public"."own" INCLUDE HEADER 'x-signature' AS "x_signature";`);
      await client.query(alter);
      await deliver('own', mac);
      const second = await replay('own');
      assert.equal(second.stderr.includes('does not keep'), false, second.stderr);
      assert.deepEqual(
        got.map(({ headers }) => headers['x-signature']),
        [undefined, mac],
      );
      // A password belongs into no column.
      await deliver('token', key);
      const password = await replay('token');
      assert.match(password.stderr, /x-signature, which VALIDATE reads$/m);
      assert.doesNotMatch(password.stderr, /INCLUDE HEADER/);
    },
  );

  await t.test('headgate replay to a closed port reports that nothing was sent', async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => void closed.close(resolve));
    const args = [`--data-dir=${headgate.dataDir}`, '--to', `http://127.0.0.1:${port}/`];
    const { code, stdout } = await run(process.execPath, [cli, 'replay', 'whole', ...args]);
    assert.equal(code, 1);
    assert.match(stdout, /^0 of 1 sent\n {2}no answer: .*: 1\n$/);
  });

  await t.test('headgate replay stops after ten refusals in a row unless it is told to go on', async () => {
    await client.query(`CREATE TABLE open (data JSONB) INCLUDE BODY AS raw WITH (connector = 'webhook')`);
    for (let i = 0; i < 12; i++)
      assert.equal((await headgate.post('dev/public/open', `{"n":${i}}`)).status, 200);
    const again = (...args: readonly string[]) =>
      run(process.execPath, [
        cli,
        'replay',
        'open',
        `--data-dir=${headgate.dataDir}`,
        '--to',
        'whole',
        ...args,
      ]);
    const stopped = await again();
    assert.equal(stopped.code, 1);
    assert.match(
      stopped.stderr,
      /10 requests in a row were refused, .* 401 \(10 of 12 were sent\): --sender signs them; --keep-going/,
    );
    const whole = await again('--keep-going');
    assert.match(whole.stdout, /^12 of 12 sent\n {2}401: 12\n$/);
  });

  await t.test('ALTER TABLE … INCLUDE refuses what CREATE TABLE refuses', async () => {
    const refuses = async (clauses: string, code: string) =>
      assert.rejects(client.query(`ALTER TABLE whole ${clauses}`), { code });
    await refuses('INCLUDE BODY AS again', '42701');
    await refuses('INCLUDE METHOD AS data', '42701');
    await refuses('INCLUDE METHOD AS headers', '42701');
    await refuses(`INCLUDE HEADER 'a b' AS x`, '22023');
    await client.query(`CREATE ROLE other LOGIN; CREATE TABLE plain (a int); CREATE TABLE n (a INT, b INT)`);
    await assert.rejects(client.query('ALTER TABLE plain INCLUDE METHOD AS m'), { code: '42809' });
    const other = await headgate.clientAs(t, 'other');
    await assert.rejects(other.query('ALTER TABLE public.whole INCLUDE METHOD AS m'), { code: '42501' });
    await client.query('ALTER TABLE IF EXISTS nothing INCLUDE METHOD AS m');
    await client.query(`ALTER TABLE whole INCLUDE METHOD AS "m'""\n" INCLUDE TIMESTAMP AS at`);
    await push(headgate, 'whole');
    const { rows } = await client.query<{ m: string; n: string }>(
      `SELECT "m'""\n" AS m, count(at) OVER () AS n FROM whole WHERE at IS NOT NULL`,
    );
    assert.deepEqual(rows, [{ m: 'POST', n: '1' }]);
  });

  await t.test(
    'headgate listen for tables of several senders signs only requests of --sender',
    async (step) => {
      if (requireTool(step, 'script') === null) return;
      const keeps = 'INCLUDE HEADERS AS headers INCLUDE BODY AS raw';
      const hook = `WITH (connector = 'webhook') VALIDATE`;
      await client.query(`
      CREATE TABLE pushes (data JSONB) ${keeps} ${check};
      CREATE TABLE paid (data JSONB) ${keeps} ${hook} SECRET s USING stripe;
      CREATE TABLE mine (data JSONB) ${keeps} ${hook} SECRET s AS secure_compare(headers->>'x-mine', encode(hmac(s, data, 'sha256'), 'hex'));
      CREATE TABLE anybodys (data JSONB) ${keeps} WITH (connector = 'webhook')`);
      const deliver = async () => {
        got.length = 0;
        await push(headgate, 'pushes');
        const time = Math.floor(Date.now() / 1000);
        const hmac = (text: string) => createHmac('sha256', key).update(text).digest('hex');
        for (const [table, headers] of [
          ['paid', { 'stripe-signature': `t=${time},v1=${hmac(`${time}.${body}`)}` }],
          ['mine', { 'x-mine': hmac(body) }],
          ['anybodys', {}],
        ] as const)
          assert.equal((await headgate.post(`dev/public/${table}`, body, headers)).status, 200);
        await until(() => got.length === 4);
        return Object.fromEntries(
          got.map(({ headers }) => [headers['headgate-table'], headers['x-hub-signature-256']]),
        );
      };
      const at = `--data-dir=${headgate.dataDir}`;
      const listening = async (tables: string) => {
        const command = `${process.execPath} ${cli} listen ${tables} --forward-to ${url} --sender github --secret '${key}' ${at}`;
        const terminal = openTerminal(step, command, {
          cwd: headgate.dataDir,
          env: { PATH: process.env['PATH'] ?? '' },
          columns: 400,
        });
        assert(terminal !== null);
        await terminal.shows(/listening to/);
        return terminal;
      };
      const stripes =
        /--sender github does not apply to "public"\."paid", which is checked as stripe\s+"public"\."paid" does not keep\s+- stripe-signature, which VALIDATE reads: --sender stripe signs again/;

      const all = await listening('');
      await all.shows(stripes);
      const none = { 'public.paid': undefined, 'public.mine': undefined, 'public.anybodys': undefined };
      assert.deepEqual(await deliver(), { 'public.pushes': signed(body), ...none });
      for (const table of ['mine', 'anybodys'])
        assert.match(
          all.screen,
          new RegExp(
            `--sender github does not apply to "public"\\."${table}", which has no sender's check: name the table`,
          ),
        );
      all.type(keys.interrupt);
      assert.equal(await all.ended, 130, all.screen);

      const named = await listening('pushes paid mine anybodys');
      await named.shows(stripes);
      await named.shows(
        /--sender github signs the requests of "public"\."mine", which has no sender's check/,
      );
      const own = { 'public.mine': signed(body), 'public.anybodys': signed(body) };
      assert.deepEqual(await deliver(), { 'public.pushes': signed(body), 'public.paid': undefined, ...own });
      // Its check becomes another sender's while a request of the table before it is forwarded.
      let answer = (): void => {};
      receiver.answering = new Promise((resolve) => (answer = resolve));
      const hmac = createHmac('sha256', key).update(body).digest('hex');
      assert.equal((await headgate.post('dev/public/mine', body, { 'x-mine': hmac })).status, 200);
      await until(() => got.length === 5);
      await client.query('ALTER TABLE anybodys VALIDATE SECRET s USING gitlab');
      const { status } = await headgate.post('dev/public/anybodys', body, { 'x-gitlab-token': key });
      assert.equal(status, 200);
      answer();
      await until(() => got.length === 6);
      assert.equal(got[5]?.headers['x-hub-signature-256'], undefined);
      await named.shows(/"public"\."anybodys", which is checked as gitlab/);
      named.type(keys.interrupt);
      assert.equal(await named.ended, 130, named.screen);

      const refusal = '--sender github does not apply to "public"."paid", which is checked as stripe\n';
      const refused = await replay('paid', ...signing);
      assert.deepEqual([refused.code, refused.stdout, refused.stderr], [1, '', `headgate: ${refusal}`]);
      const args = ['listen', 'paid', '--forward-to', url, ...signing, at];
      const listened = await run(process.execPath, [cli, ...args]);
      assert.deepEqual([listened.code, listened.stdout, listened.stderr], [1, '', `headgate: ${refusal}`]);
      assert.equal(got.length, 0);
      const mine = await replay('mine', ...signing);
      assert.match(
        mine.stderr,
        /^--sender github signs the requests of "public"\."mine", which has no sender's check$/m,
      );
      assert.equal(got[0]?.headers['x-hub-signature-256'], signed(body));
      // Meta signs as GitHub does, which is the first of them.
      await client.query(`CREATE TABLE alike (data JSONB) ${keeps} ${hook} SECRET s USING meta`);
      await push(headgate, 'alike');
      const alike = await replay('alike', '--sender', 'meta', '--secret', key);
      assert.deepEqual([alike.code, alike.stderr], [0, '1/1\n']);
      assert.equal(got[0]?.headers['x-hub-signature-256'], signed(body));
    },
  );
});
