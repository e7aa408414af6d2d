/** Coinbase Commerce. */
import { page, ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, isoTime, numeric, uuid } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const coinbase: readonly Sender[] = [
  hmacBody({
    id: 'coinbase_commerce',
    name: 'Coinbase Commerce',
    ended: 'Coinbase Commerce was closed on 31 March 2026: its successor sends as `USING coinbase_cdp`.',
    headers: ['X-CC-Webhook-Signature'],
    secret: { what: 'the webhook shared secret', where: 'Settings → Notifications' },
    delivery: unverified({ fields: [['event', 'id']] }),
    evidence: { signature: ran('coinbase-commerce-node') },
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
    aliases: ['coinbase'],
    name: 'Coinbase Developer Platform',
    time: 't',
    version: 'v0',
    toleranceS: 300,
    headers: ['X-Hook0-Signature'],
    secret: {
      what: 'the subscription’s secret',
      where: '`metadata.secret` in the answer of the call that creates it',
    },
    evidence: { signature: page('docs.cdp.coinbase.com, “Webhooks”', 'November 2026') },
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
