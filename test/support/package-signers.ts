/** The vendors' packages that sign: each makes a request as its sender does. Development dependencies. */
import { createHash, randomBytes } from 'node:crypto';
import type { webcrypto } from 'node:crypto';
import { createRequire } from 'node:module';
import { signWebhookPayload } from '@notionhq/client';
import { sign as signGithub } from '@octokit/webhooks-methods';
import { encodeSignatureHeader } from '@sanity/webhook';
// Twilio's and Adyen's packages have thousands of files of types; their modules for webhooks, a few.
import adyen from '@adyen/api-library/lib/src/utils/hmacValidator.js';
import { SignJWT, exportJWK, generateKeyPair } from 'jose';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio/lib/webhooks/webhooks.js';

interface BraintreeGateway {
  readonly webhookNotification: { verify(challenge: string): string };
  readonly webhookTesting: {
    sampleNotification(kind: string, id: string): { bt_signature: string; bt_payload: string };
  };
}
/** The package has no types of its own. */
export const braintree = createRequire(import.meta.url)('braintree') as {
  readonly BraintreeGateway: new (config: object) => BraintreeGateway;
  readonly Environment: { readonly Sandbox: object };
};

export interface Sent {
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

export const packages: readonly Packaged[] = [
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
