/** Senders that sign a timestamp and the body: both in one header that is a list of `name=value`. */
import { base64url, element, elements, fresh, freshMs, hmac, utf8 } from './expressions.ts';
import { type Sender, type SenderSpec, sender, textSecret } from './sender.ts';
import { isoTime, mac, numeric, seconds, uuid } from './signing.ts';

interface ListSpec extends SenderSpec {
  /** The names of the timestamp and of the signature. */
  readonly time: string;
  readonly version: string;
  readonly separator?: ',' | ';';
  /** The separator between the timestamp and the body in what is signed. */
  readonly join?: '.' | ':';
  readonly milliseconds?: boolean;
  readonly encoding?: 'hex' | 'base64url';
  /** Only signatures that are too old are refused, not those from a clock that is ahead. */
  readonly oneSided?: boolean;
}

function timestampedList(spec: ListSpec): Sender {
  const {
    time,
    version,
    separator = ',',
    join = '.',
    milliseconds = false,
    encoding = 'hex',
    oneSided,
    ...rest
  } = spec;
  const name = spec.headers[0] ?? '';
  const tolerance = spec.toleranceS ?? null;
  const at = element(name, time, separator);
  const age = oneSided
    ? `extract(epoch from now()) - ${at}::bigint <= ${tolerance}`
    : (milliseconds ? freshMs : fresh)(at, tolerance ?? 0);
  return sender('A signature of the body and a timestamp', {
    expression: (s) => {
      const signed = `${utf8(`${at} || '${join}'`)} || payload`;
      const digest =
        encoding === 'hex'
          ? hmac(s, signed, 'sha256', 'hex')
          : base64url(hmac(s, signed, 'sha256', 'base64'));
      const compared = `secure_compare_any('${version}=' || ${digest},\n    ${elements(name, separator)})`;
      return tolerance === null ? compared : `${age}\n  AND ${compared}`;
    },
    sign: ({ body, nowMs, signingKey }) => {
      const stamp = milliseconds ? String(nowMs) : seconds(nowMs);
      const signature = mac('sha256', signingKey, encoding, `${stamp}${join}`, body);
      return { headers: { [name]: `${time}=${stamp}${separator}${version}=${signature}` } };
    },
    ...rest,
  });
}

