/** Auth0 log and event streams. */
import { report, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const auth0: Sender = tokenHeader('bearer', {
  id: 'auth0',
  name: 'Auth0 log and event streams',
  headers: ['Authorization'],
  secret: chosen(),
  delivery: unverified({ ofEach: 'log_id' }),
  events: { what: 'log entry' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open Monitoring → Streams → Create Stream → Custom Webhook with the URL of the table.',
    'Authorization token: `Bearer ` and the text of the secret. Content format: JSON Array.',
  ],
  example: ({ id, nowMs }) => [
    { log_id: id, data: { date: isoTime(nowMs), type: 's', user_name: 'zoe@example.com' } },
  ],
});
