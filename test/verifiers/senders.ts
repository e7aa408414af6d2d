/**
 * Packages of senders that are no development dependencies, because they are of another language or bring too much with them, against
 * Headgate: those that sign send to a running program, those that check look at what `headgate send` makes. `npm run test:verifiers`
 * puts them into the folder HEADGATE_VERIFIERS.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { senders, signedRequest } from '../../src/senders/senders.ts';
import { startHeadgate } from '../support/headgate.ts';
import { challengePackages, judges, pythonPackages } from '../support/fetched-packages.ts';
import { loaderOf } from '../support/judge.ts';
import { run } from '../support/run.ts';
import { createSenderTable, publicUrl } from '../support/senders.ts';

const folder = process.env['HEADGATE_VERIFIERS'] ?? assert.fail('HEADGATE_VERIFIERS is not set');
const script = fileURLToPath(new URL('../../../test/verifiers/senders.py', import.meta.url));

async function python<T>(asked: Readonly<Record<string, unknown>>): Promise<T> {
  const ran = await run(join(folder, 'venv/bin/python'), [script], { input: JSON.stringify(asked) });
  assert.equal(ran.code, 0, ran.stderr);
  return JSON.parse(ran.stdout) as T;
}

const json = '{"id":"evt_1","object":"event","name":"Zoë ☕"}';
const signing: Readonly<Record<string, string>> = {
  svix: json,
  standard_webhooks: json,
  slack: json,
  stripe: json,
  twilio_form: 'MessageSid=SM1&Body=Gr%C3%BC%C3%9Fe&From=%2B14155550100',
  wechat: '<xml><MsgId>1</MsgId></xml>',
};

test('requests signed by Python packages of senders are accepted, and those with another secret get 401', async (t) => {
  const headgate = await startHeadgate(t, { args: [`--public-url=${publicUrl}`] });
  const client = await headgate.client(t);
  for (const [sender, body] of Object.entries(signing)) {
    await t.test(
      `a request signed by the Python package of ${sender} is accepted, a forged one gets 401`,
      async () => {
        const known = senders.get(sender) ?? assert.fail(sender);
        const { secret } = known.makeSecret(randomBytes);
        await createSenderTable(client, sender, sender, secret);
        const path = `dev/public/${sender}`;
        const post = async (by: string) => {
          const asked = { do: 'sign', sender, secret: by, url: `${publicUrl}/webhook/${path}`, body };
          const made = await python<{ headers: Record<string, string>; query: string }>(asked);
          return (await headgate.post(`${path}${made.query}`, body, made.headers)).status;
        };
        assert.equal(await post(secret), 200);
        assert.equal(await post(known.makeSecret(randomBytes).secret), 401);
        const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${sender}`);
        assert.equal(rows[0]?.n, 1);
      },
    );
  }

  await t.test("eBay's SDK computes the same answer to a challenge as Headgate", async () => {
    const { generateChallengeResponse } = createRequire(join(folder, 'x.js'))(
      `${challengePackages.ebay}/lib/validator.js`,
    ) as { generateChallengeResponse: (code: string, config: object) => string };
    const verificationToken = 'a_verification_token_of_40_characters_ab';
    const endpoint = `${publicUrl}/webhook/dev/public/ebay`;
    const { secret } = (senders.get('ebay') ?? assert.fail()).makeSecret(randomBytes);
    await createSenderTable(client, 'ebay', 'ebay', secret, `${verificationToken}${endpoint}`);
    for (const code of ['71745723-d031-455c-bfa5-f90d11b4f20a', randomBytes(16).toString('hex')]) {
      const answer = await fetch(`${headgate.webhookUrl}/dev/public/ebay?challenge_code=${code}`);
      const challengeResponse = generateChallengeResponse(code, { verificationToken, endpoint });
      assert.deepEqual([answer.status, await answer.json()], [200, { challengeResponse }]);
    }
  });
});

test('Python packages of senders accept requests of headgate send, and none signed with another key', async (t) => {
  for (const sender of Object.keys(pythonPackages))
    await t.test(`the Python package of ${sender} accepts headgate send and no other key`, async () => {
      const known = senders.get(sender) ?? assert.fail(sender);
      const [keys, others] = [known.makeSecret(randomBytes), known.makeSecret(randomBytes)];
      const id = randomBytes(16).toString('hex');
      const nowMs = Date.now();
      const body = Buffer.from(known.example({ id, nowMs }));
      const url = `${publicUrl}/webhook/dev/public/t`;
      const sent = signedRequest(known, {
        method: 'POST',
        url,
        body,
        nowMs,
        id,
        signingKey: keys.signingKey,
      });
      const check = { do: 'check', sender, url: sent.url, headers: sent.headers, body: sent.body.toString() };
      assert.deepEqual(await python({ ...check, secret: keys.secret }), { accepted: true });
      assert.deepEqual(await python({ ...check, secret: others.secret }), { accepted: false });
    });
});

test('Node packages of senders accept requests of headgate send, and none signed with another key or changed', async (t) => {
  for (const { package: name, senders: ids, whole, judge } of judges)
    for (const sender of ids)
      await t.test(
        `the package ${name} accepts requests of headgate send for ${sender} and no forged ones`,
        async () => {
          const known = senders.get(sender) ?? assert.fail(sender);
          const [keys, others] = [known.makeSecret(randomBytes), known.makeSecret(randomBytes)];
          const id = randomBytes(16).toString('hex');
          const nowMs = Date.now();
          const body = Buffer.from(known.example({ id, nowMs }));
          const url = `${publicUrl}/webhook/dev/public/t`;
          const draft = { method: 'POST', url, body, nowMs, id, signingKey: keys.signingKey };
          const { headers, ...sent } = signedRequest(known, draft);
          const load = loaderOf(folder, name);
          const text = sent.body.toString();
          const ask = (secret: string, body = text) => judge(load, { body, url: sent.url, headers, secret });
          assert.equal(await ask(keys.secret), true);
          assert.equal(await ask(others.secret).catch(() => false), false, 'another key');
          if (whole === false) return;
          const changed = text.replace(/[a-z0-9](?=[^a-z0-9]*$)/, (last) => (last === '1' ? '2' : '1'));
          assert.equal(await ask(keys.secret, changed).catch(() => false), false, 'another body');
        },
      );
});
