/** PlanetScale. */
import { code, ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const planetscale: Sender = hmacBody({
  id: 'planetscale',
  aliases: ['planet_scale'],
  name: 'PlanetScale',
  headers: ['X-PlanetScale-Signature'],
  secret: { what: 'the webhook’s secret', where: 'Settings → Webhooks → the webhook → Show secret' },
  evidence: { signature: [ran('@trigger.dev/core'), code('planetscale/docs, docs/concepts/webhooks.md')] },
  steps: ['Open the database’s Settings → Webhooks → Add webhook with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    timestamp: Math.floor(nowMs / 1000),
    event: 'branch.ready',
    organization: 'acme',
    database: 'shop',
    resource: { id: id.slice(0, 12), name: 'café' },
  }),
});
