/** BambooHR. */
import { report } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const bamboohr: Sender = timedHeaders({
  id: 'bamboohr',
  aliases: ['bamboo_hr'],
  name: 'BambooHR',
  headers: ['X-BambooHR-Signature', 'X-BambooHR-Timestamp'],
  order: 'body, time',
  toleranceS: 300,
  secret: { what: 'the webhook’s private key', where: 'shown when the webhook is created' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Account → Webhooks → New webhook with the URL of the table, format JSON.'],
  example: ({ id, nowMs }) => ({
    employees: [
      {
        id: String(numeric(id)),
        action: 'Updated',
        timestamp: isoTime(nowMs),
        changedFields: ['lastName'],
        fields: { lastName: 'Zoë' },
      },
    ],
  }),
});
