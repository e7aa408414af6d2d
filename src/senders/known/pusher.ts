/** Pusher Channels. */
import { page, ran } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import { forms } from '../secret-forms.ts';
import type { Sender } from '../sender.ts';
import { mac } from '../signing.ts';

export const pusher: Sender = hmacBody({
  id: 'pusher',
  aliases: ['pusher_channels'],
  secretForm: forms.keyAndSecret,
  name: 'Pusher Channels',
  headers: ['X-Pusher-Signature', 'X-Pusher-Key'],
  secret: { what: 'JSON that contains both: `{"key": "…", "secret": "…"}`', where: 'the app’s App Keys' },
  evidence: { signature: ran('pusher') },
  retries: {
    when: 'for 5 minutes, more and more rarely',
    signed: 'unsaid',
    from: page('docs.bird.com/pusher, “Channels Webhook Timeouts and Retries”', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 4 seconds',
    from: page('docs.bird.com/pusher, “Channels Webhook Timeouts and Retries”', 'November 2026'),
  },
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
});
