/** Sumsub. */
import { report } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const sumsub: Sender = hmacBody({
  id: 'sumsub',
  aliases: ['sum_sub'],
  name: 'Sumsub',
  headers: ['X-Payload-Digest'],
  expression: (s) =>
    (['sha256', 'sha512', 'sha1'] as const)
      .map((it) => `secure_compare(${header('X-Payload-Digest')}, ${hmac(s, 'payload', it, 'hex')})`)
      .join('\n  OR '),
  secret: { what: 'the webhook’s secret key', where: 'Dev space → Webhooks → the webhook' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Open Dev space → Webhooks → Create with the URL of the table, and generate a secret key; SHA-256 or SHA-512.',
  ],
  example: ({ id, nowMs }) => ({
    applicantId: id.slice(0, 24),
    correlationId: id,
    type: 'applicantReviewed',
    reviewResult: { reviewAnswer: 'GREEN' },
    createdAtMs: isoTime(nowMs),
  }),
});
