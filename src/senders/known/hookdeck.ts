/** Hookdeck. */
import { ran, unverified } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

export const hookdeck: Sender = sender('A signature of the body', {
  id: 'hookdeck',
  name: 'Hookdeck',
  headers: ['X-Hookdeck-Signature', 'X-Hookdeck-Signature-2'],
  expression: (s) =>
    ['X-Hookdeck-Signature', 'X-Hookdeck-Signature-2']
      .map((name) => `secure_compare(${header(name)}, ${hmac(s, 'payload', 'sha256', 'base64')})`)
      .join('\n  OR '),
  sign: ({ body, signingKey }) => ({
    headers: { 'X-Hookdeck-Signature': mac('sha256', signingKey, 'base64', body) },
  }),
  secret: { what: 'the project’s signing secret', where: 'Settings → Secrets' },
  delivery: unverified({ header: 'X-Hookdeck-EventID' }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Create a connection whose destination is HTTP with the URL of the table; authentication: Hookdeck signature.',
  ],
  notes: ['While a secret is being changed there are two headers, one for each.'],
  eventHeaders: ({ id }) => ({ 'X-Hookdeck-EventID': `evt_${id.slice(0, 20)}` }),
  example: ({ id, nowMs }) => ({ id, type: 'order.created', at: isoTime(nowMs) }),
});
