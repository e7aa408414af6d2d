/** Viber bots. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const viber: Sender = hmacBody({
  id: 'viber',
  name: 'Viber bots',
  headers: ['X-Viber-Content-Signature'],
  secret: { what: 'the bot’s authentication token', where: 'the bot’s account → Edit info' },
  delivery: unverified({ fields: [['event'], ['message_token']] }),
  evidence: { signature: ran('viber-bot') },
  steps: ['Call `set_webhook` with `url`, the URL of the table, and the `event_types`.'],
  notes: ['`set_webhook` sends a signed event `webhook`; it is stored like any other.'],
  example: ({ id, nowMs }) => ({
    event: 'message',
    timestamp: nowMs,
    message_token: numeric(id),
    sender: { id: 'MDEyMzQ1Njc4OWFiY2RlZg==', name: 'Zoë' },
    message: { type: 'text', text: 'Привет' },
  }),
});
