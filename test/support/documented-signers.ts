/**
 * Senders' requests as their documentation describes them, made with node:crypto alone: nothing of `src/senders` is used, so that an entry
 * is not compared with itself. Pure.
 */
import { createHash, createHmac, generateKeyPairSync, sign } from 'node:crypto';

export interface Documented {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly query?: string;
}

interface Given {
  readonly secret: string;
  /** The time of the request, in milliseconds. */
  readonly ms: number;
  readonly body: string;
  readonly url: string;
}

export interface DocumentedSender {
  readonly secret: string;
  readonly make: (given: Given) => Documented;
  /** How old a request may be that the sender's documentation lets a receiver accept; absent: no time is compared. */
  readonly staleAfterS?: number;
  /** Whether every byte of the body is signed; it is unless this says otherwise. */
  readonly whole?: false;
  readonly body?: string;
}

type Digest = 'hex' | 'base64';
const h = (algorithm: string, key: string | Buffer, text: string, as: Digest = 'hex') =>
  createHmac(algorithm, key).update(text, 'utf8').digest(as);
const s = (ms: number) => `${Math.floor(ms / 1000)}`;

/** HMAC of the body in one header. */
const plain = (
  header: string,
  prefix = '',
  algorithm = 'sha256',
  as: Digest = 'hex',
  secret = 'a secret of 32 characters or so!',
  key: (secret: string) => string | Buffer = (it) => it,
): DocumentedSender => ({
  secret,
  make: ({ secret: given, body }) => ({
    headers: { [header]: prefix + h(algorithm, key(given), body, as) },
    body,
  }),
});

/** `t=…,v1=…` */
const list = (
  header: string,
  make: (ms: number, mac: (text: string) => string) => string,
  staleAfterS?: number,
) =>
  ({
    secret: 'whsec_of_some_kind',
    ...(staleAfterS === undefined ? {} : { staleAfterS }),
    make: ({ secret, ms, body }: Given) => ({
      headers: {
        [header]: make(ms, (text) =>
          h(
            'sha256',
            secret,
            text.replace('BODY', () => body),
          ),
        ),
      },
      body,
    }),
  }) satisfies DocumentedSender;

/** A signature and a time in a header each. */
const two = (
  signature: string,
  time: string,
  at: (ms: number) => string,
  text: (at: string, body: string) => string,
  {
    prefix = '',
    as = 'hex',
    staleAfterS,
    secret = 'signing secret',
    key = (it: string) => it as string | Buffer,
  }: {
    prefix?: string;
    as?: Digest;
    staleAfterS?: number;
    secret?: string;
    key?: (secret: string) => string | Buffer;
  } = {},
): DocumentedSender => ({
  secret,
  ...(staleAfterS === undefined ? {} : { staleAfterS }),
  make: ({ secret: given, ms, body }) => ({
    headers: { [time]: at(ms), [signature]: prefix + h('sha256', key(given), text(at(ms), body), as) },
    body,
  }),
});

const bearer = (header: string, value: (secret: string) => string = (it) => it): DocumentedSender => ({
  secret: 'token-of-some-length',
  whole: false,
  make: ({ secret, body }) => ({ headers: { [header]: value(secret) }, body }),
});

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const rsaSender = (header: string, hash: string): DocumentedSender => ({
  secret: rsa.publicKey.export({ format: 'pem', type: 'spki' }).toString(),
  make: ({ body }) => ({
    headers: { [header]: sign(hash, Buffer.from(body), rsa.privateKey).toString('base64') },
    body,
  }),
});

