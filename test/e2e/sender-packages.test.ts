/**
 * The senders' own packages against Headgate: those that sign send to a running program, and those that check look at
 * what `headgate send` makes. So neither side of a sender in src/senders stands on our reading alone.
 */
import assert from 'node:assert/strict';
import { createHash, createPublicKey, randomBytes } from 'node:crypto';
import type { webcrypto } from 'node:crypto';
import { createRequire } from 'node:module';
import { suite, test } from 'node:test';
import { LinearWebhookClient } from '@linear/sdk/webhooks';
import { signWebhookPayload, verifyWebhookSignature } from '@notionhq/client';
import { sign as signGithub, verify as verifyGithub } from '@octokit/webhooks-methods';
import { encodeSignatureHeader, isValidSignature } from '@sanity/webhook';
import { EventWebhook } from '@sendgrid/eventwebhook';
// Twilio's and Adyen's packages have thousands of files of types; their modules for webhooks, a few.
import adyen from '@adyen/api-library/lib/src/utils/hmacValidator.js';
import bolt from '@slack/bolt';
import { verifyKey } from 'discord-interactions';
import { SignJWT, compactVerify, exportJWK, generateKeyPair } from 'jose';
import Razorpay from 'razorpay';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio/lib/webhooks/webhooks.js';
import { roundsOf, verdict } from '../../src/senders/send-handshake.ts';
import { senders, signedRequest } from '../../src/senders/senders.ts';
import { startHeadgate } from '../support/headgate.ts';
import { createSenderTable, publicUrl } from '../support/senders.ts';

interface BraintreeGateway {
  readonly webhookNotification: { verify(challenge: string): string };
  readonly webhookTesting: {
    sampleNotification(kind: string, id: string): { bt_signature: string; bt_payload: string };
  };
}
/** The package has no types of its own. */
const braintree = createRequire(import.meta.url)('braintree') as {
  readonly BraintreeGateway: new (config: object) => BraintreeGateway;
  readonly Environment: { readonly Sandbox: object };
};

/** The package has 800 files of types. */
const { Paddle } = createRequire(import.meta.url)('@paddle/paddle-node-sdk') as {
  readonly Paddle: new (key: string) => {
    readonly webhooks: {
      isSignatureValid(body: string, secret: string, signature: string): Promise<boolean>;
    };
  };
};

interface Sent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Behind the table's path. */
  readonly query?: string;
}

interface Packaged {
  readonly package: string;
  readonly sender: string;
  /** A right and a wrong secret. */
  readonly secrets: readonly [string, string];
  readonly sign: (secret: string, url: string) => Sent | Promise<Sent>;
  /** Whether every byte of the body is signed. */
  readonly whole?: false;
  /** The body is a form: 422 says that the signature was right. */
  readonly form?: true;
}

const event = JSON.stringify({ id: 'evt_1', name: 'Zoë ☕', amount: 1999 });
const seconds = () => Math.floor(Date.now() / 1000);
const whsec = (): string => `whsec_${randomBytes(24).toString('base64')}`;
const hex64 = (): string => randomBytes(32).toString('hex').toUpperCase();
const form = { MessageSid: 'SM1', Body: 'Grüße & Küsse', From: '+14155550100' };
const bodyHash = createHash('sha256').update(event).digest('hex');
const pair = () => JSON.stringify({ public_key: 'public', private_key: randomBytes(16).toString('hex') });

/** The notification's item as the package wants it. */
const adyenItem = {
  pspReference: '7914073381342284',
  originalReference: '',
  merchantAccountCode: 'AcmeECOM',
  merchantReference: 'order-1',
  amount: { value: 1130, currency: 'EUR' },
  eventCode: 'AUTHORISATION',
  eventDate: '2026-03-04T05:06:07Z',
  success: 'true',
  paymentMethod: 'visa',
  reason: '',
};

async function plaidKeys(): Promise<{ readonly secret: string; readonly signer: webcrypto.CryptoKey }> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  return { secret: JSON.stringify({ ...(await exportJWK(publicKey)), kid: 'k1' }), signer: privateKey };
}
const plaid = await plaidKeys();
const otherPlaid = await plaidKeys();

