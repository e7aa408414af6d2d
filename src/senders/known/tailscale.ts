/** Tailscale. */
import { ran, unverified } from '../evidence.ts';
import { timestampedList } from '../timestamped.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const tailscale: Sender = timestampedList({
  id: 'tailscale',
  name: 'Tailscale',
  time: 't',
  version: 'v1',
  headers: ['Tailscale-Webhook-Signature'],
  toleranceS: 300,
  secret: {
    what: 'the webhook’s secret (`tskey-webhook-…`)',
    where: 'shown once when the endpoint is added',
  },
  delivery: unverified(),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Open the admin console → Settings → Webhooks → Add endpoint with the URL of the table, and copy the secret.',
  ],
  events: { what: 'event' },
  makeSecret: textSecret('tskey-webhook-', 16),
  example: ({ id, nowMs }) => [
    {
      timestamp: isoTime(nowMs),
      version: 1,
      type: 'nodeCreated',
      tailnet: 'example.com',
      message: 'Node café created',
      data: { nodeID: id },
    },
  ],
});
