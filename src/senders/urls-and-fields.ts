/** Senders that sign the URL they call, or some fields of the body. */
import { createHash } from 'node:crypto';
import { field, fresh, freshMs, header, hmac, utf8 } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Draft, type Sender, type SenderSpec, formType, same, sender } from './sender.ts';
import { isoTime, mac, numeric, seconds, uuid } from './signing.ts';

const theme = 'A signature of the URL or of fields';
const formNote =
  "The body is a form: with `format = 'form'` its fields become a JSON object, and without it the request is refused with 422.";

/** Name and value of each field, sorted; identical pairs count once. */
function sortedFields(body: Buffer): string {
  const pairs = new Map(
    [...new URLSearchParams(body.toString())].map((pair) => [JSON.stringify(pair), pair]),
  );
  const bytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  return [...pairs.values()]
    .toSorted((a, b) => bytes(a[0], b[0]) || bytes(a[1], b[1]))
    .map(([name, value]) => name + value)
    .join('');
}

/** One header with an HMAC, in base64, of the URL and of what `parts` returns. */
interface UrlSpec extends SenderSpec {
  readonly algorithm: 'sha1' | 'sha256';
  readonly bytes: string;
  readonly parts: (draft: Draft) => readonly (string | Buffer)[];
}

function urlHmac(spec: UrlSpec): Sender {
  const { algorithm, bytes, parts, ...rest } = spec;
  const name = spec.headers[0] ?? '';
  return sender(theme, {
    signsUrl: true,
    expression: (s) => `secure_compare(${header(name)}, ${hmac(s, bytes, algorithm, 'base64')})`,
    sign: (draft) => ({ headers: { [name]: mac(algorithm, draft.signingKey, 'base64', ...parts(draft)) } }),
    ...rest,
  });
}

const hubspotTime = 'X-HubSpot-Request-Timestamp';
const hubspotEvent = ({ id, nowMs }: { id: string; nowMs: number }) => [
  {
    eventId: numeric(id),
    subscriptionType: 'contact.creation',
    portalId: 62515,
    occurredAt: nowMs,
    objectId: 123,
  },
];
const hubspotSteps = [
  'In the app’s settings open Webhooks, enter the URL of the table and create the subscriptions.',
];
const clientSecret = { what: 'the app’s client secret', where: 'the app → Auth' };

/** HubSpot's older forms: a digest of a text that begins with the secret. */
function hubspotDigest(version: '1' | '2', spec: Pick<SenderSpec, 'notes' | 'signsUrl'>): Sender {
  return sender(theme, {
    id: `hubspot_v${version}`,
    name: `HubSpot (signature v${version})`,
    headers: ['X-HubSpot-Signature'],
    secret: clientSecret,
    deliveryId: { ofEach: 'eventId', what: 'event' },
    steps: hubspotSteps,
    expression: (s) =>
      `secure_compare(${header('X-HubSpot-Signature')},\n  encode(sha256(${utf8(version === '1' ? s : `${s} || method || url`)} || payload), 'hex'))`,
    sign: ({ method, url, body, signingKey }) => {
      const start = version === '1' ? signingKey : `${signingKey}${method}${url}`;
      const digest = createHash('sha256').update(start).update(body).digest('hex');
      return { headers: { 'X-HubSpot-Signature': digest, 'X-HubSpot-Signature-Version': `v${version}` } };
    },
    example: hubspotEvent,
    ...spec,
  });
}

const adyenPath = ['notificationItems', '0', 'NotificationRequestItem'];
const adyenItem = adyenPath.join(',');
const adyenFields = [
  'pspReference',
  'originalReference',
  'merchantAccountCode',
  'merchantReference',
  'amount,value',
  'amount,currency',
  'eventCode',
  'success',
];
const adyenSigned = adyenFields
  .map((path) => `coalesce(${field(`${adyenItem},${path}`)}, '')`)
  .join(`\n      || ':' || `);

interface AdyenNotification {
  notificationItems: [{ NotificationRequestItem: Record<string, unknown> }];
}

/** The text or number at a path; an empty text if there is none. */
function textAt(value: unknown, path: string): string {
  const found = path
    .split(',')
    .reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);
  return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
}

