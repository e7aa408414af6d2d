/** Senders that sign only the bytes of the body: messages, customer data, files, incidents. */
import { elements, header, hmac } from './expressions.ts';
import { hmacBody } from './hmac-body.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import { isoTime, mac, numeric, uuid } from './signing.ts';

/** One header with a list of `v1=` signatures; while a secret is being changed there are several. */
function signatureList(spec: SenderSpec): Sender {
  const name = spec.headers[0] ?? '';
  return sender('A signature of the body', {
    expression: (s) =>
      `secure_compare_any('v1=' || ${hmac(s, 'payload', 'sha256', 'hex')}, ${elements(name, ',')})`,
    sign: ({ body, signingKey }) => ({ headers: { [name]: `v1=${mac('sha256', signingKey, 'hex', body)}` } }),
    ...spec,
  });
}

export const serviceSenders: readonly Sender[] = [
  hmacBody({
    id: 'segment',
    name: 'Segment (webhook destination)',
    algorithm: 'sha1',
    headers: ['X-Signature'],
    secret: { what: 'the shared secret', where: 'you choose it in the destination’s settings' },
    deliveryId: { fields: [['messageId']] },
    steps: [
      'Add the destination “Webhooks” to the source.',
      'Webhook URL: the URL of the table. Shared Secret: the text of the secret. Enable the destination.',
    ],
    example: ({ id, nowMs }) => ({
      type: 'track',
      event: 'Order Completed',
      messageId: `ajs-next-${id}`,
      timestamp: isoTime(nowMs),
      userId: 'u-583231',
      properties: { revenue: 39.95, currency: 'EUR' },
    }),
  }),
  hmacBody({
    id: 'intercom',
    name: 'Intercom',
    prefix: 'sha1=',
    algorithm: 'sha1',
    headers: ['X-Hub-Signature'],
    secret: { what: 'the app’s client secret', where: 'Developer Hub → the app → Basic information' },
    deliveryId: { fields: [['id']] },
    steps: [
      'In the Developer Hub open the app → Webhooks.',
      'Endpoint URL: the URL of the table. Choose the topics and save.',
    ],
    example: ({ id, nowMs }) => ({
      type: 'notification_event',
      id: `notif_${uuid(id)}`,
      topic: 'conversation.user.created',
      created_at: Math.floor(nowMs / 1000),
      data: { type: 'notification_event_data', item: { type: 'conversation', id: String(numeric(id)) } },
    }),
  }),
  hmacBody({
    id: 'meta',
    name: 'Meta (Facebook, Instagram, WhatsApp)',
    prefix: 'sha256=',
    headers: ['X-Hub-Signature-256'],
    secret: { what: 'the app secret', where: 'App settings → Basic' },
    steps: [
      'In the app’s dashboard open Webhooks (or the product’s configuration) and choose the object.',
      'Callback URL: the URL of the table. Verify it, then subscribe to the fields.',
    ],
    notes: [
      'Meta escapes all non-ASCII characters of the body before it signs and sends it: the bytes that arrive are the signed ones.',
    ],
    example: ({ id, nowMs }) => ({
      object: 'whatsapp_business_account',
      entry: [
        {
          id: String(numeric(id)),
          changes: [
            {
              field: 'messages',
              value: {
                messages: [{ id: `wamid.${id}`, timestamp: String(Math.floor(nowMs / 1000)), type: 'text' }],
              },
            },
          ],
        },
      ],
    }),
  }),
  hmacBody({
    id: 'dropbox',
    name: 'Dropbox',
    headers: ['X-Dropbox-Signature'],
    secret: { what: 'the app secret', where: 'App Console → the app → Settings' },
    steps: ['Open the App Console → the app → Settings → Webhooks and add the URL of the table.'],
    notes: ['A notification names the accounts that changed; fetch the changes through the API.'],
    example: ({ id }) => ({
      list_folder: { accounts: [`dbid:${id}`] },
      delta: { users: [numeric(id)] },
    }),
  }),
  hmacBody({
    id: 'docusign',
    name: 'DocuSign Connect',
    encoding: 'base64',
    headers: ['X-DocuSign-Signature-1', 'X-DocuSign-Signature-2'],
    secret: { what: 'a Connect key', where: 'Settings → Connect → Connect Keys' },
    steps: [
      'Open Settings → Connect → Connect Keys and add a key.',
      'Add a Connect configuration: the URL of the table, format JSON, “Include HMAC Signature” on.',
    ],
    notes: [
      'DocuSign sends one numbered header for each active key; the check reads the first two, so that a key can be changed.',
    ],
    expression: (s) =>
      [1, 2]
        .map(
          (n) =>
            `secure_compare(${header(`x-docusign-signature-${n}`)}, ${hmac(s, 'payload', 'sha256', 'base64')})`,
        )
        .join('\n  OR '),
    example: ({ id, nowMs }) => ({
      event: 'envelope-completed',
      generatedDateTime: isoTime(nowMs),
      data: { accountId: uuid(id), envelopeId: uuid(id) },
    }),
  }),
  hmacBody({
    id: 'x',
    name: 'X (Account Activity)',
    prefix: 'sha256=',
    encoding: 'base64',
    headers: ['x-twitter-webhooks-signature'],
    secret: { what: 'the app’s consumer secret', where: 'developer portal → the app → Keys and tokens' },
    steps: ['Register webhooks through the API with the URL of the table, and subscribe users to it.'],
    notes: ['The URL must not contain a port: X calls 443.'],
    example: ({ id, nowMs }) => ({
      for_user_id: '2244994945',
      tweet_create_events: [{ id_str: String(numeric(id)), text: 'Zoë ☕', timestamp_ms: String(nowMs) }],
    }),
  }),
  hmacBody({
    id: 'line',
    name: 'LINE',
    encoding: 'base64',
    headers: ['x-line-signature'],
    secret: { what: 'the channel secret', where: 'LINE Developers Console → the channel → Basic settings' },
    deliveryId: { ofEach: 'webhookEventId', what: 'event', at: ['events'] },
    steps: [
      'Open the channel’s Messaging API settings in the LINE Developers Console.',
      'Webhook URL: the URL of the table. Verify, and switch “Use webhook” on.',
    ],
    example: ({ id, nowMs }) => ({
      destination: 'U8e742f61d673b39c7fff3cecb7536ef0',
      events: [
        {
          type: 'message',
          webhookEventId: id,
          timestamp: nowMs,
          message: { type: 'text', text: 'こんにちは' },
        },
      ],
    }),
  }),
  hmacBody({
    id: 'pusher',
    secretForm: forms.keyAndSecret,
    name: 'Pusher Channels',
    headers: ['X-Pusher-Signature', 'X-Pusher-Key'],
    secret: { what: 'JSON that contains both: `{"key": "…", "secret": "…"}`', where: 'the app’s App Keys' },
    steps: ['Open the app → Webhooks, add the URL of the table and choose the event type.'],
    expression: (s) =>
      `secure_compare(${header('X-Pusher-Key')}, ${s}::jsonb->>'key')\n` +
      `  AND secure_compare(${header('X-Pusher-Signature')}, ${hmac(`${s}::jsonb->>'secret'`, 'payload', 'sha256', 'hex')})`,
    sign: ({ body, signingKey }) => {
      const { key, secret } = JSON.parse(signingKey) as { key: string; secret: string };
      return { headers: { 'X-Pusher-Key': key, 'X-Pusher-Signature': mac('sha256', secret, 'hex', body) } };
    },
    makeSecret: (random) => {
      const secret = JSON.stringify({ key: random(10).toString('hex'), secret: random(10).toString('hex') });
      return { secret, signingKey: secret };
    },
    example: ({ id, nowMs }) => ({
      time_ms: nowMs,
      events: [{ name: 'channel_occupied', channel: `orders-${id.slice(0, 8)}` }],
    }),
  }),
  hmacBody({
    id: 'convoy',
    name: 'Convoy (SHA-512, hexadecimal)',
    algorithm: 'sha512',
    headers: ['X-Convoy-Signature'],
    secret: { what: 'the endpoint’s secret', where: 'in the endpoint’s settings' },
    steps: [
      'Add the URL of the table as an endpoint of the project; simple signatures, SHA-512, hexadecimal.',
    ],
    example: ({ id }) => ({ event_type: 'invoice.paid', data: { id, amount: 1999 } }),
  }),
  signatureList({
    id: 'pagerduty',
    name: 'PagerDuty (webhooks v3)',
    headers: ['X-PagerDuty-Signature'],
    secret: { what: 'the subscription’s secret', where: 'shown once when the subscription is created' },
    deliveryId: { fields: [['event', 'id']] },
    steps: [
      'Open Integrations → Generic Webhooks (v3) → New Webhook.',
      'Webhook URL: the URL of the table. Choose scope and events, add it, and copy the signing secret.',
    ],
    notes: [
      'While a secret is being changed, the header contains several signatures; any of them may match.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Webhook-Id': uuid(id) }),
    example: ({ id, nowMs }) => ({
      event: {
        id: id.toUpperCase(),
        event_type: 'incident.triggered',
        occurred_at: isoTime(nowMs),
        data: { id: 'PGR0VU2', type: 'incident', title: 'Disk full on café-1', urgency: 'high' },
      },
    }),
  }),
  signatureList({
    id: 'circleci',
    name: 'CircleCI',
    headers: ['circleci-signature'],
    secret: { what: 'the secret token', where: 'you choose it in the webhook’s form' },
    deliveryId: { fields: [['id']] },
    steps: ['Open Project Settings → Webhooks → Add Webhook: the URL of the table and the secret token.'],
    eventHeaders: () => ({ 'circleci-event-type': 'workflow-completed' }),
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      type: 'workflow-completed',
      happened_at: isoTime(nowMs),
      workflow: { name: 'build', status: 'success' },
    }),
  }),
];
