/** Twilio. */
import { code, known, page, ran } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { header, hmac, utf8 } from '../expressions.ts';
import { type Sender, formType } from '../sender.ts';
import { formNote, sortedFields, urlHmac } from '../signed-url.ts';
import { isoTime, mac, uuid } from '../signing.ts';

const signature = 'X-Twilio-Signature';

/** SHA-1 with the auth token; where a Webhook Rule matches, SHA-256 with the key of its settings. */
const either = (s: string, bytes: string) =>
  `(secure_compare(${header(signature)}, ${hmac(s, bytes, 'sha1', 'base64')})\n` +
  `  OR secure_compare(${header(signature)}, ${hmac(s, bytes, 'sha256', 'base64')}))`;

const rulesNote =
  'A Webhook Rule signs with the shared key of its settings and SHA-256: put that key into the secret, or name both, `VALIDATE SECRET token, shared_key`.';

const deliveries = {
  delivery: known(
    { header: 'I-Twilio-Idempotency-Token' },
    code('twilio/twilio-agent-connect-python, tac.channels.messaging'),
  ),
  retries: {
    when: 'once, or up to 5 times if the URL that it calls ends with `#rc=5`; what follows `#` is not signed',
    signed: 'unsaid',
    from: page('twilio.com/docs/usage/webhooks/webhooks-connection-overrides', 'November 2026'),
  },
  answer: {
    what: 'one within 15 seconds',
    from: page('twilio.com/docs/errors/11205', 'November 2026'),
  },
} satisfies Partial<Sender>;

const rotation = code(
  'twilio/twilio-node, rest/accounts/v1/authTokenPromotion: a secondary token is made, and takes the place of the first',
);

export const twilio: readonly Sender[] = [
  urlHmac({
    id: 'twilio',
    name: 'Twilio (JSON bodies)',
    algorithm: 'sha1',
    bytes: utf8('url'),
    parts: ({ url }) => [url],
    headers: ['X-Twilio-Signature'],
    secret: { what: 'the account’s auth token', where: 'Console → Account → API keys & tokens' },
    ...deliveries,
    evidence: {
      rotation,
      signature: [
        ran('twilio'),
        page('twilio/twilio-node, examples/WebhookSignatureValidation.md', 'November 2026'),
      ],
    },
    steps: [
      'Enter the URL of the table where the product asks for a webhook, and choose JSON (Event Streams, Flex …).',
    ],
    notes: [
      'Twilio adds `bodySHA256` to the query: the digest of the body, covered by the signature of the URL.',
      'Calls and messages (SMS, voice) arrive as forms: `USING twilio_form`.',
      rulesNote,
    ],
    expression: (s) =>
      `${either(s, utf8('url'))}\n` +
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
    aliases: ['twilio_sms', 'twilio_voice'],
    name: 'Twilio (forms: SMS, voice)',
    algorithm: 'sha1',
    bytes: utf8('url || form_sorted(payload)'),
    expression: (s) => either(s, utf8('url || form_sorted(payload)')),
    parts: ({ url, body }) => [url, sortedFields(body)],
    headers: ['X-Twilio-Signature'],
    secret: { what: 'the account’s auth token', where: 'Console → Account → API keys & tokens' },
    ...deliveries,
    evidence: {
      rotation,
      signature: [
        ran('twilio'),
        ran('twilio (Python)'),
        page('twilio/twilio-node, examples/WebhookSignatureValidation.md', 'November 2026'),
      ],
    },
    steps: [
      'Enter the URL of the table as the status callback of messages and calls (`StatusCallback`), or where a number’s incoming messages go, method POST.',
    ],
    notes: [
      'Twilio reads the answer to an incoming message or call as TwiML. A stored request is answered with an empty `<Response/>`: a message gets no reply, a call is ended. If you need another answer, give the table your own ANSWER, or have your application answer.',
      rulesNote,
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
];
