/** Monnify. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const monnify: Sender = hmacBody({
  id: 'monnify',
  name: 'Monnify',
  algorithm: 'sha512',
  headers: ['monnify-signature'],
  secret: { what: 'the client secret key', where: 'Developers → API Keys & Contracts' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Developers → Webhook URLs and enter the URL of the table.'],
  example: ({ id, nowMs }) => ({
    eventType: 'SUCCESSFUL_TRANSACTION',
    eventData: { transactionReference: id, amountPaid: 3000, paidOn: isoTime(nowMs) },
  }),
});
