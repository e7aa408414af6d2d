/** Senders that sign nothing and send a shared text: in a header of their own, or in the body. */
import { body, field } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, same, sender } from './sender.ts';
import { isoTime, numeric, uuid } from './signing.ts';
import { chosen, notSigned, tokenHeader } from './token-forms.ts';

interface BodySpec extends Omit<SenderSpec, 'headers'> {
  /** The text in the document, as an expression. */
  readonly value: string;
  /** The document with the token in it. */
  readonly put: (document: Record<string, unknown>, key: string) => unknown;
}

/** A token in the document. */
function tokenInBody({ value, put, ...spec }: BodySpec): Sender {
  return sender('A token', {
    headers: [],
    signatureHeader: null,
    signsBody: false,
    expression: (s) => `secure_compare(${value}, ${s})`,
    sign: ({ body, signingKey }) => {
      const document = JSON.parse(body.toString()) as Record<string, unknown>;
      return { headers: {}, body: Buffer.from(JSON.stringify(put(document, signingKey))) };
    },
    ...spec,
    notes: [
      ...(spec.notes ?? []),
      'The token is in the body and therefore in the table: anyone who may read the table can read it.',
      notSigned,
    ],
  });
}

interface Notification {
  readonly value: readonly object[];
}

const clientStates = (document: Record<string, unknown>, clientState: string) => ({
  value: (document as unknown as Notification).value.map((item) => ({ ...item, clientState })),
});

const clientState = {
  value: field('value,0,clientState'),
  put: clientStates,
  notes: [
    'One request may contain several notifications; only the first one’s `clientState` is compared, because anyone who knows it could write it into all of them.',
  ],
};

