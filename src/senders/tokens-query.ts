/** Senders whose requests can be recognised only by their URL: a shared text in the query, or a signature of it. */
import { createHash } from 'node:crypto';
import { query } from './clauses.ts';
import { fresh, utf8 } from './expressions.ts';
import { type Sender, type SenderSpec, formType, same, sender } from './sender.ts';
import { isoTime, numeric, seconds, uuid } from './signing.ts';
import { chosen, notSigned } from './token-forms.ts';

const inUrl =
  'The token is in the URL, which proxies and the sender’s own log may keep. Headgate does not log the query.';

/** `?name=token`. */
export function tokenInQuery(name: string, spec: Omit<SenderSpec, 'headers' | 'secret'>): Sender {
  return sender('A token', {
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: chosen(`the text after \`?${name}=\` in the URL`),
    makeSecret: (random) => same(random(24).toString('base64url')),
    expression: (s) => `secure_compare(${query(name)}, ${s})`,
    sign: ({ url, signingKey }) => {
      const full = new URL(url);
      full.searchParams.set(name, signingKey);
      return { headers: {}, url: full.href };
    },
    ...spec,
    notes: [...(spec.notes ?? []), inUrl, notSigned],
  });
}

const pubsub = ({ id, nowMs }: { id: string; nowMs: number }, data: object) => ({
  message: {
    messageId: String(numeric(id)),
    publishTime: isoTime(nowMs),
    data: Buffer.from(JSON.stringify(data)).toString('base64'),
    attributes: {},
  },
  subscription: 'projects/shop/subscriptions/headgate',
});

const pubsubNotes = [
  'With authentication switched on, Google also sends a signed token (`Authorization: Bearer …`); its keys change every few days, so it is not checked here.',
  "The message’s data is base64: `convert_from(decode(data->'message'->>'data', 'base64'), 'UTF8')`.",
];

/** WeChat signs the secret, the time and a random text in the order of their bytes; all six orders, each with the secret in it. */
const sorted = (s: string): string => {
  const [t, n] = [query('timestamp'), query('nonce')].map((text) => `(${text})`);
  const orders = (a: string, b: string) =>
    `CASE WHEN ${s} <= ${a} THEN ${s} || ${a} || ${b} WHEN ${s} <= ${b} THEN ${a} || ${s} || ${b} ELSE ${a} || ${b} || ${s} END`;
  return `CASE WHEN ${t} <= ${n}\n    THEN ${orders(t ?? '', n ?? '')}\n    ELSE ${orders(n ?? '', t ?? '')} END`;
};

