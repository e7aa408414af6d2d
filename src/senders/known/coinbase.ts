/** Coinbase Commerce. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, isoTime, numeric, uuid } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const coinbase: readonly Sender[] = [
  hmacBody({
    id: 'coinbase_commerce',
    name: 'Coinbase Commerce',
    headers: ['X-CC-Webhook-Signature'],
    secret: { what: 'the webhook shared secret', where: 'Settings → Notifications' },
    deliveryId: { fields: [['event', 'id']] },
    steps: [
      'Open Settings → Notifications, add the URL of the table as an endpoint and show the shared secret.',
    ],
    example: ({ id, nowMs }) => ({
      id: numeric(id),
      scheduled_for: isoSeconds(nowMs),
      event: { id: uuid(id), type: 'charge:confirmed', data: { code: '66BEOV2A' } },
    }),
  }),
  timestampedList({
    id: 'coinbase_cdp',
    name: 'Coinbase Developer Platform',
    time: 't',
    version: 'v0',
    toleranceS: 300,
    headers: ['X-Hook0-Signature'],
    secret: {
      what: 'the subscription’s secret',
      where: '`metadata.secret` in the answer of the call that creates it',
    },
    steps: ['Create the subscription through the API with the URL of the table as its target.'],
    notes: [
      'The header also has a `v1` that covers some headers; the check uses the `v0`, which covers time and body.',
    ],
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      type: 'onchain.activity.detected',
      createdAt: isoTime(nowMs),
      data: { network: 'base-mainnet', value: '1250000' },
    }),
  }),
];
