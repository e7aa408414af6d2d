/** FastSpring. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const fastspring: Sender = hmacBody({
  id: 'fastspring',
  aliases: ['fast_spring'],
  name: 'FastSpring',
  encoding: 'base64',
  headers: ['X-FS-Signature'],
  secret: { what: 'the HMAC SHA256 secret', where: 'you choose it' },
  delivery: unverified({ ofEach: 'id' }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open Developer Tools → Webhooks → Configuration → Add URL endpoint, with the URL of the table and a secret.',
  ],
  events: { what: 'event', at: ['events'] },
  example: ({ id, nowMs }) => ({
    events: [
      {
        id: id.slice(0, 22),
        live: false,
        processed: false,
        type: 'order.completed',
        created: nowMs,
        data: { order: id.slice(0, 22), total: 19.99 },
      },
    ],
  }),
});
