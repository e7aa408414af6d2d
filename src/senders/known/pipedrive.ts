/** Pipedrive. */
import { report, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const pipedrive: Sender = tokenHeader('basic', {
  id: 'pipedrive',
  name: 'Pipedrive',
  headers: ['Authorization'],
  secret: chosen('user and password as `user:password`'),
  delivery: unverified({ fields: [['meta', 'id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open Tools and apps → Webhooks → Create new webhook with the URL of the table, and HTTP auth with user and password.',
  ],
  example: ({ id, nowMs }) => ({
    meta: { id: uuid(id), action: 'change', entity: 'deal', timestamp: isoTime(nowMs), version: '2.0' },
    data: { id: numeric(id), title: 'Café' },
  }),
});
