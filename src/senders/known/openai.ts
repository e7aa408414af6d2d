/** OpenAI. */
import { ran, report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { standard, whsec } from '../standard-webhooks.ts';

export const openai: Sender = standard({
  id: 'openai',
  name: 'OpenAI',
  secret: whsec('shown when the endpoint is created'),
  evidence: {
    signature: ran('openai'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  steps: [
    'Open the project’s settings → Webhooks → Create, with the URL of the table, and copy the signing secret.',
  ],
  example: ({ id, nowMs }) => ({
    id: `evt_${id}`,
    object: 'event',
    created_at: Math.floor(nowMs / 1000),
    type: 'response.completed',
    data: { id: `resp_${id}` },
  }),
});
