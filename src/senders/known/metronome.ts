/** Metronome. */
import { ran, unverified } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const metronome: Sender = timedHeaders({
  id: 'metronome',
  name: 'Metronome',
  headers: ['Metronome-Webhook-Signature', 'X-Metronome-Date', 'Date'],
  join: '\n',
  unit: 'text',
  expression: (s) =>
    `secure_compare(${header('Metronome-Webhook-Signature')},\n    ${hmac(s, `${utf8(`coalesce(${header('X-Metronome-Date')}, ${header('Date')}) || E'\\n'`)} || payload`, 'sha256', 'hex')})`,
  secret: { what: 'the webhook’s secret key', where: 'Developer → Notifications → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: [ran('@metronome/sdk'), ran('@trigger.dev/core')] },
  steps: [
    'Open Developer → Notifications → Webhooks → Add with the URL of the table, and copy the secret key.',
  ],
  notes: ['The time is signed as a date in words, which an expression cannot compare.'],
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    type: 'alerts.low_remaining_credit_balance_reached',
    properties: { customer_id: uuid(id), timestamp: isoTime(nowMs) },
  }),
});
