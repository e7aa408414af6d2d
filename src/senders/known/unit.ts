/** Unit. */
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