const packages: readonly Packaged[] = [
  {
    package: '@octokit/webhooks-methods',
    sender: 'github',
    secrets: ["It's a secret", 'another'],
    sign: async (secret) => ({
      headers: { 'x-hub-signature-256': await signGithub(secret, event) },
      body: event,
    }),
  },
  {
    package: 'stripe',
    sender: 'stripe',
    secrets: ['whsec_one', 'whsec_two'],
    sign: (secret) => ({
      headers: { 'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload: event, secret }) },
      body: event,
    }),
  },
  {
    package: 'svix',
    sender: 'svix',
    secrets: [whsec(), whsec()],
    sign: (secret) => ({
      headers: {
        'svix-id': 'msg_1',
        'svix-timestamp': String(seconds()),
        'svix-signature': new SvixWebhook(secret).sign('msg_1', new Date(), event),
      },
      body: event,
    }),
  },
  {
    package: 'standardwebhooks',
    sender: 'standard_webhooks',
    secrets: [whsec(), whsec()],
    sign: (secret) => ({
      headers: {
        'webhook-id': 'msg_1',
        'webhook-timestamp': String(seconds()),
        'webhook-signature': new StandardWebhook(secret).sign('msg_1', new Date(), event),
      },
      body: event,
    }),
  },
  {
    package: 'twilio (forms)',
    sender: 'twilio_form',
    secrets: ['token', 'other'],
    form: true,
    sign: (secret, url) => ({
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-twilio-signature': twilio.getExpectedTwilioSignature(secret, url, form),
      },
      body: new URLSearchParams(form).toString(),
    }),
  },
  {
    package: 'twilio (JSON)',
    sender: 'twilio',
    secrets: ['token', 'other'],
    sign: (secret, url) => ({
      headers: {
        'x-twilio-signature': twilio.getExpectedTwilioSignature(secret, `${url}?bodySHA256=${bodyHash}`, {}),
      },
      body: event,
      query: `?bodySHA256=${bodyHash}`,
    }),
  },
  {
    package: '@notionhq/client',
    sender: 'notion',
    secrets: ['secret_one', 'secret_two'],
    sign: async (verificationToken) => ({
      headers: { 'x-notion-signature': await signWebhookPayload({ body: event, verificationToken }) },
      body: event,
    }),
  },
  {
    package: '@sanity/webhook',
    sender: 'sanity',
    secrets: ['one', 'two'],
    sign: async (secret) => ({
      headers: { 'sanity-webhook-signature': await encodeSignatureHeader(event, Date.now(), secret) },
      body: event,
    }),
  },
  {
    package: '@adyen/api-library (payments)',
    sender: 'adyen',
    secrets: [hex64(), hex64()],
    whole: false,
    sign: (secret) => {
      const hmacSignature = new adyen.default().calculateHmac(adyenItem as never, secret);
      const item = { ...adyenItem, additionalData: { hmacSignature } };
      return {
        headers: {},
        body: JSON.stringify({ live: 'false', notificationItems: [{ NotificationRequestItem: item }] }),
      };
    },
  },
  {
    package: '@adyen/api-library (banking)',
    sender: 'adyen_banking',
    secrets: [hex64(), hex64()],
    sign: (secret) => ({
      headers: { hmacsignature: new adyen.default().calculateHmac(event, secret) },
      body: event,
    }),
  },
  {
    package: 'braintree',
    sender: 'braintree',
    secrets: [pair(), pair()],
    form: true,
    sign: (secret) => {
      const keys = JSON.parse(secret) as { public_key: string; private_key: string };
      const gateway = new braintree.BraintreeGateway({
        environment: braintree.Environment.Sandbox,
        merchantId: 'merchant',
        publicKey: keys.public_key,
        privateKey: keys.private_key,
      });
      const sample = gateway.webhookTesting.sampleNotification('check', 'my_id');
      return {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ ...sample }).toString(),
      };
    },
  },
  {
    package: 'jose (ES256, the shape of Plaid)',
    sender: 'plaid',
    secrets: [plaid.secret, otherPlaid.secret],
    sign: async (secret) => {
      const token = await new SignJWT({ request_body_sha256: bodyHash })
        .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'JWT' })
        .setIssuedAt()
        .sign(secret === plaid.secret ? plaid.signer : otherPlaid.signer);
      return { headers: { 'plaid-verification': token }, body: event };
    },
  },
  {
    package: 'jose (HS256, the shape of monday.com)',
    sender: 'monday',
    secrets: ['signing secret one', 'signing secret two'],
    whole: false,
    sign: async (secret) => {
      const token = await new SignJWT({ accountId: 1 })
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setExpirationTime('5m')
        .sign(Buffer.from(secret));
      return { headers: { authorization: token }, body: event };
    },
  },
];

