/** Front (application webhooks). */
import { report } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';

export const front: Sender = timedHeaders({
  id: 'front',
  aliases: ['frontapp', 'front_app'],
  name: 'Front (application webhooks)',
  headers: ['X-Front-Signature', 'X-Front-Request-Timestamp'],
  join: ':',
  unit: 'ms',
  encoding: 'base64',
  toleranceS: 300,
  secret: { what: 'the app’s signing key', where: 'Developers → the app → Basic information' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'In Front’s developer settings open the app → Features → Application webhooks, with the URL of the table, and choose the events.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'inbound_received',
    authorization: { id: 'cmp_1' },
    payload: { id: `evt_${id.slice(0, 8)}`, emitted_at: nowMs / 1000, subject: 'Où est ma commande ?' },
  }),
});