export const tokenServiceSenders: readonly Sender[] = [
  tokenInBody({
    id: 'microsoft_graph',
    name: 'Microsoft Graph change notifications',
    secret: chosen('the text of `clientState`, at most 128 characters'),
    steps: [
      'Create subscriptions through the API: `POST /subscriptions` with `notificationUrl`, the URL of the table, `lifecycleNotificationUrl`, the same, and `clientState`, the text of the secret. Renew them before they end.',
    ],
    source: 'Microsoft’s documentation of Graph, “change notifications through webhooks”',
    ...clientState,
    notes: [
      ...clientState.notes,
      'The tokens of rich notifications (`validationTokens`) are not checked, nor is encrypted content decrypted.',
    ],
    makeSecret: (random) => same(random(24).toString('base64url')),
    example: ({ id, nowMs }) => ({
      value: [
        {
          subscriptionId: uuid(id),
          subscriptionExpirationDateTime: isoTime(nowMs + 86_400_000),
          changeType: 'created',
          resource: `Users/${uuid(id)}/Messages/${id}`,
          tenantId: uuid(id),
        },
      ],
    }),
  }),
  tokenInBody({
    id: 'sharepoint',
    name: 'SharePoint lists',
    secret: chosen('the text of `clientState`'),
    steps: [
      'Create subscriptions through the API: `POST /_api/web/lists(…)/subscriptions` with `notificationUrl`, the URL of the table, and `clientState`. Renew them before they end.',
    ],
    source: 'Microsoft’s documentation of SharePoint, “Overview of SharePoint webhooks”',
    ...clientState,
    example: ({ id, nowMs }) => ({
      value: [
        {
          subscriptionId: uuid(id),
          expirationDateTime: isoTime(nowMs + 86_400_000),
          resource: uuid(id),
          siteUrl: '/',
          webId: uuid(id),
        },
      ],
    }),
  }),
  tokenInBody({
    id: 'strava',
    name: 'Strava',
    secretForm: forms.digits,
    secret: { what: 'the id of the subscription', where: 'in the answer of the call that subscribes' },
    value: field('subscription_id'),
    put: (document, key) => ({ ...document, subscription_id: Number(key) }),
    steps: [
      'Create the table first, with `1` as its secret: Strava calls it while the subscription is created.',
      'Subscribe through the API: `POST /push_subscriptions` with `callback_url`, the URL of the table, and `verify_token`. Put the `id` from the answer into the secret with `ALTER SECRET`.',
    ],
    notes: [
      'Strava signs nothing and sends no token with its events. Only the subscription’s number identifies them, and it can be guessed: fetch what an event names through the API before you rely on it.',
    ],
    source: 'Strava’s page about webhooks, by way of public receivers',
    makeSecret: (random) => same(String(random(4).readUInt32BE())),
    example: ({ id, nowMs }) => ({
      aspect_type: 'create',
      event_time: Math.floor(nowMs / 1000),
      object_id: numeric(id),
      object_type: 'activity',
      owner_id: 134815,
      updates: {},
    }),
  }),
  tokenInBody({
    id: 'lark',
    name: 'Lark and Feishu',
    secret: { what: 'the verification token', where: 'the app → Events & callbacks → Encryption strategy' },
    value: `coalesce(${field('header,token')}, ${body}->>'token')`,
    put: (document, key) => ({
      ...document,
      header: { ...(document['header'] as object | undefined), token: key },
    }),
    deliveryId: { fields: [['header', 'event_id']] },
    steps: [
      'Open the app → Events & callbacks, and leave the encrypt key empty: encrypted requests cannot be checked.',
      'Request URL: the URL of the table. Save, and subscribe to the events.',
    ],
    source: 'Lark’s own Node package',
    example: ({ id, nowMs }) => ({
      schema: '2.0',
      header: {
        event_id: id,
        event_type: 'im.message.receive_v1',
        create_time: String(nowMs),
        app_id: 'cli_a1b2c3d4e5f6',
      },
      event: { message: { message_id: `om_${id}`, content: '{"text":"你好"}' } },
    }),
  }),
  tokenInBody({
    id: 'vk',
    name: 'VK Callback API',
    secret: chosen('the secret key'),
    value: field('secret'),
    put: (document, secret) => ({ ...document, secret }),
    deliveryId: { fields: [['event_id']] },
    steps: [
      'Open the community’s Management → API usage → Callback API: the URL of the table and the secret key. Save the key first.',
      'Confirm the address, and choose the events.',
    ],
    notes: ['VK repeats every event that is not answered with `ok`.'],
    source: 'the package vk-io',
    example: ({ id }) => ({
      type: 'message_new',
      group_id: 1,
      event_id: id,
      v: '5.199',
      object: { message: { id: numeric(id), text: 'Привет' } },
    }),
  }),
  tokenHeader('plain', {
    id: 'acrobat_sign',
    name: 'Adobe Acrobat Sign',
    headers: ['X-AdobeSign-ClientId'],
    secret: {
      what: 'the client id of the application',
      where: 'Account → Acrobat Sign API → API Applications',
    },
    deliveryId: { fields: [['webhookNotificationId']] },
    steps: ['Open Account → Webhooks → + with the URL of the table, the scope and the events.'],
    notes: [
      'A client id is no secret among those who work with the application: a weak check, but all there is.',
    ],
    source: 'Adobe’s overview of webhooks, and public receivers',
    example: ({ id, nowMs }) => ({
      webhookId: uuid(id),
      webhookNotificationId: uuid(id),
      event: 'AGREEMENT_ACTION_COMPLETED',
      eventDate: isoTime(nowMs),
      agreement: { id: `CBJCHBCAABAA${id}`, name: 'Vertrag', status: 'SIGNED' },
    }),
  }),
  tokenHeader('plain', {
    id: 'ringcentral',
    name: 'RingCentral',
    headers: ['Validation-Token'],
    secret: chosen('the text of `deliveryMode.validationToken`'),
    deliveryId: { fields: [['uuid']] },
    steps: [
      'Create subscriptions through the API: `POST /subscription` with `deliveryMode`: `transportType` `WebHook`, `address` the URL of the table, and `validationToken`, the text of the secret. Renew them before they end.',
    ],
    source: 'RingCentral’s page “Creating webhooks”',
    makeSecret: (random) => same(random(24).toString('base64url')),
    example: ({ id, nowMs }) => ({
      uuid: uuid(id),
      event: '/restapi/v1.0/account/~/extension/~/message-store/instant?type=SMS',
      timestamp: isoTime(nowMs),
      subscriptionId: uuid(id),
      body: { id: String(numeric(id)), subject: 'Grüße', direction: 'Inbound' },
    }),
  }),
  tokenHeader('plain', {
    id: 'google_channels',
    name: 'Google Drive and Calendar (channels)',
    headers: ['X-Goog-Channel-Token'],
    secret: chosen('the text of `token`, at most 256 characters'),
    format: 'text',
    contentType: 'application/json; utf-8',
    steps: [
      'Create channels through the API: `files.watch`, `changes.watch` or `events.watch` with `address`, the URL of the table, and `token`, the text of the secret. Create a new one before it ends.',
    ],
    notes: [
      "The bodies are empty and everything is in the headers: clauses such as `INCLUDE HEADER 'x-goog-resource-uri' AS resource_uri`, before WITH, turn them into columns.",
    ],
    source: 'general knowledge of Google’s pages about push notifications',
    eventHeaders: ({ id }) => ({
      'X-Goog-Channel-ID': uuid(id),
      'X-Goog-Message-Number': String(numeric(id)),
      'X-Goog-Resource-ID': id.slice(0, 27),
      'X-Goog-Resource-State': 'update',
      'X-Goog-Resource-URI': 'https://www.googleapis.com/drive/v3/changes?alt=json',
    }),
    example: () => '',
  }),
  tokenHeader('plain', {
    id: 'revenuecat',
    name: 'RevenueCat',
    headers: ['Authorization'],
    secret: chosen('the value of the authorization header'),
    deliveryId: { fields: [['event', 'id']] },
    steps: [
      'Open the project → Integrations → Webhooks → Add with the URL of the table and the text of the secret as the authorization header.',
    ],
    source: 'general knowledge of RevenueCat’s page “Webhooks”',
    example: ({ id, nowMs }) => ({
      api_version: '1.0',
      event: {
        id: uuid(id),
        type: 'INITIAL_PURCHASE',
        event_timestamp_ms: nowMs,
        app_user_id: 'zoe',
        product_id: 'pro_monthly',
      },
    }),
  }),
  tokenHeader('basic', {
    id: 'pipedrive',
    name: 'Pipedrive',
    headers: ['Authorization'],
    secret: chosen('user and password as `user:password`'),
    deliveryId: { fields: [['meta', 'id']] },
    steps: [
      'Open Tools and apps → Webhooks → Create new webhook with the URL of the table, and HTTP auth with user and password.',
    ],
    source: 'general knowledge of Pipedrive’s guide to webhooks v2',
    example: ({ id, nowMs }) => ({
      meta: { id: uuid(id), action: 'change', entity: 'deal', timestamp: isoTime(nowMs), version: '2.0' },
      data: { id: numeric(id), title: 'Café' },
    }),
  }),
  tokenHeader('bearer', {
    id: 'alertmanager',
    name: 'Prometheus Alertmanager',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'In `alertmanager.yml` give a receiver `webhook_configs` with `url`, the URL of the table, and `http_config: {authorization: {credentials_file: …}}`, a file with the text of the secret.',
    ],
    notes: [
      'Alertmanager sends a group of alerts again while it fires (`repeat_interval`): that is stored as a new row.',
    ],
    source: 'general knowledge of Alertmanager’s configuration',
    example: ({ id, nowMs }) => ({
      version: '4',
      groupKey: '{}:{alertname="DiskFull"}',
      status: 'firing',
      receiver: 'headgate',
      alerts: [
        {
          status: 'firing',
          labels: { alertname: 'DiskFull', instance: 'café-1' },
          startsAt: isoTime(nowMs),
          fingerprint: id.slice(0, 16),
        },
      ],
    }),
  }),
  tokenHeader('bearer', {
    id: 'kubernetes_audit',
    name: 'Kubernetes audit (webhook backend)',
    headers: ['Authorization'],
    secret: chosen(),
    steps: [
      'Write a kubeconfig with the URL of the table as `server` and the text of the secret as the user’s `token`, and start the API server with `--audit-webhook-config-file`.',
    ],
    notes: [
      'One request is a list of events, which is stored as one row. Each event occurs once for each stage: `auditID` and `stage` distinguish them.',
    ],
    source: 'general knowledge of Kubernetes’ page “Auditing”',
    example: ({ id, nowMs }) => ({
      kind: 'EventList',
      apiVersion: 'audit.k8s.io/v1',
      metadata: {},
      items: [
        {
          level: 'Metadata',
          auditID: uuid(id),
          stage: 'ResponseComplete',
          verb: 'create',
          requestReceivedTimestamp: isoTime(nowMs),
        },
      ],
    }),
  }),
  tokenHeader('bearer', {
    id: 'cloudevents',
    name: 'CloudEvents over HTTP (any sender)',
    headers: ['Authorization'],
    secret: chosen(),
    contentType: 'application/cloudevents+json; charset=utf-8',
    deliveryId: { fields: [['source'], ['id']] },
    steps: ['Give the sender the URL of the table and the text of the secret as its bearer token.'],
    notes: [
      'Written for the structured mode. In the binary mode the attributes are headers (`ce-id`, `ce-type` …): INCLUDE HEADER turns them into columns.',
    ],
    source: 'the specification “HTTP 1.1 Web Hooks for Event Delivery” of CloudEvents',
    example: ({ id, nowMs }) => ({
      specversion: '1.0',
      id: uuid(id),
      source: '/shop/orders',
      type: 'com.example.order.created',
      time: isoTime(nowMs),
      data: { total: '19.90' },
    }),
  }),
];