test("what the senders' own packages sign is accepted, forged or changed it is 401", async (t) => {
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

type Read = (name: string) => string;

/** What the package says of a request of ours: true, or false where it can say no without throwing. */
const receivers: Readonly<
  Record<string, (body: string, header: Read, secret: string, url: string) => unknown>
> = {
  github: (body, header, secret) => verifyGithub(secret, body, header('X-Hub-Signature-256')),
  stripe: (body, header, secret) =>
    Stripe.webhooks.constructEvent(body, header('Stripe-Signature'), secret) !== null,
  svix: (body, header, secret) => {
    const names = ['svix-id', 'svix-timestamp', 'svix-signature'];
    return (
      new SvixWebhook(secret).verify(body, Object.fromEntries(names.map((name) => [name, header(name)]))) !==
      null
    );
  },
  standard_webhooks: (body, header, secret) => {
    const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
    const headers = Object.fromEntries(names.map((name) => [name, header(name)]));
    return new StandardWebhook(secret).verify(body, headers) !== null;
  },
  twilio: (body, header, secret, url) =>
    twilio.validateRequestWithBody(secret, header('X-Twilio-Signature'), url, body),
  twilio_form: (body, header, secret, url) =>
    twilio.validateRequest(
      secret,
      header('X-Twilio-Signature'),
      url,
      Object.fromEntries(new URLSearchParams(body)),
    ),
  notion: (body, header, secret) =>
    verifyWebhookSignature({ body, signature: header('X-Notion-Signature'), verificationToken: secret }),
  sanity: (body, header, secret) => isValidSignature(body, header('sanity-webhook-signature'), secret),
  discord: (body, header, secret) =>
    verifyKey(body, header('X-Signature-Ed25519'), header('X-Signature-Timestamp'), secret),
  discord_interactions: (body, header, secret) =>
    verifyKey(body, header('X-Signature-Ed25519'), header('X-Signature-Timestamp'), secret),
  app_store: async (body, _header, secret) => {
    const { signedPayload } = JSON.parse(body) as { signedPayload: string };
    const { payload } = await compactVerify(signedPayload, createPublicKey(secret));
    return (JSON.parse(Buffer.from(payload).toString()) as { version: string }).version === '2.0';
  },
  sendgrid: (body, header, secret) => {
    const webhook = new EventWebhook();
    const signature = header('X-Twilio-Email-Event-Webhook-Signature');
    const time = header('X-Twilio-Email-Event-Webhook-Timestamp');
    return webhook.verifySignature(webhook.convertPublicKeyToECDSA(secret), body, signature, time);
  },
  paddle: (body, header, secret) =>
    new Paddle('api key').webhooks.isSignatureValid(body, secret, header('Paddle-Signature')),
  slack: (body, header, signingSecret) => {
    const time = Number(header('X-Slack-Request-Timestamp'));
    const headers = { 'x-slack-signature': header('X-Slack-Signature'), 'x-slack-request-timestamp': time };
    bolt.verifySlackRequest({ signingSecret, body, headers });
    return true;
  },
  linear: (body, header, secret) => {
    const { webhookTimestamp } = JSON.parse(body) as { webhookTimestamp: number };
    return new LinearWebhookClient(secret).verify(
      Buffer.from(body),
      header('Linear-Signature'),
      webhookTimestamp,
    );
  },
  razorpay: (body, header, secret) =>
    Razorpay.validateWebhookSignature(body, header('X-Razorpay-Signature'), secret),
  adyen: (body, _header, secret) => {
    const { notificationItems } = JSON.parse(body) as {
      notificationItems: [{ NotificationRequestItem: never }];
    };
    return new adyen.default().validateHMAC(notificationItems[0].NotificationRequestItem, secret);
  },
};

suite("the senders' own packages accept what headgate send makes, and only that", () => {
  for (const [id, verify] of Object.entries(receivers)) {
    test(id, async () => {
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

test('Braintree’s package answers a challenge with what our question wants', () => {
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
