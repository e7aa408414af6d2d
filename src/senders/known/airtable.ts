/** Airtable. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const airtable: Sender = hmacBody({
  id: 'airtable',
  name: 'Airtable',
  prefix: 'hmac-sha256=',
  key: 'base64',
  headers: ['X-Airtable-Content-MAC'],
  secret: {
    what: '`macSecretBase64`, base64 as it is',
    where: 'in the answer of the call that creates the webhook',
  },
  evidence: {
    signature: report('a public receiver’s table of signatures, read in November 2026'),
    secret: report('test/vectors.json'),
  },
  steps: [
    'Create a webhook for the base through the API, with `notificationUrl`, the URL of the table.',
    'Keep `macSecretBase64` from the answer.',
  ],
  notes: ['A notification says only that something changed; fetch the changes through the API.'],
  makeSecret: (random) => {
    const secret = random(32).toString('base64');
    return { secret, signingKey: secret };
  },
  example: ({ id, nowMs }) => ({
    base: { id: 'app00000000000000' },
    webhook: { id: `ach${id.slice(0, 14)}` },
    timestamp: isoTime(nowMs),
  }),
});