export const tokenQuerySenders: readonly Sender[] = [
  tokenInQuery('code', {
    id: 'azure_event_grid',
    name: 'Azure Event Grid',
    deliveryId: { ofEach: 'id', what: 'event' },
    steps: [
      'Create an event subscription of the type Web Hook with the URL of the table followed by `?code=` and the text of the secret.',
      "Only if the table does not answer the validation (`ANSWER NONE`, or your own VALIDATE): start Headgate with `HEADGATE_CONFIRM_SUBSCRIPTIONS=event_grid`, and name the subscription, `ALTER TABLE azure_event_grid_events SET (event_grid_subscriptions = 'orders')`. Then Headgate stores the message and opens its `validationUrl`.",
    ],
    notes: [
      'Both schemas are understood, Event Grid’s and CloudEvents’. One request may be a list of events; it is stored as one row.',
    ],
    source: 'Microsoft’s documentation of Event Grid, “Endpoint validation”',
    eventHeaders: () => ({ 'aeg-event-type': 'Notification', 'aeg-delivery-count': '0' }),
    example: ({ id, nowMs }) => [
      {
        id: uuid(id),
        topic: '/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/shop',
        subject: 'blobServices/default/containers/café',
        eventType: 'Microsoft.Storage.BlobCreated',
        eventTime: isoTime(nowMs),
        data: { api: 'PutBlob', contentLength: 1999 },
        dataVersion: '',
        metadataVersion: '1',
      },
    ],
  }),
  tokenInQuery('token', {
    id: 'google_pubsub',
    name: 'Google Cloud Pub/Sub (push)',
    deliveryId: { fields: [['message', 'messageId']] },
    steps: [
      'Create a subscription with the delivery type Push and the URL of the table followed by `?token=` and the text of the secret.',
    ],
    notes: pubsubNotes,
    source: 'general knowledge of Google’s page “Push subscriptions” and its samples',
    example: (event) => pubsub(event, { order: event.id }),
  }),
  tokenInQuery('token', {
    id: 'google_play',
    name: 'Google Play (real-time developer notifications)',
    deliveryId: { fields: [['message', 'messageId']] },
    steps: [
      'Create a Pub/Sub topic, allow `google-play-developer-notifications@system.gserviceaccount.com` to publish to it, and create a push subscription with the URL of the table followed by `?token=` and the text of the secret.',
      'In the Play Console open Monetize → Monetization setup, enter the topic and send a test notification.',
    ],
    notes: pubsubNotes,
    source: 'general knowledge of Google’s page “Real-time developer notifications”',
    example: (event) =>
      pubsub(event, {
        version: '1.0',
        packageName: 'com.example.cafe',
        eventTimeMillis: String(event.nowMs),
        subscriptionNotification: { version: '1.0', notificationType: 4, purchaseToken: event.id },
      }),
  }),
  tokenInQuery('token', {
    id: 'salesforce',
    name: 'Salesforce outbound messages',
    contentType: 'text/xml; charset=utf-8',
    steps: [
      'Open Setup → Workflow Actions → Outbound Messages → New: as endpoint URL the URL of the table followed by `?token=` and the text of the secret. Use it in a flow or a rule.',
    ],
    notes: [
      'Salesforce repeats a message for 24 hours until the answer is its XML with `<Ack>true</Ack>`, which is the answer to a committed message.',
      "The body is XML: with `format = 'text'` it is stored unchanged in a TEXT column. One message contains up to 100 notifications.",
    ],
    source: 'Salesforce’s page about outbound messages, and a public article about its answer',
    example: ({ id }) =>
      `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><notifications xmlns="http://soap.sforce.com/2005/09/outbound"><OrganizationId>00D000000000001EAA</OrganizationId><Notification><Id>${id.slice(0, 18)}</Id></Notification></notifications></soapenv:Body></soapenv:Envelope>`,
  }),
  tokenInQuery('secret', {
    id: 'mailchimp',
    name: 'Mailchimp (audiences)',
    contentType: formType,
    steps: [
      'Open Audience → Settings → Webhooks → Create with the URL of the table followed by `?secret=` and the text of the secret.',
    ],
    notes: ['The body is a form: its fields become a JSON object, with names such as `data[email]`.'],
    source: 'Mailchimp’s guide to webhooks, by way of public tools',
    example: ({ id, nowMs }) =>
      new URLSearchParams({
        type: 'subscribe',
        fired_at: isoTime(nowMs).slice(0, 19).replace('T', ' '),
        'data[id]': id.slice(0, 10),
        'data[email]': 'zoe@example.com',
      }).toString(),
  }),
  sender('A signature of the URL or of fields', {
    id: 'wechat',
    name: 'WeChat official accounts (plain mode)',
    headers: [],
    signatureHeader: null,
    signsBody: false,
    toleranceS: 300,
    contentType: 'text/xml',
    secret: chosen('the token, 3 to 32 letters and digits'),
    makeSecret: (random) => same(random(16).toString('hex')),
    steps: [
      'Open Settings and Development → Basic configuration → Server configuration: the URL of the table, the token, and plain mode. Submit, and enable it.',
    ],
    notes: [
      'The signature covers the token, the time and a random text, not the body: anyone who has seen one URL can send other bodies for five minutes.',
      'WeChat understands an empty answer as “no reply”. Replies go through its API. The encrypted modes cannot be checked.',
    ],
    source: 'the package node-webot/wechat',
    expression: (s) =>
      `${fresh(query('timestamp'), 300)}\n  AND secure_compare(${query('signature')}, encode(sha1(${utf8(sorted(s))}), 'hex'))`,
    sign: ({ url, nowMs, signingKey, id }) => {
      const [timestamp, nonce] = [seconds(nowMs), String(numeric(id) % 1_000_000_000)];
      const text = [signingKey, timestamp, nonce].toSorted().join('');
      const full = new URL(url);
      full.searchParams.set('signature', createHash('sha1').update(text).digest('hex'));
      full.searchParams.set('timestamp', timestamp);
      full.searchParams.set('nonce', nonce);
      return { headers: {}, url: full.href };
    },
    example: ({ id, nowMs }) =>
      `<xml><ToUserName><![CDATA[gh_0123456789ab]]></ToUserName><FromUserName><![CDATA[o${id.slice(0, 27)}]]></FromUserName><CreateTime>${seconds(nowMs)}</CreateTime><MsgType><![CDATA[text]]></MsgType><Content><![CDATA[你好]]></Content><MsgId>${numeric(id)}</MsgId></xml>`,
  }),
];
