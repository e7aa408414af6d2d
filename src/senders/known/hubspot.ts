/** HubSpot. */
import { none, page, ran, report, unfound, vector } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { freshMs, header, hmac, utf8 } from '../expressions.ts';
import { type Sender, type SenderSpec, sender } from '../sender.ts';
import { mac, numeric } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

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

const notUnique = none(
  'HubSpot says of `eventId` that it is not guaranteed to be unique',
  page('developers.hubspot.com, “Webhooks API”', 'November 2026'),
);

/** HubSpot's older forms: a digest of a text that begins with the secret. */
function hubspotDigest(version: '1' | '2', spec: Pick<SenderSpec, 'notes' | 'signsUrl'>): Sender {
  return sender('A signature of the URL or of fields', {
    id: `hubspot_v${version}`,
    name: `HubSpot (signature v${version})`,
    headers: ['X-HubSpot-Signature'],
    secret: clientSecret,
    delivery: notUnique,
    events: { what: 'event' },
    evidence: { signature: ran('@hubspot/api-client') },
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

export const hubspot: readonly Sender[] = [
  sender('A signature of the URL or of fields', {
    id: 'hubspot',
    name: 'HubSpot (signature v3)',
    signsUrl: true,
    toleranceS: 300,
    headers: ['X-HubSpot-Signature-v3', hubspotTime],
    secret: clientSecret,
    delivery: notUnique,
    events: { what: 'event' },
    evidence: {
      signature: [
        ran('@hubspot/api-client'),
        vector('HubSpot/hubspot-api-python, tests/spec/utils/test_signature.py'),
      ],
      rotation: unfound(),
    },
    retries: {
      when: 'up to 10 times, first after 2 minutes, then more and more rarely',
      signed: 'unsaid',
      from: report('integrate.hubspot.com, “What does Will Retry mean”, from HubSpot’s documentation'),
    },
    answer: {
      what: 'a 2xx; 400, 401, 403, 404 and 405 are final',
      from: page('community.hubspot.com, “Webhooks response”', 'November 2026'),
    },
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
];
