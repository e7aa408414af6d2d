/** `headgate explain` of refused requests: which one it shows without an id, and what it says to do. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

suite('headgate explain explains refusals', () => {
  test('headgate explain shows the newest refusals with advice for each kind', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const explain = async (...args: string[]) =>
      (await run(process.execPath, [cli, 'explain', '--dsn', dsn, ...args])).stdout;
    const count = async () =>
      Number((await client.query('SELECT count(*) FROM headgate.rejected_requests')).rows[0]?.count);
    await client.query(`
      CREATE SECRET s WITH (backend = 'meta') AS 'the-key';
      CREATE TABLE gh (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING github;
      CREATE TABLE sl (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING slack;
      CREATE TABLE st (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET s USING stripe;
      CREATE TABLE hm (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET s AS secure_compare(headers->>'x-hmac', encode(hmac(s, payload, 'sha512'), 'base64'))`);

    for (let n = 1; n <= 11; n++) {
      assert.equal((await headgate.post('dev/public/gh', `{"n":${n}}`)).status, 401);
      await until(async () => (await count()) === n);
    }
    const newest = await explain();
    assert.match(newest, /^Request 11 to public\.gh/);
    assert.match(newest, /\{"n":11\}/);
    // As the function itself says.
    const retried = async (sql: string) =>
      Object.values((await client.query<Record<string, string>>(sql)).rows[0] ?? {})[0];
    assert.match(
      String(await retried('SELECT headgate.retry_rejected(11)')),
      /VALIDATE did not accept it.* force => true stores it unchecked/,
    );
    const forced = 'SELECT headgate.retry_rejected(11, force => true);';
    assert.ok(
      newest.endsWith(`\n\nVALIDATE did not accept it. To store it nevertheless, unchecked: ${forced}\n`),
    );
    assert.match(newest, /Check the secret, the header name and the signed bytes/);

    // Signed rightly, a day ago, by Slack's rules.
    const at = String(Math.floor(Date.now() / 1_000) - 86_400);
    const body = '{\r\n\t"a": "\u001b[2J"\n}';
    const signature = `v0=${createHmac('sha256', 'the-key').update(`v0:${at}:${body}`).digest('hex')}`;
    const slack = { 'X-Slack-Request-Timestamp': at, 'X-Slack-Signature': signature };
    assert.equal((await headgate.post('dev/public/sl', body, slack)).status, 401);
    await until(async () => (await count()) === 12);
    const late = await explain();
    assert.match(late, /the clock is outside the tolerance: the timestamp is 864\d\d s old/);
    assert.match(late, /Check the clock of this machine/);
    assert.doesNotMatch(late, /Check the secret/);
    assert.match(late, /^\{\n\t"a": "\\u\{1b\}\[2J"\n\}$/m);

    // Another body under the id of a delivery: the table's own answer, and kept.
    const stripe = (text: string) => {
      const now = String(Math.floor(Date.now() / 1_000));
      const proof = createHmac('sha256', 'the-key').update(`${now}.${text}`).digest('hex');
      return headgate.post('dev/public/st', text, { 'Stripe-Signature': `t=${now},v1=${proof}` });
    };
    assert.equal((await stripe('{"id":"evt_1","type":"a","data":1}')).status, 200);
    const differs = await stripe('{"id":"evt_1","type":"a","data":2}');
    assert.deepEqual([differs.status, differs.text], [200, '']);
    await until(async () => (await count()) === 13);
    const kept = await explain();
    assert.match(kept, /200 delivery_differs/);
    const again = 'SELECT headgate.retry_rejected(13);';
    assert.ok(
      kept.endsWith(`\n\nVALIDATE had accepted it. To store it, once its row fits the table: ${again}\n`),
    );
    assert.match(String(await retried(again)), /^waiting/);
    assert.match(kept, /answered 202 instead, or as the ANSWER of its table says/);

    const proof = createHmac('sha512', 'the-key').update('{"n":1}').digest('base64');
    assert.equal((await headgate.post('dev/public/hm', '{"n":1}', { 'X-Hmac': proof })).status, 401);
    await until(async () => (await count()) === 14);
    const broken = await explain();
    assert.match(broken, /the signature differs only in line breaks: .* write replace\(/);
    assert(!broken.includes(proof));
    const notices: string[] = [];
    client.on('notice', ({ severity, message }) => notices.push(`${severity} ${message}`));
    const check = `encode(hmac(s, payload, 'sha512'), 'base64')`;
    await client.query(`ALTER TABLE hm VALIDATE SECRET s AS secure_compare(headers->>'x-hmac', ${check})`);
    assert.match(notices.join('\n'), /^WARNING encode\(…, 'base64'\) writes a line break/);
    notices.length = 0;
    await client.query(
      `ALTER TABLE hm VALIDATE SECRET s AS secure_compare(headers->>'x-hmac', replace(${check}, E'\\n', ''))`,
    );
    assert.deepEqual(notices, []);
    assert.equal((await headgate.post('dev/public/hm', '{"n":1}', { 'X-Hmac': proof })).status, 200);
  });
});
