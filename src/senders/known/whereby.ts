/** Whereby. */
import { report, unverified } from '../evidence.ts';
import { timestampedList } from '../timestamped.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric, uuid } from '../signing.ts';

export const whereby: Sender = timestampedList({
  id: 'whereby',
  name: 'Whereby',
  time: 't',
  version: 'v1',
  headers: ['Whereby-Signature'],
  toleranceS: 300,
  milliseconds: true,
  secret: { what: 'the webhook’s secret', where: 'Configure → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Open Configure → Webhooks → Add with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    apiVersion: '1.0',
    createdAt: isoTime(nowMs),
    type: 'room.client.joined',
    data: { meetingId: String(numeric(id)) },
  }),
});