function jwt(claims: object, key: string): string {
  const part = (it: object) => Buffer.from(JSON.stringify(it)).toString('base64url');
  const signed = `${part({ typ: 'JWT', alg: 'HS256' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** The Standard Webhooks scheme, its key with or without the padding. */
const standard = (prefix: string, secret: string, separator = ' '): DocumentedSender => ({
  secret,
  staleAfterS: 300,
  make: ({ secret: given, ms, body }) => {
    const key = Buffer.from(given.replace('v1,', '').replace('whsec_', ''), 'base64');
    const value = h('sha256', key, `msg_1.${s(ms)}.${body}`, 'base64');
    return {
      headers: {
        [`${prefix}-id`]: 'msg_1',
        [`${prefix}-timestamp`]: s(ms),
        [`${prefix}-signature`]: `v1,${Buffer.alloc(32).toString('base64')}${separator}v1,${value}`,
      },
      body,
    };
  },
});

const unpadded = `whsec_${Buffer.alloc(31, 7).toString('base64').replaceAll('=', '')}`;
const zulu = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** Each by its id; a second form of one sender has the id, a blank and a word. */
export const documented: Readonly<Record<string, DocumentedSender>> = {
  'standard_webhooks unpadded': standard('webhook', unpadded),
  'standard_webhooks svix-headers': standard('svix', `whsec_${Buffer.alloc(24, 3).toString('base64')}`),
  'svix webhook-headers': standard('webhook', `whsec_${Buffer.alloc(24, 3).toString('base64')}`),
  clerk: standard('svix', `whsec_${Buffer.alloc(24, 4).toString('base64')}`),
  openai: standard('webhook', unpadded),
  anthropic: standard('webhook', `whsec_${Buffer.alloc(32, 4).toString('base64')}`),
  resend: standard('svix', `whsec_${Buffer.alloc(24, 5).toString('base64')}`),
  gitlab_signed: standard('webhook', `whsec_${Buffer.alloc(32, 6).toString('base64')}`),
  supabase_auth: standard('webhook', `v1,whsec_${Buffer.alloc(32, 6).toString('base64')}`, ', '),
  github: plain('X-Hub-Signature-256', 'sha256='),
  bitbucket: plain('X-Hub-Signature', 'sha256='),
  jira: plain('X-Hub-Signature', 'sha256='),
  meta: plain('X-Hub-Signature-256', 'sha256='),
  snyk: plain('X-Hub-Signature', 'sha256='),
  fireflies: plain('X-Hub-Signature', 'sha256='),
  intercom: plain('X-Hub-Signature', 'sha1=', 'sha1'),
  vercel: plain('x-vercel-signature', '', 'sha1'),
  segment: plain('X-Signature', '', 'sha1'),
  paystack: plain('x-paystack-signature', '', 'sha512'),
  monnify: plain('monnify-signature', '', 'sha512'),
  terraform: plain('X-TFE-Notification-Signature', '', 'sha512'),
  webex: plain('X-Spark-Signature', '', 'sha1'),
  storyblok: plain('webhook-signature', '', 'sha1'),
  patreon: plain('X-Patreon-Signature', '', 'md5'),
  typeform: plain('Typeform-Signature', 'sha256=', 'sha256', 'base64'),
  x: plain('x-twitter-webhooks-signature', 'sha256=', 'sha256', 'base64'),
  shopify: plain('X-Shopify-Hmac-Sha256', '', 'sha256', 'base64'),
  'shopify events': plain('shopify-hmac-sha256', '', 'sha256', 'base64'),
  woocommerce: plain('X-WC-Webhook-Signature', '', 'sha256', 'base64'),
  xero: plain('x-xero-signature', '', 'sha256', 'base64'),
  quickbooks: plain('intuit-signature', '', 'sha256', 'base64'),
  docusign: plain('X-DocuSign-Signature-1', '', 'sha256', 'base64'),
  'docusign second': plain('X-DocuSign-Signature-2', '', 'sha256', 'base64'),
  line: plain('x-line-signature', '', 'sha256', 'base64'),
  heroku: plain('Heroku-Webhook-Hmac-SHA256', '', 'sha256', 'base64'),
  aftership: plain('aftership-hmac-sha256', '', 'sha256', 'base64'),
  fastspring: plain('X-FS-Signature', '', 'sha256', 'base64'),
  commerce_layer: plain('X-CommerceLayer-Signature', '', 'sha256', 'base64'),
  fourthwall: plain('X-Fourthwall-Hmac-SHA256', '', 'sha256', 'base64'),
  tally: plain('Tally-Signature', '', 'sha256', 'base64'),
  todoist: plain('X-Todoist-Hmac-SHA256', '', 'sha256', 'base64'),
  kontent_ai: plain('X-Kontent-ai-Signature', '', 'sha256', 'base64'),
  hookdeck: plain('x-hookdeck-signature', '', 'sha256', 'base64'),
  help_scout: plain('X-HelpScout-Signature', '', 'sha1', 'base64'),
  unit: plain('x-unit-signature', '', 'sha1', 'base64'),
  surveymonkey: plain('Sm-Signature', '', 'sha1', 'base64', 'client&secret'),
  notion: plain('X-Notion-Signature', 'sha256='),
  mollie: plain('X-Mollie-Signature', 'sha256='),
  nylas: plain('X-Nylas-Signature'),
  sentry: plain('Sentry-Hook-Signature'),
  dropbox: plain('X-Dropbox-Signature'),
  asana: plain('X-Hook-Signature'),
  clio: plain('X-Hook-Signature'),
  wrike: plain('X-Hook-Signature'),
  razorpay: plain('X-Razorpay-Signature'),
  gocardless: plain('Webhook-Signature'),
  lemon_squeezy: plain('X-Signature'),
  clickup: plain('X-Signature'),
  modern_treasury: plain('X-Signature'),
  getstream: plain('X-Signature'),
  checkout: plain('Cko-Signature'),
  cal_com: plain('X-Cal-Signature-256'),
  gitea: plain('X-Gitea-Signature'),
  forgejo: plain('X-Forgejo-Signature'),
  gogs: plain('X-Gogs-Signature'),
  smartsheet: plain('Smartsheet-Hmac-SHA256'),
  viber: plain('X-Viber-Content-Signature'),
  launchdarkly: plain('X-LD-Signature'),
  veriff: plain('x-hmac-signature'),
  onfido: plain('X-SHA2-Signature'),
  alchemy: plain('X-Alchemy-Signature'),
  attentive: plain('x-attentive-hmac-sha256'),
  dwolla: plain('X-Request-Signature-SHA-256'),
  gusto: plain('X-Gusto-Signature'),
  sonarqube: plain('X-Sonar-Webhook-HMAC-SHA256'),
  column: plain('Column-Signature'),
  checkr: plain('X-Checkr-Signature'),
  workable: plain('X-Workable-Signature'),
  uber: plain('X-Uber-Signature'),
  mailerlite: plain('Signature'),
  sendbird: plain('x-sendbird-signature'),
  coinbase_commerce: plain('X-CC-Webhook-Signature'),
  convoy: plain('X-Convoy-Signature'),
  'convoy sha512': plain('X-Convoy-Signature', '', 'sha512'),
  sumsub: plain('x-payload-digest'),
  'sumsub sha512': plain('x-payload-digest', '', 'sha512'),
  ashby: plain('Ashby-Signature', 'sha256='),
  cursor: plain('X-Webhook-Signature', 'sha256='),
  btcpay: plain('BTCPay-Sig', 'sha256='),
  npm: plain('x-npm-signature', 'sha256='),
  greenhouse: plain('Signature', 'sha256 '),
  easypost: plain('X-Hmac-Signature', 'hmac-sha256-hex='),
  toggl: plain('X-Webhook-Signature-256', 'sha256='),
  circleci: plain('circleci-signature', 'v1='),
  pagerduty: plain('X-PagerDuty-Signature', 'v1=0000,v1='),
  airtable: plain(
    'X-Airtable-Content-MAC',
    'hmac-sha256=',
    'sha256',
    'hex',
    'c2VjcmV0IGtleSBieXRlcw==',
    (it) => Buffer.from(it, 'base64'),
  ),
  microsoft_teams: plain('Authorization', 'HMAC ', 'sha256', 'base64', 'c2VjcmV0IGtleSBieXRlcw==', (it) =>
    Buffer.from(it, 'base64'),
  ),
  onfleet: plain('X-Onfleet-Signature', '', 'sha512', 'hex', 'a1b2c3d4e5f60718', (it) =>
    Buffer.from(it, 'hex'),
  ),
  squarespace: plain('Squarespace-Signature', '', 'sha256', 'hex', 'a1b2c3d4e5f60718', (it) =>
    Buffer.from(it, 'hex'),
  ),
  stripe: list('Stripe-Signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)},v0=abc`, 300),
  mux: list('Mux-Signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)}`, 300),
  tailscale: list('Tailscale-Webhook-Signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)}`, 300),
  langfuse: list('x-langfuse-signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)}`, 300),
  calendly: list('Calendly-Webhook-Signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)}`, 180),
  elevenlabs: list('ElevenLabs-Signature', (ms, mac) => `t=${s(ms)},v0=${mac(`${s(ms)}.BODY`)}`, 1800),
  paddle: list('Paddle-Signature', (ms, mac) => `ts=${s(ms)};h1=${mac(`${s(ms)}:BODY`)}`, 300),
  cloudflare_stream: list(
    'Webhook-Signature',
    (ms, mac) => `time=${s(ms)},sig1=${mac(`${s(ms)}.BODY`)}`,
    300,
  ),
  buildkite: list(
    'X-Buildkite-Signature',
    (ms, mac) => `timestamp=${s(ms)},signature=${mac(`${s(ms)}.BODY`)}`,
    300,
  ),
  workos: list('WorkOS-Signature', (ms, mac) => `t=${ms}, v1=${mac(`${ms}.BODY`)}`, 180),
  whereby: list('Whereby-Signature', (ms, mac) => `t=${ms},v1=${mac(`${ms}.BODY`)}`, 300),
  retell: list('x-retell-signature', (ms, mac) => `v=${ms},d=${mac(`BODY${ms}`)}`, 300),
  tiktok: list('TikTok-Signature', (ms, mac) => `t=${s(ms)},s=${mac(`${s(ms)}.BODY`)}`, 300),
  rootly: list('X-Rootly-Signature', (ms, mac) => `t=${s(ms)},v1=${mac(`${s(ms)}BODY`)}`, 300),
  ghost: list('X-Ghost-Signature', (ms, mac) => `sha256=${mac(`BODY${ms}`)}, t=${ms}`, 300),
  persona: list(
    'Persona-Signature',
    (ms, mac) => `t=${s(ms)},v1=00ff t=${s(ms)},v1=${mac(`${s(ms)}.BODY`)}`,
    300,
  ),
  paymongo: list('Paymongo-Signature', (ms, mac) => `t=${s(ms)},te=,li=${mac(`${s(ms)}.BODY`)}`),
  'paymongo test': list('Paymongo-Signature', (ms, mac) => `t=${s(ms)},te=${mac(`${s(ms)}.BODY`)},li=`),
  courier: list('courier-signature', (ms, mac) => `t=${ms},signature=${mac(`${ms}.BODY`)}`),
  recurly: list('recurly-signature', (ms, mac) => `${ms},00ff,${mac(`${ms}.BODY`)}`),
  infisical: list('x-infisical-signature', (ms, mac) => `t=${ms};${mac('BODY')}`),
  coinbase_cdp: list(
    'X-Hook0-Signature',
    (ms, mac) => `t=${s(ms)},h=x-other,v0=${mac(`${s(ms)}.BODY`)},v1=00`,
    300,
  ),
  slack: two('X-Slack-Signature', 'X-Slack-Request-Timestamp', s, (at, body) => `v0:${at}:${body}`, {
    prefix: 'v0=',
    staleAfterS: 300,
  }),
  zoom: two('x-zm-signature', 'x-zm-request-timestamp', s, (at, body) => `v0:${at}:${body}`, {
    prefix: 'v0=',
    staleAfterS: 7200,
  }),
  frame_io: two('X-Frameio-Signature', 'X-Frameio-Request-Timestamp', s, (at, body) => `v0:${at}:${body}`, {
    prefix: 'v0=',
    staleAfterS: 300,
  }),
  customer_io: two('X-CIO-Signature', 'X-CIO-Timestamp', s, (at, body) => `v0:${at}:${body}`, {
    staleAfterS: 3600,
  }),
  zendesk: two(
    'X-Zendesk-Webhook-Signature',
    'X-Zendesk-Webhook-Signature-Timestamp',
    zulu,
    (at, body) => at + body,
    { as: 'base64', staleAfterS: 300 },
  ),
  front: two('X-Front-Signature', 'X-Front-Request-Timestamp', String, (at, body) => `${at}:${body}`, {
    as: 'base64',
    staleAfterS: 300,
  }),
  webflow: two('X-Webflow-Signature', 'X-Webflow-Timestamp', String, (at, body) => `${at}:${body}`, {
    staleAfterS: 300,
  }),
  grafana: two(
    'X-Grafana-Alerting-Signature',
    'X-Grafana-Alerting-Timestamp',
    s,
    (at, body) => `${at}:${body}`,
    { staleAfterS: 300 },
  ),
  chatwoot: two('X-Chatwoot-Signature', 'X-Chatwoot-Timestamp', s, (at, body) => `${at}.${body}`, {
    prefix: 'sha256=',
    staleAfterS: 300,
  }),
  crisp: two('X-Crisp-Signature', 'X-Crisp-Request-Timestamp', String, (at, body) => `[${at};${body}]`, {
    staleAfterS: 300,
  }),
  airwallex: two('x-signature', 'x-timestamp', String, (at, body) => at + body, { staleAfterS: 300 }),
  bamboohr: two('X-BambooHR-Signature', 'X-BambooHR-Timestamp', s, (at, body) => body + at, {
    staleAfterS: 300,
  }),
  cashfree: two('x-webhook-signature', 'x-webhook-timestamp', String, (at, body) => at + body, {
    as: 'base64',
  }),
  close: two('close-sig-hash', 'close-sig-timestamp', s, (at, body) => at + body, {
    staleAfterS: 300,
    secret: 'a1b2c3d4e5f60718',
    key: (it) => Buffer.from(it, 'hex'),
  }),
  daily: two('X-Webhook-Signature', 'X-Webhook-Timestamp', s, (at, body) => `${at}.${body}`, {
    as: 'base64',
    secret: 'c2VjcmV0IGtleSBieXRlcw==',
    key: (it) => Buffer.from(it, 'base64'),
  }),
  box: two(
    'BOX-SIGNATURE-SECONDARY',
    'BOX-DELIVERY-TIMESTAMP',
    (ms) => `${new Date(ms - 7 * 3_600_000).toISOString().slice(0, 19)}-07:00`,
    (at, body) => body + at,
    { as: 'base64', staleAfterS: 600 },
  ),
  klaviyo: two(
    'Klaviyo-Signature',
    'Klaviyo-Timestamp',
    (ms) => new Date(ms).toUTCString(),
    (at, body) => body + at,
  ),
  metronome: two(
    'Metronome-Webhook-Signature',
    'Date',
    (ms) => new Date(ms).toUTCString(),
    (at, body) => `${at}\n${body}`,
  ),
  linkedin: {
    secret: 'client secret',
    make: ({ secret, body }) => ({
      headers: { 'X-LI-Signature': h('sha256', secret, `hmacsha256=${body}`) },
      body,
    }),
  },
  deel: {
    secret: 'signing key',
    make: ({ secret, body }) => ({
      headers: { 'x-deel-signature': h('sha256', secret, `POST${body}`) },
      body,
    }),
  },
  'recharge older': {
    secret: 'client secret',
    make: ({ secret, body }) => ({ headers: { 'X-Recharge-Hmac-Sha256': sha256(secret + body) }, body }),
  },
  recharge: {
    secret: 'client secret',
    staleAfterS: 48 * 3_600,
    make: ({ secret, ms, body }) => ({
      headers: {
        'X-Recharge-Webhook-Timestamp': s(ms),
        'X-Recharge-Webhook-Signature': `t=${s(ms)},v1=${h('sha256', secret, `${s(ms)}.${body}`)}`,
        'X-Recharge-Hmac-Sha256': sha256(secret + body),
      },
      body,
    }),
  },
  authorize_net: {
    secret: 'A1B2C3D4E5F60718',
    make: ({ secret, body }) => ({
      headers: {
        'X-ANET-Signature': `sha512=${h('sha512', Buffer.from(secret, 'hex'), body).toUpperCase()}`,
      },
      body,
    }),
  },
  'authorize_net text': {
    secret: 'A1B2C3D4E5F60718',
    make: ({ secret, body }) => ({
      headers: { 'X-ANET-Signature': `sha512=${h('sha512', secret, body).toUpperCase()}` },
      body,
    }),
  },
  pandadoc: {
    secret: 'shared key',
    make: ({ secret, body }) => ({ headers: {}, body, query: `?signature=${h('sha256', secret, body)}` }),
  },
  netlify: {
    secret: 'jws secret',
    make: ({ secret, body }) => ({
      headers: { 'X-Webhook-Signature': jwt({ iss: 'netlify', sha256: sha256(body) }, secret) },
      body,
    }),
  },
  vonage: {
    secret: 'signature secret',
    staleAfterS: 300,
    make: ({ secret, ms, body }) => ({
      headers: {
        Authorization: `Bearer ${jwt({ iat: Math.floor(ms / 1000), jti: 'x', iss: 'Vonage', payload_hash: sha256(body) }, secret)}`,
      },
      body,
    }),
  },
  tiktok_shop: {
    secret: '{"key":"app","secret":"hidden"}',
    make: ({ body }) => ({ headers: { Authorization: h('sha256', 'hidden', `app${body}`) }, body }),
  },
  flutterwave: {
    secret: 'secret hash',
    make: ({ secret, body }) => ({
      headers: { 'flutterwave-signature': h('sha256', secret, body, 'base64') },
      body,
    }),
  },
  'flutterwave v3': bearer('verif-hash'),
  cloudflare_notifications: bearer('cf-webhook-auth'),
  gitlab: bearer('X-Gitlab-Token'),
  telegram: bearer('X-Telegram-Bot-Api-Secret-Token'),
  xendit: bearer('x-callback-token'),
  asaas: bearer('asaas-access-token'),
  huggingface: bearer('X-Webhook-Secret'),
  ringcentral: bearer('Verification-Token'),
  bearer: bearer('Authorization', (it) => `Bearer ${it}`),
  'bearer lower-case': bearer('Authorization', (it) => `bearer ${it}`),
  wise: rsaSender('X-Signature-SHA256', 'sha256'),
  fireblocks: rsaSender('Fireblocks-Signature', 'sha512'),
  trello: {
    secret: 'oauth secret',
    make: ({ secret, body, url }) => ({
      headers: { 'X-Trello-Webhook': h('sha1', secret, body + url, 'base64') },
      body,
    }),
  },
  square: {
    secret: 'signature key',
    make: ({ secret, body, url }) => ({
      headers: { 'x-square-hmacsha256-signature': h('sha256', secret, url + body, 'base64') },
      body,
    }),
  },
  hubspot: {
    secret: 'client secret',
    staleAfterS: 300,
    make: ({ secret, ms, body, url }) => ({
      headers: {
        'X-HubSpot-Request-Timestamp': `${ms}`,
        'X-HubSpot-Signature-v3': h('sha256', secret, `POST${url}${body}${ms}`, 'base64'),
      },
      body,
    }),
  },
  twilio_form: {
    secret: 'auth token',
    body: 'Body=Hi&From=%2B1415&AccountSid=AC1',
    make: ({ secret, body, url }) => ({
      headers: { 'X-Twilio-Signature': h('sha1', secret, `${url}${formFields(body)}`, 'base64') },
      body,
    }),
  },
  'twilio_form rules': {
    secret: 'shared key',
    body: 'Body=Hi&From=%2B1415&AccountSid=AC1',
    make: ({ secret, body, url }) => ({
      headers: {
        'X-Twilio-Webhooks-Signature-Settings': 'key=k1,algorithm=HMAC_SHA256',
        'X-Twilio-Signature': h('sha256', secret, `${url}${formFields(body)}`, 'base64'),
      },
      body,
    }),
  },
  mailgun: {
    secret: 'signing key',
    whole: false,
    staleAfterS: 32_400,
    make: ({ secret, ms }) => ({
      headers: {},
      body: JSON.stringify({
        signature: { timestamp: s(ms), token: 'abc', signature: h('sha256', secret, `${s(ms)}abc`) },
        'event-data': { event: 'opened' },
      }),
    }),
  },
  lever: {
    secret: 'signature token',
    whole: false,
    make: ({ secret, ms }) => ({
      headers: {},
      body: JSON.stringify({
        event: 'candidateHired',
        triggeredAt: ms,
        token: 'abc',
        signature: h('sha256', secret, `abc${ms}`),
      }),
    }),
  },
  midtrans: {
    secret: 'SB-Mid-server-1',
    whole: false,
    make: ({ secret }) => ({
      headers: {},
      body: JSON.stringify({
        order_id: 'o1',
        status_code: '200',
        gross_amount: '10.00',
        signature_key: createHash('sha512').update(`o120010.00${secret}`).digest('hex'),
      }),
    }),
  },
  mercado_pago: {
    secret: 'secret signature',
    whole: false,
    make: ({ secret, ms, body }) => ({
      headers: {
        'x-request-id': 'req-1',
        'x-signature': `ts=${ms},v1=${h('sha256', secret, `id:abc123;request-id:req-1;ts:${ms};`)}`,
      },
      query: '?data.id=ABC123&type=payment',
      body,
    }),
  },
  dropbox_sign: {
    secret: 'api key',
    whole: false,
    make: ({ secret }) => ({
      headers: { 'Content-Type': 'multipart/form-data; boundary=x' },
      body: `--x\r\nContent-Disposition: form-data; name="json"\r\n\r\n${JSON.stringify({ event: { event_time: '1700000000', event_type: 'callback_test', event_hash: h('sha256', secret, '1700000000callback_test') } })}\r\n--x--\r\n`,
    }),
  },
};

function formFields(body: string): string {
  return [...new URLSearchParams(body)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => name + value)
    .join('');
}
