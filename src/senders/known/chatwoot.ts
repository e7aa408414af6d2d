/** Chatwoot. */
import { report } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const chatwoot: Sender = timedHeaders({
  id: 'chatwoot',
  name: 'Chatwoot',
  headers: ['X-Chatwoot-Signature', 'X-Chatwoot-Timestamp'],
  join: '.',
  prefix: 'sha256=',
  toleranceS: 300,
  secret: { what: 'the webhook’s secret', where: 'in the webhook’s settings' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Integrations → Webhooks → Add with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    event: 'message_created',
    id: numeric(id),
    content: 'Grüße',
    created_at: isoTime(nowMs),
  }),
});
