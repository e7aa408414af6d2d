/** Contentful. */
import { ran, unverified } from '../evidence.ts';
import { freshMs, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { sender, textSecret, type Sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

const signature = 'x-contentful-signature';

/** The headers that Contentful signs by itself, in their order; which of them, says x-contentful-signed-headers. */
const signable = [
  'content-type',
  'x-contentful-crn',
  'x-contentful-environment-id',
  'x-contentful-event-datetime',
  'x-contentful-event-id',
  'x-contentful-idempotency-key',
  'x-contentful-signed-headers',
  'x-contentful-space-id',
  'x-contentful-timestamp',
  'x-contentful-topic',
  'x-contentful-user-id',
  'x-contentful-webhook-name',
  'x-contentful-webhook-request-attempt',
];

/** A header that is signed and not in this list is missing from the text, and the request is refused. */
function contentfulCheck(s: string): string {
  const list = `',' || ${headerOperand('x-contentful-signed-headers')} || ','`;
  const signed = signable.map(
    (name) => `CASE WHEN ${list} LIKE '%,${name},%' THEN ';${name}:' || btrim(${header(name)}) ELSE '' END`,
  );
  const text = `method || E'\\n' || path || E'\\n'\n      || substr(${signed.join('\n      || ')}, 2) || E'\\n'`;
  return (
    `${freshMs(header('x-contentful-timestamp'), 300)}\n  AND secure_compare(${header(signature)},\n    ` +
    `${hmac(s, `${utf8(text)} || payload`, 'sha256', 'hex')})`
  );
}

export const contentful: Sender = sender('A signature of the body', {
  id: 'contentful',
  aliases: ['contentful_webhooks'],
  name: 'Contentful',
  headers: [signature, ...signable],
  toleranceS: 300,
  expression: contentfulCheck,
  sign: ({ body, url, nowMs, signingKey }) => {
    const { pathname } = new URL(url);
    const list = 'x-contentful-signed-headers,x-contentful-timestamp';
    const headers = `x-contentful-signed-headers:${list};x-contentful-timestamp:${nowMs}`;
    const text = ['POST', pathname, headers, ''].join('\n');
    return {
      headers: {
        'x-contentful-timestamp': String(nowMs),
        'x-contentful-signed-headers': list,
        'x-contentful-signature': mac('sha256', signingKey, 'hex', text, body),
      },
    };
  },
  secret: { what: 'the signing secret, 64 characters', where: 'Settings → Webhooks → Settings' },
  makeSecret: textSecret('', 32),
  delivery: unverified({ header: 'X-Contentful-Idempotency-Key' }),
  evidence: { signature: ran('@contentful/node-apps-toolkit') },
  steps: [
    'Open Settings → Webhooks → Add webhook with the URL of the table; enable request verification under Settings.',
  ],
  notes: [
    'The URL must have no query.',
    'Contentful signs a list of headers that it names; the check knows those that it sends by itself. If you add headers of your own to the webhook, they are signed, too, and the check has to be spelled out.',
  ],
  eventHeaders: () => ({ 'X-Contentful-Topic': 'ContentManagement.Entry.publish' }),
  example: ({ id, nowMs }) => ({
    sys: { type: 'Entry', id: id.slice(0, 22), updatedAt: isoTime(nowMs) },
    fields: { title: { 'en-US': 'Café' } },
  }),
});
