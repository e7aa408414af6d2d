/** Anthropic (Claude). */
import { ran } from '../evidence.ts';
import { standard } from '../standard-webhooks.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const anthropic: Sender = standard({
  id: 'anthropic',
  aliases: ['claude'],
  name: 'Anthropic (Claude)',
  or: 'svix',
  secret: { what: 'the signing secret, `whsec_` and base64', where: 'shown when the webhook is created' },
  evidence: { signature: ran('@anthropic-ai/sdk') },
  steps: ['In the console open the workspace’s Settings → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: `event_${id.slice(0, 24)}`,
    type: 'event',
    created_at: isoTime(nowMs),
    data: { type: 'session.status_idled', id: `session_${id.slice(0, 24)}` },
  }),
});
