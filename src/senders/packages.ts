/**
 * The vendors' packages that tests let sign requests, or judge those that we sign. An entry that says `ran('…')` names one of them, and
 * `test/e2e/sender-packages.test.ts` fails if no test runs it for that sender. `each run`: a development dependency; `by hand`: fetched by
 * `npm run test:verifiers`, because it is of another language or brings too much with it.
 */
export interface Package {
  readonly registry: 'npm' | 'pip';
  /** Its name there, if two registries have one of this name. */
  readonly name?: string;
  readonly version: string;
  readonly when: 'each run' | 'by hand';
  /** Whether it is not the vendor's own. */
  readonly others?: true;
}

const npm = (version: string): Package => ({ registry: 'npm', version, when: 'each run' });
const fetched = (version: string): Package => ({ registry: 'npm', version, when: 'by hand' });
const pip = (version: string, name?: string): Package => ({
  registry: 'pip',
  version,
  when: 'by hand',
  ...(name === undefined ? {} : { name }),
});

export const packages = {
  '@adyen/api-library': npm('32.1.0'),
  '@linear/sdk': npm('98.0.0'),
  '@notionhq/client': npm('5.26.0'),
  '@octokit/webhooks-methods': npm('6.0.0'),
  '@paddle/paddle-node-sdk': npm('3.10.0'),
  '@sanity/webhook': npm('4.0.4'),
  '@sendgrid/eventwebhook': npm('8.0.0'),
  '@slack/bolt': npm('5.1.0'),
  braintree: npm('3.40.0'),
  'discord-interactions': npm('4.4.0'),
  razorpay: npm('2.9.8'),
  standardwebhooks: npm('1.1.1'),
  stripe: npm('23.1.0'),
  svix: npm('1.99.1'),
  twilio: npm('6.2.0'),
  '@contentful/node-apps-toolkit': fetched('3.16.1'),
  '@trigger.dev/core': { ...fetched('4.8.3'), others: true },
  '@clerk/backend': fetched('3.25.0'),
  '@elevenlabs/elevenlabs-js': fetched('2.73.0'),
  '@hubspot/api-client': fetched('13.5.0'),
  '@line/bot-sdk': fetched('11.0.0'),
  '@mux/mux-node': fetched('15.3.0'),
  '@shopify/shopify-api': fetched('13.1.0'),
  '@workos-inc/node': fetched('8.13.0'),
  'box-node-sdk': fetched('3.8.2'),
  'coinbase-commerce-node': fetched('1.0.4'),
  'event-notification-nodejs-sdk': fetched('1.0.3'),
  'gocardless-nodejs': fetched('10.1.2'),
  '@polar-sh/sdk': fetched('0.49.0'),
  cloudinary: fetched('2.11.0'),
  'livekit-server-sdk': fetched('2.19.2'),
  '@anthropic-ai/sdk': fetched('1.14.0'),
  '@dropbox/sign': fetched('1.11.0'),
  '@easypost/api': fetched('8.9.0'),
  '@kontent-ai/webhook-helper': fetched('3.0.3'),
  '@metronome/sdk': fetched('3.10.0'),
  '@onfido/api': fetched('6.2.0'),
  '@sinch/sdk-client': fetched('1.5.0'),
  '@team-plain/typescript-sdk': fetched('5.12.1'),
  '@vonage/jwt': fetched('1.17.1'),
  '@wix/sdk': fetched('1.21.16'),
  '@zoom/rivet': fetched('0.4.0'),
  acuityscheduling: fetched('0.1.9'),
  'atlassian-jwt': fetched('2.0.3'),
  'cashfree-pg': fetched('6.0.6'),
  'crisp-api': fetched('11.3.0'),
  mercadopago: fetched('3.6.1'),
  messagebird: fetched('4.0.1'),
  'modern-treasury': fetched('3.3.0'),
  resend: fetched('6.38.0'),
  'stream-chat': fetched('9.53.0'),
  'viber-bot': fetched('1.0.18'),
  openai: fetched('6.49.0'),
  pusher: fetched('5.3.4'),
  replicate: fetched('1.4.0'),
  'retell-sdk': fetched('5.66.1'),
  square: fetched('46.0.0'),
  telnyx: fetched('7.24.0'),
  'webflow-api': fetched('3.3.4'),
  'line-bot-sdk': pip('3.27.0'),
  paypalrestsdk: pip('1.13.3'),
  slack_sdk: pip('3.47.0'),
  'standardwebhooks (Python)': pip('1.1.0', 'standardwebhooks'),
  'stripe (Python)': pip('16.1.0', 'stripe'),
  'svix (Python)': pip('2.9.1', 'svix'),
  'twilio (Python)': pip('9.13.0', 'twilio'),
  wechatpy: pip('1.8.18'),
} as const satisfies Readonly<Record<string, Package>>;

export type PackageName = keyof typeof packages;
