/** LaunchDarkly. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const launchdarkly: Sender = hmacBody({
  id: 'launchdarkly',
  aliases: ['launch_darkly'],
  name: 'LaunchDarkly',
  headers: ['X-LD-Signature'],
  secret: { what: 'the signing secret', where: 'in the webhook’s settings, “Sign this webhook”' },
  delivery: unverified({ fields: [['_id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Integrations → Webhooks → Add with the URL of the table, and sign the webhook.'],
  example: ({ id, nowMs }) => ({
    _id: id.slice(0, 24),
    kind: 'flag',
    date: nowMs,
    name: 'checkout',
    titleVerb: 'turned on the flag',
  }),
});
