/** Senders that ask before they deliver and are known for little else: from all themes. */
import { constants, createHash, sign } from 'node:crypto';

import { header, headerOperand, utf8 } from './expressions.ts';
import { hmacBody } from './hmac-body.ts';
import { forms } from './secret-forms.ts';
import { type Sender, sender } from './sender.ts';
import { isoTime, numeric, privateKey, privateText, publicPem, rsaPair, uuid } from './signing.ts';
import { tokenInQuery } from './tokens-query.ts';

const shown = (what: string, where: string) => ({ what, where });

const rsaSecret = () => {
  const pair = rsaPair();
  return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
};

const pss = 'rsassa-pss-sha256=';
const preludeSignature = `translate(replace(${header('X-Webhook-Signature')}, '${pss}', ''), '-_', '+/')`;

const digest = (body: Buffer) => `SHA-256=${createHash('sha256').update(body).digest('base64')}`;
/** What HTTP signatures of that draft cover: the request, the digest of its body, its date. */
const signedHeaders = 'headers="(request-target) digest date"';

export const asksFirstSenders: readonly Sender[] = [
  tokenInQuery('token', {
    id: 'keap',
    name: 'Keap (Infusionsoft)',
    steps: [
      'Create hooks through the API: `POST /rest/v1/hooks` with `eventKey` and `hookUrl`, the URL of the table followed by `?token=` and the text of the secret.',
      'Keap verifies the URL at once; `POST /rest/v1/hooks/{key}/verify` makes it try again.',
    ],
    notes: [
      'The secret in the header `X-Hook-Secret` is only for the verification: Keap signs no event with it, so there is nothing to learn.',
      'An event names what has changed: fetch it through the API.',
    ],
    source: 'Keap’s page “REST Hook Documentation” and the description of its API',
    example: ({ id, nowMs }) => ({
      event_key: 'contact.edit',
      object_type: 'contact',
      object_keys: [{ id: numeric(id), apiUrl: '', timestamp: isoTime(nowMs) }],
    }),
  }),
  hmacBody({
    id: 'clio',
    name: 'Clio Manage',
    headers: ['X-Hook-Signature'],
    secret: shown('the secret of the handshake', 'the header X-Hook-Secret of the first request'),
    steps: [
      'Create the secret and the table of this page first, and within ten minutes the webhook, through the API: `POST /api/v4/webhooks` with `url`, the URL of the table, `model` and `events`. Renew it before `expires_at`.',
      'Clio sends the secret when the webhook is created: `SHOW SECRETS` shows where it came from. Each webhook has its own secret, so it needs its own table.',
      "If the call was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET clio_secret WITH (learn = '10 minutes')`, and create the webhook again.",
    ],
    source: 'general knowledge of Clio’s guide to webhooks, and a public description of it',
    example: ({ id, nowMs }) => ({
      data: { id: numeric(id), etag: `"${id}"`, updated_at: isoTime(nowMs) },
      meta: { event: 'updated', webhook_id: 1 },
    }),
  }),
  hmacBody({
    id: 'wrike',
    name: 'Wrike',
    headers: ['X-Hook-Signature'],
    secret: shown('`secret` of the call that creates the webhook', 'you choose it'),
    steps: [
      'Create the table first: Wrike calls it while the webhook is created.',
      'Create webhooks through the API: `POST /webhooks`, or `/folders/{folderId}/webhooks`, with `hookUrl`, the URL of the table, and `secret`, the text of the secret.',
    ],
    notes: [
      'One request is a list of events, which is stored as one row.',
      'Without `secret` Wrike signs nothing, and every request is refused.',
    ],
    source: 'Wrike’s page “Webhooks” by way of several public receivers',
    example: ({ id, nowMs }) => [
      {
        eventType: 'TaskStatusChanged',
        taskId: `IEAAA${id.slice(0, 11).toUpperCase()}`,
        webhookId: `IEAAA${id.slice(11, 19).toUpperCase()}`,
        eventAuthorId: 'KUAFBOTB',
        lastUpdatedDate: isoTime(nowMs),
      },
    ],
  }),
  sender('A public key', {
    id: 'prelude',
    name: 'Prelude',
    secretForm: forms.pem,
    headers: ['X-Webhook-Signature'],
    secret: shown(
      'the public key (PEM)',
      'the dashboard → Verify API → Configure → Webhooks; for the Session API the application’s JWKS, converted to PEM',
    ),
    steps: [
      'Create the table first: Prelude calls it when the webhook is activated.',
      'Session API: `POST /v2/session/apps/{appID}/webhooks` with the URL of the table and a verification token, then `…/activate`. Verify API: enter the URL in the dashboard, or pass it as `callback_url`.',
    ],
    source: 'Prelude’s pages “Webhooks” and “Activation Challenge Request”, and public receivers',
    expression: (s) =>
      `rsa_pss_verify(${s}, payload,\n  decode(${preludeSignature}\n    || CASE length(${preludeSignature}) % 4 WHEN 2 THEN '==' WHEN 3 THEN '=' ELSE '' END, 'base64'), 'sha256')`,
    sign: ({ body, signingKey }) => {
      const key = privateKey(signingKey);
      const padding = constants.RSA_PKCS1_PSS_PADDING;
      const made = sign('sha256', body, { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST });
      return { headers: { 'X-Webhook-Signature': `${pss}${made.toString('base64url')}` } };
    },
    paired: true,
    makeSecret: rsaSecret,
    example: ({ id, nowMs }) => ({
      app_id: id.slice(0, 7),
      events: [{ id: uuid(id), type: 'user.created', created_at: isoTime(nowMs) }],
    }),
  }),
  tokenInQuery('token', {
    id: 'apideck',
    name: 'Apideck Unify',
    steps: [
      'Create the table first: Apideck calls it when the subscription is created.',
      'Open Configuration → Webhooks → Add endpoint, or `POST /webhook/webhooks`, with `delivery_url`, the URL of the table followed by `?token=` and the text of the secret.',
    ],
    notes: [
      'Apideck also signs (`x-apideck-signature`), but a text with the keys of the document in another order than in the body: an expression cannot sort them, so the signature is not checked here.',
    ],
    deliveryId: { fields: [['payload', 'event_id']] },
    source: 'Apideck’s pages “Webhook Signature Verification” and about validating a delivery URL',
    eventHeaders: () => ({ 'x-apideck-event-type': 'crm.contact.updated' }),
    example: ({ id, nowMs }) => ({
      payload: {
        event_id: uuid(id),
        event_type: 'crm.contact.updated',
        service_id: 'salesforce',
        entity_id: id,
        occurred_at: isoTime(nowMs),
      },
    }),
  }),
  tokenInQuery('token', {
    id: 'dimo',
    name: 'DIMO vehicle triggers',
    steps: [
      'Create the table first: DIMO calls it while the webhook is created.',
      'Create webhooks in the Developer Console or through the API: `POST /v1/webhooks` with `targetURL`, the URL of the table followed by `?token=` and the text of the secret, and `verificationToken`, the text of the second secret.',
    ],
    source: 'DIMO’s page “Vehicle Triggers API”, and a public receiver',
    example: ({ id, nowMs }) => ({
      id,
      source: 'vehicle-triggers-api',
      subject: `did:erc721:137:0xbA5738a18d83D41847dfFbDC6101d37C69c9B0cF:${numeric(id)}`,
      time: isoTime(nowMs),
      type: 'dimo.trigger',
      data: { metricName: 'speed', value: 96 },
    }),
  }),
  sender('A public key', {
    id: 'smartthings',
    name: 'SmartThings (webhook SmartApps)',
    secretForm: forms.pem,
    headers: ['Authorization', 'Digest', 'Date'],
    secret: shown(
      'the certificate of the key that SmartThings signs with (PEM)',
      '`https://key.smartthings.com` followed by the `keyId` of a request’s `Authorization`',
    ),
    steps: [
      'Create the table first, with any certificate, and register the app with the URL of the table: SmartThings sends a PING, which is answered, and a CONFIRMATION, which is refused and kept.',
      "Read the `keyId`: `SELECT headers->>'authorization' FROM headgate.rejected_requests WHERE table_name = 'smartthings_events' ORDER BY id DESC LIMIT 1`. Fetch the certificate from key.smartthings.com, and `ALTER SECRET smartthings_secret AS '-----BEGIN CERTIFICATE-----…'`.",
      "Make SmartThings confirm again, or retry the request that was kept: it is now stored as a row. Check that the host of `data->'confirmationData'->>'confirmationUrl'` is api.smartthings.com, and open it.",
    ],
    notes: [
      'SmartThings signs for all apps with its own key, and does not sign the host: compare `appId` before you rely on a request.',
      'The path is signed: a proxy in front must not change it. The date is signed but not compared, so an old request is accepted again.',
      'Every request is answered like an EVENT. Configuration requests (CONFIGURATION, INSTALL, UPDATE) need other answers, which an application has to give.',
      'SmartThings changes its key: if requests are refused with 401, look at the `keyId` again.',
    ],
    source: 'SmartThings’ own SDK for Node, and public receivers',
    expression: (s) =>
      `${header('Authorization')} LIKE '%${signedHeaders}%'\n` +
      `  AND secure_compare(replace(replace(${header('Digest')}, 'SHA-256=', ''), 'SHA256=', ''), encode(sha256(payload), 'base64'))\n` +
      `  AND rsa_verify(${s}, ${utf8(
        `'(request-target): post ' || path\n      || E'\\ndigest: ' || ${headerOperand('Digest')} || E'\\ndate: ' || ${headerOperand('Date')}`,
      )},\n    decode(split_part(split_part(${header('Authorization')}, 'signature="', 2), '"', 1), 'base64'), 'sha256')`,
    sign: ({ body, url, nowMs, signingKey }) => {
      const headers = { Digest: digest(body), Date: new Date(nowMs).toUTCString() };
      const { pathname } = new URL(url);
      const text = `(request-target): post ${pathname}\ndigest: ${headers.Digest}\ndate: ${headers.Date}`;
      const made = sign('sha256', Buffer.from(text), privateKey(signingKey)).toString('base64');
      const key = `keyId="/pl/useast1/72-6b-4a-7f-a5-e5-be-31-a5-a4-be-1f-6d-0c-2d-6e"`;
      const Authorization = `Signature ${key},${signedHeaders},algorithm="rsa-sha256",signature="${made}"`;
      return { headers: { ...headers, Authorization } };
    },
    paired: true,
    makeSecret: rsaSecret,
    example: ({ id, nowMs }) => ({
      lifecycle: 'EVENT',
      executionId: uuid(id),
      appId: uuid(id),
      eventData: {
        installedApp: { installedAppId: uuid(id), locationId: uuid(id) },
        events: [
          {
            eventTime: isoTime(nowMs),
            eventType: 'DEVICE_EVENT',
            deviceEvent: { eventId: uuid(id), capability: 'switch', attribute: 'switch', value: 'on' },
          },
        ],
      },
    }),
  }),
];
