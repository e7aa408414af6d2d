/** Unit. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const unit: Sender = hmacBody({
  id: 'unit',
  aliases: ['unit_co'],
  name: 'Unit',
  algorithm: 'sha1',
  encoding: 'base64',
  headers: ['x-unit-signature'],
  secret: { what: 'the webhook’s token', where: 'you choose it' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Developer → Webhooks → Create with the URL of the table and a token.'],
  example: ({ id, nowMs }) => ({
    data: [
      {
        id: String(numeric(id)),
        type: 'transaction.created',
        attributes: { createdAt: isoTime(nowMs), amount: 1999 },
      },
    ],
  }),
});
