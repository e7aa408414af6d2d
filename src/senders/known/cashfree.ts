/** Cashfree Payments. */
import { ran, unverified } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const cashfree: Sender = timedHeaders({
  id: 'cashfree',
  name: 'Cashfree Payments',
  headers: ['x-webhook-signature', 'x-webhook-timestamp'],
  encoding: 'base64',
  unit: 'text',
  secret: { what: 'the client secret', where: 'Developers → API Keys' },
  delivery: unverified({ header: 'x-idempotency-key' }),
  evidence: { signature: ran('cashfree-pg') },
  steps: ['Open Developers → Webhooks → Add Webhook Endpoint with the URL of the table.'],
  notes: ['The time is signed and not compared.'],
  eventHeaders: ({ id }) => ({ 'x-idempotency-key': id }),
  example: ({ id, nowMs }) => ({
    type: 'PAYMENT_SUCCESS_WEBHOOK',
    event_time: isoTime(nowMs),
    data: { order: { order_id: id }, payment: { cf_payment_id: String(numeric(id)), payment_amount: 19.99 } },
  }),
});
