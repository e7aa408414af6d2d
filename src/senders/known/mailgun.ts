/** Mailgun. */
import { code, known, page, report, unfound } from '../evidence.ts';
import { field, fresh, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac, seconds } from '../signing.ts';

export const mailgun: Sender = sender('A signature of the URL or of fields', {
  id: 'mailgun',
  name: 'Mailgun',
  toleranceS: 32400,
  headers: [],
  signatureHeader: null,
  signsBody: false,
  secret: { what: 'the HTTP webhook signing key', where: 'Account settings → API security' },
  delivery: known(
    { fields: [['signature', 'token']] },
    page('documentation.mailgun.com, “Automatic Retries” and “Securing Webhooks”', 'November 2026'),
  ),
  retries: {
    when: 'for 8 hours, first after 5 or 10 minutes, then more and more rarely, on anything but 200 and 406',
    afterS: [600, 1200, 2100, 3900, 7500, 14700, 29100],
    signed: 'as at first',
    lastS: 8 * 3_600 + 300,
    from: [
      code('mailgun/documentation 32f4121, source/user_manual.rst, “Webhooks”'),
      page('documentation.mailgun.com, “Automatic Retries” and “Securing Webhooks”', 'November 2026'),
      report('PostHog 103057, that each attempt has the first signature'),
    ],
  },
  answer: {
    what: 'a 200; after a 406 it does not try again',
    from: page('documentation.mailgun.com, “Automatic Retries” and “Securing Webhooks”', 'November 2026'),
  },
  evidence: {
    signature: [
      code('mailgun/documentation 32f4121, source/user_manual.rst, “Securing Webhooks”'),
      page('documentation.mailgun.com, “Automatic Retries” and “Securing Webhooks”', 'November 2026'),
    ],
    secret: code('mailgun/documentation 32f4121, source/user_manual.rst, “Securing Webhooks”'),
    event: code('mailgun/documentation 32f4121, source/user_manual.rst, “Payload”'),
    rotation: unfound(),
  },
  steps: ['Open Send → Sending → Webhooks, choose the domain and the event, and enter the URL of the table.'],
  notes: [
    'An older documentation of Mailgun says that the event `delivered` is never sent again.',
    "Only a timestamp and a token in the body are signed, not the event: anyone who has seen one request can send others for nine hours, with its token: `dedupe = 'sender'` takes each token once.",
  ],
  expression: (s) =>
    `${fresh(field('signature,timestamp'), 32400)}\n  AND secure_compare(${field('signature,signature')},\n    ` +
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
});
