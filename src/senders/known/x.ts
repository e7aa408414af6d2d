/** X. */
import { page, report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const x: Sender = hmacBody({
  id: 'x',
  aliases: ['twitter'],
  name: 'X (Account Activity)',
  prefix: 'sha256=',
  encoding: 'base64',
  headers: ['x-twitter-webhooks-signature'],
  secret: { what: 'the app’s consumer secret', where: 'developer portal → the app → Keys and tokens' },
  evidence: {
    signature: report('a public receiver’s table of signatures, read in November 2026'),
    handshake: page('xdevplatform/docs, “Webhooks quickstart”', 'August 2026'),
  },
  retries: {
    when: 'up to three times within 5 minutes',
    signed: 'unsaid',
    from: page('developer.x.com, “Activity retries”', 'November 2026'),
  },
  answer: {
    what: 'a 200 within 3 seconds',
    from: page('developer.x.com, “Activity retries”', 'November 2026'),
  },
  steps: ['Register webhooks through the API with the URL of the table, and subscribe users to it.'],
  notes: ['The URL must not contain a port: X calls 443.'],
  example: ({ id, nowMs }) => ({
    for_user_id: '2244994945',
    tweet_create_events: [{ id_str: String(numeric(id)), text: 'Zoë ☕', timestamp_ms: String(nowMs) }],
  }),
});
