/**
 * The senders' own packages against Headgate: those that sign send to a running program, and those that check look at
 * what `headgate send` makes. So neither side of a sender in src/senders stands on our reading alone.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { roundsOf, verdict } from '../../src/senders/send-handshake.ts';
import { packages as vendorPackages } from '../../src/senders/packages.ts';
import type { PackageName } from '../../src/senders/packages.ts';
import { senders, signedRequest } from '../../src/senders/senders.ts';
import { challengePackages, judges, pythonPackages } from '../support/fetched-packages.ts';
import { startHeadgate } from '../support/headgate.ts';
import { createSenderTable, publicUrl } from '../support/senders.ts';
import { receiverPackages, receivers } from '../support/package-receivers.ts';
import { playedTable, playersOf } from '../support/players.ts';
import { type Sent, braintree, packages } from '../support/package-signers.ts';

const rootFolder = fileURLToPath(new URL('../../..', import.meta.url));

test("requests signed by the senders' own packages are accepted, and forged or changed ones get 401", async (t) => {
  const headgate = await startHeadgate(t, { args: [`--public-url=${publicUrl}`] });
  const client = await headgate.client(t);
  for (const [i, packaged] of packages.entries()) {
    const table = `p_${i}`;
    const [secret, other] = packaged.secrets;
    await createSenderTable(client, table, packaged.sender, secret);
    const path = `dev/public/${table}`;
    const url = `${publicUrl}/webhook/${path}`;
    const post = async (sent: Sent) => {
      const answer = await headgate.post(`${path}${sent.query ?? ''}`, sent.body, sent.headers);
      return answer.status;
    };
    const sent = await packaged.sign(secret, url);
    assert.equal(await post(sent), 200, packaged.package);
    assert.equal(await post(await packaged.sign(other, url)), 401, `${packaged.package}, wrong secret`);
    if (packaged.whole !== false) {
      const changed = sent.body.replace(/[a-z0-9](?=[^a-z0-9]*$)/, (last) => (last === '1' ? '2' : '1'));
      assert.notEqual(changed, sent.body);
      assert.equal(await post({ ...sent, body: changed }), 401, `${packaged.package}, changed body`);
    }
    const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from ${table}`);
    assert.equal(rows[0]?.n, 1, packaged.package);
  }
});

test("sender pages claim a check against a vendor's package only where a test runs that package", async () => {
  const run = new Set([
    ...packages.map(({ sender, package: name }) => `${sender} ${name.replace(/ \(.*/, '')}`),
    ...Object.entries(receiverPackages).map(([sender, name]) => `${sender} ${name}`),
    ...judges.flatMap(({ package: name, senders }) => senders.map((sender) => `${sender} ${name}`)),
    ...Object.entries(pythonPackages).map(([sender, name]) => `${sender} ${name}`),
    ...Object.entries(challengePackages).map(([sender, name]) => `${sender} ${name}`),
  ]);
  assert.deepEqual(Object.keys(receiverPackages).toSorted(), Object.keys(receivers).toSorted());
  const claimed = [...senders.values()].flatMap(({ id, evidence, delivery, retries, answer }) =>
    [...Object.values(evidence).flat(), delivery.from, retries?.from, answer?.from]
      .flatMap((source) => (source && 'package' in source ? [source.package] : []))
      .map((name) => ({ id, name })),
  );
  assert(claimed.length >= 40, String(claimed.length));
  for (const { id, name } of claimed)
    assert(run.has(`${id} ${name}`), `${id} claims ${name}, which no test runs for it`);
  const used = new Set(claimed.map(({ name }) => name));
  for (const name of Object.keys(vendorPackages))
    assert(used.has(name as PackageName), `no page names ${name}`);
  const { devDependencies } = JSON.parse(await readFile(join(rootFolder, 'package.json'), 'utf8')) as {
    devDependencies: Readonly<Record<string, string>>;
  };
  for (const [name, { version, when }] of Object.entries(vendorPackages))
    if (when === 'each run') assert.equal(devDependencies[name], version, name);
});

test('each sender is played in tests by a package or by code written from its documentation', () => {
  const unplayed = [...senders.keys()].filter((id) => playersOf(id).length === 0);
  assert.deepEqual(unplayed, [], 'no test plays these: add a row to test/support/documented-signers.ts');
  assert.equal(playedTable().trim().split('\n').length, senders.size + 2);
});

suite("senders' own packages accept requests of headgate send", () => {
  for (const [id, verify] of Object.entries(receivers)) {
    test(`the package of ${id} accepts a request of headgate send and refuses one with another secret`, async () => {
      const sender = senders.get(id) ?? assert.fail(id);
      const keys = sender.makeSecret(randomBytes);
      const requestId = randomBytes(16).toString('hex');
      const nowMs = Date.now();
      const body = Buffer.from(sender.example({ id: requestId, nowMs }));
      const draft = { method: 'POST', url: `${publicUrl}/webhook/dev/public/t`, body, nowMs, id: requestId };
      const sent = signedRequest(sender, { ...draft, signingKey: keys.signingKey });
      const ask = async (secret: string) =>
        verify(sent.body.toString(), (name) => sent.headers[name] ?? '', secret, sent.url);
      assert.equal(await ask(keys.secret), true);
      const refused = await ask(sender.makeSecret(randomBytes).secret).catch(() => false);
      assert.equal(refused, false);
    });
  }
});

test("Braintree's package answers the challenge of headgate send as expected", () => {
  const keys = { public_key: 'integration_public_key', private_key: 'integration_private_key' };
  const gateway = new braintree.BraintreeGateway({
    environment: braintree.Environment.Sandbox,
    merchantId: 'integration_merchant_id',
    publicKey: keys.public_key,
    privateKey: keys.private_key,
  });
  const sender = senders.get('braintree') ?? assert.fail();
  const url = 'https://h.example/';
  const asker = {
    sender,
    url,
    signedUrl: url,
    signingKey: JSON.stringify(keys),
    answerKey: keys.public_key,
    headers: new Map<string, string>(),
  };
  const [round = assert.fail()] = roundsOf(asker, randomBytes(16).toString('hex'), Date.now());
  const body = gateway.webhookNotification.verify(round.asking.challenge);
  const answer = { status: 200, headers: {}, bytes: 200, ms: 1 };
  assert.equal(verdict(round, { ...answer, body }), null);
  assert.notEqual(verdict(round, { ...answer, body: body.slice(0, -1) }), null);
});
