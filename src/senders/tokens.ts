/** Senders that sign nothing and send a shared text instead: only as good as the secrecy of the connection. */
import { field } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, sender } from './sender.ts';
import { isoTime, numeric, uuid } from './signing.ts';
import { basicSecret, chosen, notSigned, tokenHeader } from './token-forms.ts';

export const tokenSenders: readonly Sender[] = [
  tokenHeader('plain', {
    id: 'gitlab',
    name: 'GitLab (secret token)',
    headers: ['X-Gitlab-Token'],
    secret: chosen('the text you type as the secret token'),
    deliveryId: { header: 'X-Gitlab-Event-UUID', or: 'Idempotency-Key' },
    steps: [
      'Open the project or group, Settings → Webhooks → Add new webhook.',
      'URL: the URL of the table. Secret token: the text of the secret. Choose the triggers and save.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Event-UUID': uuid(id) }),
    example: ({ id }) => ({ object_kind: 'push', after: id, project: { id: numeric(id), name: 'café' } }),
  }),
  tokenHeader('plain', {
    id: 'telegram',
    secretForm: forms.telegram,
    name: 'Telegram bots',
    headers: ['X-Telegram-Bot-Api-Secret-Token'],
    secret: chosen('1 to 256 characters out of `A-Z a-z 0-9 _ -`'),
    deliveryId: { fields: [['update_id']] },
    steps: [
      'Call the bot’s `setWebhook` with `url`, the URL of the table, and `secret_token`, the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({
      update_id: numeric(id),
      message: {
        message_id: 7,
        date: Math.floor(nowMs / 1000),
        chat: { id: 583231, type: 'private' },
        text: 'Привет',
      },
    }),
  }),
  tokenHeader('plain', {
    id: 'okta',
    name: 'Okta event and inline hooks',
    headers: ['Authorization'],
    secret: chosen(),
    deliveryId: { fields: [['eventId']] },
    steps: [
      'In the admin console open Workflow → Event Hooks → Create Event Hook with the URL of the table.',
      'Authentication field: `Authorization`. Authentication secret: the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({
      eventType: 'com.okta.event_hook',
      eventId: uuid(id),
      eventTime: isoTime(nowMs),
      data: { events: [{ eventType: 'user.lifecycle.create', displayMessage: 'Create Zoë' }] },
    }),
  }),
  tokenHeader('bearer', {
    id: 'auth0',
    name: 'Auth0 log and event streams',
    headers: ['Authorization'],
    secret: chosen(),
    deliveryId: { ofEach: 'log_id', what: 'log entry' },
    steps: [
      'Open Monitoring → Streams → Create Stream → Custom Webhook with the URL of the table.',
      'Authorization token: `Bearer ` and the text of the secret. Content format: JSON Array.',
    ],
    example: ({ id, nowMs }) => [
      { log_id: id, data: { date: isoTime(nowMs), type: 's', user_name: 'zoe@example.com' } },
    ],
  }),
  tokenHeader('bearer', {
    id: 'aws_eventbridge',
    name: 'AWS EventBridge API destinations',
    headers: ['Authorization'],
    secret: chosen(),
    deliveryId: { fields: [['id']] },
    steps: [
      'Create a connection with API key: name `Authorization`, value `Bearer ` and the text of the secret.',
      'Create an API destination with that connection, method POST and the URL of the table; use it as a rule’s target.',
    ],
    example: ({ id, nowMs }) => ({
      version: '0',
      id: uuid(id),
      'detail-type': 'Object Created',
      source: 'aws.s3',
      time: isoTime(nowMs),
      detail: { bucket: { name: 'shop' } },
    }),
  }),
  tokenHeader('plain', {
    id: 'rudderstack',
    name: 'RudderStack (webhook destination)',
    headers: ['Authorization'],
    secret: chosen(),
    deliveryId: { fields: [['messageId']] },
    steps: [
      'Add a Webhook destination with the URL of the table and, under Headers, `Authorization` with the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({
      type: 'track',
      event: 'Order Completed',
      messageId: uuid(id),
      originalTimestamp: isoTime(nowMs),
    }),
  }),
  tokenHeader('plain', {
    id: 'hubspot_api_key',
    name: 'HubSpot workflows (API key in a header)',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'In a workflow add “Send a webhook”: method POST and the URL of the table.',
      'Authentication: API key in the request header, name `Authorization`, value the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({
      vid: numeric(id),
      properties: { firstname: { value: 'Zoë' } },
      addedAt: nowMs,
    }),
  }),
  tokenHeader('basic', {
    id: 'datadog',
    name: 'Datadog monitors',
    headers: ['Authorization'],
    secret: basicSecret,
    steps: [
      'Open Integrations → Webhooks → New with the URL of the table and a payload in JSON.',
      'Custom headers: `{"Authorization": "Basic …"}`, with the base64 of `user:password`.',
    ],
    example: ({ id, nowMs }) => ({
      id,
      last_updated: String(nowMs),
      event_type: 'metric_alert_monitor',
      title: 'CPU',
    }),
  }),
  tokenHeader('basic', {
    id: 'chargebee',
    name: 'Chargebee',
    headers: ['Authorization'],
    secret: basicSecret,
    deliveryId: { fields: [['id']] },
    steps: [
      'Open Settings → Configure Chargebee → Webhooks → Add Webhook with the URL of the table.',
      'Switch “Protect webhook URL with basic authentication” on and enter user and password.',
    ],
    example: ({ id, nowMs }) => ({
      id: `ev_${id.slice(0, 20)}`,
      occurred_at: Math.floor(nowMs / 1000),
      event_type: 'subscription_created',
      content: { subscription: { id: 'cb_1', status: 'active' } },
    }),
  }),
  tokenHeader('basic', {
    id: 'postmark',
    name: 'Postmark',
    headers: ['Authorization'],
    secret: basicSecret,
    steps: [
      'Open the message stream → Webhooks → Add webhook with the URL of the table and the basic auth credentials.',
    ],
    example: ({ id, nowMs }) => ({
      RecordType: 'Delivery',
      MessageID: uuid(id),
      Recipient: 'zoe@example.com',
      DeliveredAt: isoTime(nowMs),
    }),
    notes: [
      'A message has one `MessageID` for all its recipients, and is opened and clicked many times: nothing in an event tells it from its repetition, so a repeated event is stored again.',
    ],
  }),
  tokenHeader('plain', {
    id: 'bigcommerce',
    name: 'BigCommerce',
    headers: ['Authorization'],
    secret: chosen(),
    deliveryId: { fields: [['hash']] },
    steps: [
      'Create webhooks through the API: `destination` is the URL of the table, `headers` contains `Authorization` with the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({
      scope: 'store/order/created',
      store_id: '1025646',
      data: { type: 'order', id: numeric(id) },
      hash: id,
      created_at: Math.floor(nowMs / 1000),
    }),
  }),
  tokenHeader('plain', {
    id: 'supabase_database',
    name: 'Supabase database webhooks',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'Open Database → Webhooks → Create: POST, the URL of the table, and a header `Authorization` with the text of the secret.',
    ],
    example: ({ id }) => ({
      type: 'INSERT',
      table: 'orders',
      schema: 'public',
      record: { id: uuid(id) },
      old_record: null,
    }),
  }),
  tokenHeader('bearer', {
    id: 'bearer',
    name: 'Any sender with a bearer token',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'In the sender’s webhook settings enter the URL of the table and the token, or a header `Authorization: Bearer …`.',
    ],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
  tokenHeader('basic', {
    id: 'basic_auth',
    name: 'Any sender with basic authentication',
    headers: ['Authorization'],
    secret: basicSecret,
    steps: ['In the sender’s webhook settings enter the URL of the table, user and password.'],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
  tokenHeader('plain', {
    id: 'api_key',
    name: 'Any sender with a key in the header X-API-Key',
    headers: ['X-API-Key'],
    secret: chosen(),
    steps: [
      'In the sender’s webhook settings enter the URL of the table and a header `X-API-Key` with the text of the secret.',
    ],
    example: ({ id, nowMs }) => ({ id: uuid(id), type: 'order.created', at: isoTime(nowMs) }),
  }),
  sender('A token', {
    id: 'figma',
    name: 'Figma',
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: chosen('the passcode'),
    steps: [
      'Create webhooks through the API: `POST /v2/webhooks` with `endpoint`, the URL of the table, and `passcode`.',
    ],
    notes: [
      'The passcode is in the body and therefore in the table: anyone who may read the table can read it.',
      notSigned,
    ],
    expression: (s) => `secure_compare(${field('passcode')}, ${s})`,
    sign: ({ body, signingKey }) => {
      const event = JSON.parse(body.toString()) as object;
      return { headers: {}, body: Buffer.from(JSON.stringify({ ...event, passcode: signingKey })) };
    },
    example: ({ id, nowMs }) => ({
      event_type: 'FILE_UPDATE',
      file_key: id.slice(0, 22),
      file_name: 'Café',
      timestamp: isoTime(nowMs),
      webhook_id: '22',
    }),
  }),
];