export const urlAndFieldSenders: readonly Sender[] = [
  urlHmac({
    id: 'square',
    name: 'Square',
    algorithm: 'sha256',
    bytes: `${utf8('url')} || payload`,
    parts: ({ url, body }) => [url, body],
    headers: ['x-square-hmacsha256-signature'],
    secret: {
      what: 'the subscription’s signature key',
      where: 'Developer Console → the app → Webhooks → the subscription',
    },
    deliveryId: { fields: [['event_id']] },
    steps: [
      'In the Developer Console open the app → Webhooks → Subscriptions → Add subscription.',
      'Notification URL: the URL of the table, exactly as Square will call it. Choose the events and save.',
    ],
    example: ({ id, nowMs }) => ({
      merchant_id: '6SSW7HV8K2ST5',
      type: 'payment.updated',
      event_id: uuid(id),
      created_at: isoTime(nowMs),
      data: { type: 'payment', id: 'hYy9pRFVxpDsO1FB05SunFWUe9JZY' },
    }),
  }),
  urlHmac({
    id: 'trello',
    name: 'Trello',
    algorithm: 'sha1',
    bytes: `payload || ${utf8('url')}`,
    parts: ({ url, body }) => [body, url],
    headers: ['X-Trello-Webhook'],
    secret: { what: 'the app’s secret (OAuth secret)', where: 'the Power-Up’s admin page → API key' },
    deliveryId: { fields: [['action', 'id']] },
    steps: ['Create webhooks through the API: `POST /1/webhooks` with `callbackURL`, the URL of the table.'],
    example: ({ id, nowMs }) => ({
      action: {
        id: id.slice(0, 24),
        type: 'updateCard',
        date: isoTime(nowMs),
        data: { card: { name: 'Café' } },
      },
      model: { id: id.slice(8, 32), name: 'Shop' },
    }),
  }),
  urlHmac({
    id: 'twilio',
    name: 'Twilio (JSON bodies)',
    algorithm: 'sha1',
    bytes: utf8('url'),
    parts: ({ url }) => [url],
    headers: ['X-Twilio-Signature'],
    secret: { what: 'the account’s auth token', where: 'Console → Account → API keys & tokens' },
    deliveryId: { header: 'I-Twilio-Idempotency-Token' },
    steps: [
      'Enter the URL of the table where the product asks for a webhook, and choose JSON (Event Streams, Flex …).',
    ],
    notes: [
      'Twilio adds `bodySHA256` to the query: the digest of the body, covered by the signature of the URL.',
      'Calls and messages (SMS, voice) arrive as forms: `USING twilio_form`.',
    ],
    expression: (s) =>
      `secure_compare(${header('X-Twilio-Signature')}, ${hmac(s, utf8('url'), 'sha1', 'base64')})\n` +
      `  AND secure_compare(query->>'bodySHA256', encode(sha256(payload), 'hex'))`,
    sign: ({ url, body, signingKey }) => {
      const full = new URL(url);
      full.searchParams.set('bodySHA256', createHash('sha256').update(body).digest('hex'));
      return {
        headers: { 'X-Twilio-Signature': mac('sha1', signingKey, 'base64', full.href) },
        url: full.href,
      };
    },
    eventHeaders: ({ id }) => ({ 'I-Twilio-Idempotency-Token': uuid(id) }),
    example: ({ id, nowMs }) => [
      {
        specversion: '1.0',
        type: 'com.twilio.messaging.message.delivered',
        id: `EZ${id}`,
        time: isoTime(nowMs),
      },
    ],
  }),
  urlHmac({
    id: 'twilio_form',
    name: 'Twilio (forms: SMS, voice)',
    algorithm: 'sha1',
    bytes: utf8('url || form_sorted(payload)'),
    parts: ({ url, body }) => [url, sortedFields(body)],
    headers: ['X-Twilio-Signature'],
    secret: { what: 'the account’s auth token', where: 'Console → Account → API keys & tokens' },
    deliveryId: { header: 'I-Twilio-Idempotency-Token' },
    steps: [
      'Enter the URL of the table as the status callback of messages and calls (`StatusCallback`), or where a number’s incoming messages go, method POST.',
    ],
    notes: [
      'Twilio reads the answer to an incoming message or call as TwiML. A stored request is answered with an empty `<Response/>`: a message gets no reply, a call is ended. If you need another answer, give the table your own ANSWER, or have your application answer.',
      formNote,
    ],
    eventHeaders: ({ id }) => ({ 'I-Twilio-Idempotency-Token': uuid(id) }),
    contentType: formType,
    example: ({ id }) =>
      new URLSearchParams({
        MessageSid: `SM${id}`,
        AccountSid: 'AC0123456789abcdef0123456789abcdef',
        From: '+14155550100',
        To: '+14155550199',
        Body: 'Grüße & Küsse ☕',
      }).toString(),
  }),
  urlHmac({
    id: 'mandrill',
    name: 'Mandrill (Mailchimp Transactional)',
    algorithm: 'sha1',
    bytes: utf8('url || form_sorted(payload)'),
    parts: ({ url, body }) => [url, sortedFields(body)],
    headers: ['X-Mandrill-Signature'],
    secret: { what: 'the webhook’s key', where: 'Settings → Webhooks' },
    deliveryId: { ofEach: '_id', what: 'event', at: ['mandrill_events'], json: true },
    steps: ['Open Settings → Webhooks → Add a webhook with the URL of the table.'],
    notes: [formNote],
    contentType: formType,
    example: ({ id, nowMs }) =>
      new URLSearchParams({
        mandrill_events: JSON.stringify([{ event: 'send', _id: id, ts: Math.floor(nowMs / 1000) }]),
      }).toString(),
  }),
  sender(theme, {
    id: 'hubspot',
    name: 'HubSpot (signature v3)',
    signsUrl: true,
    toleranceS: 300,
    headers: ['X-HubSpot-Signature-v3', hubspotTime],
    secret: clientSecret,
    deliveryId: { ofEach: 'eventId', what: 'event' },
    steps: hubspotSteps,
    notes: [
      'HubSpot decodes some percent-escapes of the URL before it signs: choose a table name that needs none.',
    ],
    expression: (s) =>
      `${freshMs(header(hubspotTime), 300)}\n  AND secure_compare(${header('X-HubSpot-Signature-v3')},\n    ` +
      `${hmac(s, `${utf8('method || url')} || payload || ${utf8(header(hubspotTime))}`, 'sha256', 'base64')})`,
    sign: ({ method, url, body, nowMs, signingKey }) => ({
      headers: {
        [hubspotTime]: String(nowMs),
        'X-HubSpot-Signature-v3': mac('sha256', signingKey, 'base64', method, url, body, String(nowMs)),
      },
    }),
    example: hubspotEvent,
  }),
  hubspotDigest('2', {
    signsUrl: true,
    notes: ['The signature is a plain digest that begins with the secret; use `hubspot` if v3 is sent.'],
  }),
  hubspotDigest('1', {
    notes: ['The signature is a plain digest that begins with the secret; use `hubspot` if v3 is sent.'],
  }),
  sender(theme, {
    id: 'mailgun',
    name: 'Mailgun',
    toleranceS: 900,
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: { what: 'the HTTP webhook signing key', where: 'Account settings → API security' },
    deliveryId: { fields: [['signature', 'token']] },
    steps: [
      'Open Send → Sending → Webhooks, choose the domain and the event, and enter the URL of the table.',
    ],
    notes: [
      'Only a timestamp and a token in the body are signed, not the event: anyone who has seen one request can send others for 15 minutes.',
    ],
    expression: (s) =>
      `${fresh(field('signature,timestamp'), 900)}\n  AND secure_compare(${field('signature,signature')},\n    ` +
      `${hmac(s, utf8(`(${field('signature,timestamp')}) || (${field('signature,token')})`), 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey, id }) => {
      const parsed = JSON.parse(body.toString()) as object;
      const [timestamp, token] = [seconds(nowMs), `${id}${id.slice(0, 18)}`];
      const signature = { timestamp, token, signature: mac('sha256', signingKey, 'hex', timestamp, token) };
      return { headers: {}, body: Buffer.from(JSON.stringify({ ...parsed, signature })) };
    },
    example: ({ id, nowMs }) => ({
      'event-data': { event: 'delivered', id, timestamp: nowMs / 1000, recipient: 'zoe@example.com' },
    }),
  }),
  sender(theme, {
    id: 'adyen',
    secretForm: forms.hex,
    name: 'Adyen (payments)',
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: { what: 'the HMAC key, 64 hexadecimal digits', where: 'in the webhook’s security settings' },
    deliveryId: {
      fields: [
        [...adyenPath, 'pspReference'],
        [...adyenPath, 'eventCode'],
        // A payment that has failed may still succeed, under the same reference.
        [...adyenPath, 'success'],
      ],
    },
    steps: [
      'In the Customer Area open Developers → Webhooks → Standard webhook.',
      'Server URL: the URL of the table, method JSON. Generate an HMAC key under Security and save.',
    ],
    notes: [
      'The signature covers eight fields of the first item (references, account, amount, event, success), not the rest of the body.',
      'Adyen accepts any 2xx in place of `[accepted]`.',
    ],
    expression: (s) =>
      `secure_compare(${field(`${adyenItem},additionalData,hmacSignature`)},\n  ` +
      `encode(hmac(decode(${s}, 'hex'), ${utf8(adyenSigned)}, 'sha256'), 'base64'))`,
    sign: ({ body, signingKey }) => {
      const notification = JSON.parse(body.toString()) as AdyenNotification;
      const item = notification.notificationItems[0].NotificationRequestItem;
      const signed = adyenFields.map((path) => textAt(item, path)).join(':');
      const hmacSignature = mac('sha256', Buffer.from(signingKey, 'hex'), 'base64', signed);
      item['additionalData'] = { ...(item['additionalData'] as object | undefined), hmacSignature };
      return { headers: {}, body: Buffer.from(JSON.stringify(notification)) };
    },
    makeSecret: (random) => same(random(32).toString('hex').toUpperCase()),
    example: ({ id, nowMs }) => ({
      live: 'false',
      notificationItems: [
        {
          NotificationRequestItem: {
            pspReference: id.slice(0, 16).toUpperCase(),
            merchantAccountCode: 'AcmeECOM',
            merchantReference: `order-${numeric(id)}`,
            amount: { value: 1130, currency: 'EUR' },
            eventCode: 'AUTHORISATION',
            eventDate: isoTime(nowMs),
            success: 'true',
          },
        },
      ],
    }),
  }),
  sender(theme, {
    id: 'braintree',
    secretForm: forms.keyPair,
    name: 'Braintree',
    headers: [],
    signatureHeader: null,
    secret: {
      what: 'JSON that contains both keys: `{"public_key": "…", "private_key": "…"}`',
      where: 'Settings → API → Keys',
    },
    steps: ['Open Settings → API → Webhooks → Create new webhook with the URL of the table.'],
    notes: [formNote],
    contentType: formType,
    expression: (s) =>
      // Pairs of a public key and a signature; only the owner of the private key can make such a signature.
      `secure_compare_any(\n  ${hmac(`sha1(convert_to(${s}::jsonb->>'private_key', 'UTF8'))`, utf8(`form(payload)->>'bt_payload'`), 'sha1', 'hex')},\n  ` +
      // A challenge has at most 32 characters, and what is signed for a challenge must never pass for an event.
      `string_to_array(replace(form(payload)->>'bt_signature', '&', '|'), '|'))\n  AND length(form(payload)->>'bt_payload') > 64`,
    sign: ({ body, signingKey }) => {
      const keys = JSON.parse(signingKey) as { public_key: string; private_key: string };
      const payload = new URLSearchParams(body.toString()).get('bt_payload') ?? '';
      const key = createHash('sha1').update(keys.private_key).digest();
      const signature = `${keys.public_key}|${mac('sha1', key, 'hex', payload)}`;
      return {
        headers: {},
        body: Buffer.from(new URLSearchParams({ bt_signature: signature, bt_payload: payload }).toString()),
      };
    },
    makeSecret: (random) =>
      same(
        JSON.stringify({ public_key: random(8).toString('hex'), private_key: random(16).toString('hex') }),
      ),
    example: ({ id, nowMs }) => {
      const xml = `<notification><kind>check</kind><timestamp type="datetime">${isoTime(nowMs)}</timestamp><subject><id>${id}</id></subject></notification>`;
      return new URLSearchParams({ bt_payload: `${Buffer.from(xml).toString('base64')}\n` }).toString();
    },
  }),
];
