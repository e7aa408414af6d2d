/** The vendors' packages that judge a request of ours. Development dependencies. */
import { createRequire } from 'node:module';
import { createPublicKey } from 'node:crypto';
import { LinearWebhookClient } from '@linear/sdk/webhooks';
import { verifyWebhookSignature } from '@notionhq/client';
import { verify as verifyGithub } from '@octokit/webhooks-methods';
import { isValidSignature } from '@sanity/webhook';
import { EventWebhook } from '@sendgrid/eventwebhook';
// Twilio's and Adyen's packages have thousands of files of types; their modules for webhooks, a few.
import adyen from '@adyen/api-library/lib/src/utils/hmacValidator.js';
import bolt from '@slack/bolt';
import { verifyKey } from 'discord-interactions';
import { compactVerify } from 'jose';
import Razorpay from 'razorpay';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import twilio from 'twilio/lib/webhooks/webhooks.js';
import type { PackageName } from '../../src/senders/packages.ts';

/** The package has 800 files of types. */
const { Paddle } = createRequire(import.meta.url)('@paddle/paddle-node-sdk') as {
  readonly Paddle: new (key: string) => {
    readonly webhooks: {
      isSignatureValid(body: string, secret: string, signature: string): Promise<boolean>;
    };
  };
};

type Read = (name: string) => string;

/** What the package says of a request of ours: true, or false where it can say no without throwing. */
export const receivers: Readonly<
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

/** The package of each of them; `jose` is nobody's own. */
export const receiverPackages: Readonly<Record<string, PackageName | null>> = {
  github: '@octokit/webhooks-methods',
  stripe: 'stripe',
  svix: 'svix',
  standard_webhooks: 'standardwebhooks',
  twilio: 'twilio',
  twilio_form: 'twilio',
  notion: '@notionhq/client',
  sanity: '@sanity/webhook',
  discord: 'discord-interactions',
  discord_interactions: 'discord-interactions',
  app_store: null,
  sendgrid: '@sendgrid/eventwebhook',
  paddle: '@paddle/paddle-node-sdk',
  slack: '@slack/bolt',
  linear: '@linear/sdk',
  razorpay: 'razorpay',
  adyen: '@adyen/api-library',
};
