/** Sendbird. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const sendbird: Sender = hmacBody({
  id: 'sendbird',
  name: 'Sendbird',
  headers: ['x-sendbird-signature'],
  secret: { what: 'the master API token', where: 'Settings → General' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Chat → Webhooks, with the URL of the table and the events.'],
  example: ({ id, nowMs }) => ({
    category: 'group_channel:message_send',
    app_id: uuid(id),
    payload: { message_id: numeric(id), message: 'Grüße', created_at: nowMs },
  }),
});
