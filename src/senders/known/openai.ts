/** OpenAI. */
import { code, page, ran, report, unfound } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { standard, whsec } from '../standard-webhooks.ts';

export const openai: Sender = standard({
  id: 'openai',
  name: 'OpenAI',
  secret: whsec('shown when the endpoint is created'),
  retries: {
    when: 'for up to 72 hours, more and more rarely',
    signed: 'anew',
    from: [
      page('platform.openai.com/docs/guides/webhooks', 'November 2026'),
      code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md'),
    ],
  },
  answer: {
    what: 'a 2xx within a few seconds; it does not follow redirects',
    from: page('platform.openai.com/docs/guides/webhooks', 'November 2026'),
  },
  evidence: {
    signature: ran('openai'),
    rotation: unfound(),
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
