/** Aircall. */
import { report } from '../evidence.ts';
import { field } from '../expressions.ts';
import { tokenInBody } from '../token-forms.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const aircall: Sender = tokenInBody({
  id: 'aircall',
  name: 'Aircall',
  value: field('token'),
  put: (document, token) => ({ ...document, token }),
  secret: {
    what: 'the webhook’s token',
    where: 'in the dashboard, Integrations → Webhooks, or in the answer of the call that creates it',
  },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Open Integrations → Webhooks → Add with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    resource: 'call',
    event: 'call.ended',
    timestamp: Math.floor(nowMs / 1000),
    data: { id: numeric(id), direction: 'inbound' },
  }),
});