export const timestampedSenders: readonly Sender[] = [
  timestampedList({
    id: 'stripe',
    name: 'Stripe',
    time: 't',
    version: 'v1',
    toleranceS: 300,
    headers: ['Stripe-Signature'],
    secret: {
      what: 'the signing secret, the whole text `whsec_…`',
      where: 'Workbench → Webhooks → the endpoint',
    },
    // Stripe's API reference: `pending_webhooks` counts the endpoints that have not accepted the event yet, so a repetition has another number.
    deliveryId: { fields: [['id']], stays: [['type'], ['data']] },
    steps: [
      'Open Workbench (or Developers) → Webhooks → Add destination.',
      'Choose the events and enter the URL of the table.',
      'Open the destination and reveal its signing secret.',
    ],
    notes: ['While a secret is being rolled, Stripe sends one `v1` for each of the two; either may match.'],
    makeSecret: textSecret('whsec_', 16),
    example: ({ id, nowMs }) => ({
      id: `evt_${id.slice(0, 24)}`,
      object: 'event',
      created: Math.floor(nowMs / 1000),
      type: 'invoice.paid',
      livemode: false,
      data: { object: { id: 'in_1MtHbELkdIwHu7ix', object: 'invoice', amount_paid: 1999, currency: 'eur' } },
    }),
  }),
  timestampedList({
    id: 'mux',
    name: 'Mux',
    time: 't',
    version: 'v1',
    toleranceS: 300,
    headers: ['Mux-Signature'],
    secret: { what: 'the webhook’s signing secret', where: 'Settings → Webhooks → Show signing secret' },
    deliveryId: { fields: [['id']] },
    steps: [
      'Open Settings → Webhooks → Create new webhook with the URL of the table, and show its signing secret.',
    ],
    example: ({ id, nowMs }) => ({
      type: 'video.asset.ready',
      id: uuid(id),
      created_at: isoTime(nowMs),
      data: { id: 'SqQnqz6s5MBuXGvJaUWdXuXM93J9Q2yv', status: 'ready', duration: 23.857167 },
    }),
  }),
  timestampedList({
    id: 'paddle',
    name: 'Paddle (Billing)',
    time: 'ts',
    version: 'h1',
    separator: ';',
    join: ':',
    toleranceS: 5,
    oneSided: true,
    headers: ['Paddle-Signature'],
    secret: {
      what: 'the endpoint’s secret key (`pdl_ntfset_…`)',
      where: 'Developer tools → Notifications → Edit destination',
    },
    deliveryId: { fields: [['event_id']] },
    steps: [
      'Open Developer tools → Notifications → New destination, type URL, with the URL of the table.',
      'Choose the events, save, and copy the secret key from the destination.',
    ],
    notes: ['Paddle’s own libraries allow 5 seconds, and so does this check: keep the clock correct.'],
    makeSecret: textSecret('pdl_ntfset_', 20),
    example: ({ id, nowMs }) => ({
      event_id: `evt_${id.slice(0, 26)}`,
      event_type: 'transaction.completed',
      occurred_at: isoTime(nowMs),
      data: { id: 'txn_01hv8wptq8987qeep44cyrewp9', status: 'completed', currency_code: 'EUR' },
    }),
  }),
  timestampedList({
    id: 'calendly',
    name: 'Calendly',
    time: 't',
    version: 'v1',
    toleranceS: 180,
    headers: ['Calendly-Webhook-Signature'],
    secret: { what: 'the signing key', where: 'you choose it when you create the subscription' },
    steps: [
      'Create subscriptions through the API: `POST /webhook_subscriptions` with the URL of the table and `signing_key`.',
    ],
    example: ({ id, nowMs }) => ({
      event: 'invitee.created',
      created_at: isoTime(nowMs),
      payload: { uri: `https://api.calendly.com/invitees/${id}`, name: 'Zoë', email: 'zoe@example.com' },
    }),
  }),
  timestampedList({
    id: 'workos',
    name: 'WorkOS',
    time: 't',
    version: 'v1',
    milliseconds: true,
    toleranceS: 180,
    headers: ['WorkOS-Signature'],
    secret: { what: 'the endpoint’s secret', where: 'Dashboard → Webhooks → the endpoint' },
    deliveryId: { fields: [['id']] },
    steps: [
      'Open Webhooks in the dashboard, create an endpoint with the URL of the table, and copy its secret.',
    ],
    example: ({ id, nowMs }) => ({
      id: `event_${id.slice(0, 26)}`,
      event: 'dsync.user.created',
      created_at: isoTime(nowMs),
      data: { id: 'directory_user_01E1JG7J09H96KYP8HM9B0G5SJ', state: 'active' },
    }),
  }),
  timestampedList({
    id: 'cloudflare_stream',
    name: 'Cloudflare Stream',
    time: 'time',
    version: 'sig1',
    toleranceS: 300,
    headers: ['Webhook-Signature'],
    secret: {
      what: 'the `secret` from the answer',
      where: 'in the answer of the call that sets the webhook',
    },
    steps: [
      'Set the webhook through the API: `PUT /accounts/…/stream/webhook` with `notificationUrl`, the URL of the table.',
    ],
    example: ({ id, nowMs }) => ({
      uid: id,
      readyToStream: true,
      status: { state: 'ready' },
      meta: { name: 'café.mp4' },
      modified: isoTime(nowMs),
    }),
  }),
  timestampedList({
    id: 'elevenlabs',
    name: 'ElevenLabs',
    time: 't',
    version: 'v0',
    toleranceS: 1800,
    headers: ['ElevenLabs-Signature'],
    secret: { what: 'the webhook’s secret', where: 'shown when the webhook is created' },
    steps: [
      'Create the webhook in the workspace’s settings with the URL of the table and HMAC, and copy the secret.',
    ],
    makeSecret: textSecret('wsec_', 32),
    example: ({ id, nowMs }) => ({
      type: 'post_call_transcription',
      event_timestamp: Math.floor(nowMs / 1000),
      data: { conversation_id: id, status: 'done', transcript: [{ role: 'agent', message: 'Hallo, Zoë' }] },
    }),
  }),
  timestampedList({
    id: 'buildkite',
    name: 'Buildkite (signature)',
    time: 'timestamp',
    version: 'signature',
    toleranceS: 300,
    headers: ['X-Buildkite-Signature'],
    secret: { what: 'the webhook’s token', where: 'in the notification service’s settings' },
    steps: [
      'Open the organisation’s Settings → Notification Services → Add → Webhook.',
      'Webhook URL: the URL of the table. Token: send an HMAC signature. Choose the events.',
    ],
    eventHeaders: () => ({ 'X-Buildkite-Event': 'build.finished' }),
    example: ({ id }) => ({
      event: 'build.finished',
      build: { id: uuid(id), number: numeric(id), state: 'passed', branch: 'main' },
      pipeline: { slug: 'shop' },
    }),
  }),
  timestampedList({
    id: 'coinbase_cdp',
    name: 'Coinbase Developer Platform',
    time: 't',
    version: 'v0',
    toleranceS: 300,
    headers: ['X-Hook0-Signature'],
    secret: {
      what: 'the subscription’s secret',
      where: '`metadata.secret` in the answer of the call that creates it',
    },
    steps: ['Create the subscription through the API with the URL of the table as its target.'],
    notes: [
      'The header also has a `v1` that covers some headers; the check uses the `v0`, which covers time and body.',
    ],
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      type: 'onchain.activity.detected',
      createdAt: isoTime(nowMs),
      data: { network: 'base-mainnet', value: '1250000' },
    }),
  }),
  timestampedList({
    id: 'sanity',
    name: 'Sanity (GROQ webhooks)',
    time: 't',
    version: 'v1',
    milliseconds: true,
    encoding: 'base64url',
    headers: ['sanity-webhook-signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    deliveryId: { header: 'idempotency-key' },
    steps: [
      'On manage.sanity.io open the project → API → Webhooks → Create webhook.',
      'URL: the URL of the table. Choose trigger, filter and projection; enter the secret.',
    ],
    notes: [
      'Sanity specifies no tolerance, so the age is not checked: the timestamp is signed, but an old request is accepted again.',
    ],
    eventHeaders: ({ id }) => ({ 'idempotency-key': id }),
    example: ({ id, nowMs }) => ({
      _id: id,
      _type: 'product',
      _updatedAt: isoTime(nowMs),
      title: 'Café mug',
    }),
  }),
];
