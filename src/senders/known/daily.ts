/** Daily. */
import { report, unverified } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import { same, type Sender } from '../sender.ts';
import { uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';

export const daily: Sender = timedHeaders({
  id: 'daily',
  aliases: ['daily_co'],
  name: 'Daily',
  headers: ['X-Webhook-Signature', 'X-Webhook-Timestamp'],
  join: '.',
  encoding: 'base64',
  key: 'base64',
  unit: 'text',
  secret: {
    what: 'the webhook’s `hmac`, base64',
    where: 'in the answer of the call that creates the webhook; you may choose it',
  },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Create webhooks through the API: `POST /v1/webhooks` with `url`, the URL of the table.'],
  notes: [
    'The time is signed and not compared.',
    'The call that creates the webhook sends a test request and expects 200: create the table first.',
  ],
  secretForm: forms.base64,
  makeSecret: (random) => same(random(32).toString('base64')),
  example: ({ id, nowMs }) => ({
    version: '1.0.0',
    type: 'meeting.ended',
    id,
    event_ts: nowMs / 1000,
    payload: { meeting_id: uuid(id), room: 'café' },
  }),
});
