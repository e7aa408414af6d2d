/** Recharge. */
import { report } from '../evidence.ts';
import { header, utf8 } from '../expressions.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric, seconds } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

const [timed, older] = ['X-Recharge-Webhook-Signature', 'X-Recharge-Hmac-Sha256'] as const;
const toleranceS = 48 * 3_600;

const byTime = timestampedList({
  id: 'recharge',
  name: 'Recharge',
  time: 't',
  version: 'v1',
  toleranceS,
  headers: [timed, older],
  secret: { what: 'the API client secret', where: 'Tools & apps → API tokens → the token' },
  evidence: {
    signature: report(
      'hookdeck/webhook-skills, skills/recharge-webhooks, and other public receivers, read in November 2026',
    ),
  },
  steps: [
    'Create webhooks through the API: `POST /webhooks` with `address`, the URL of the table, and `topic`.',
  ],
  notes: [
    'Recharge signs twice. `X-Recharge-Webhook-Signature` covers the time, which may be 48 hours old. A request without it is checked by the older `X-Recharge-Hmac-Sha256`, which is a plain SHA-256 of the secret and the body and has no time.',
    'Somebody who has seen a request can leave the newer header out, and send it again, unchanged, at any time: `dedupe` or a key of the table stores it once.',
  ],
  eventHeaders: ({ nowMs }) => ({
    'X-Recharge-Topic': 'order/processed',
    'X-Recharge-Webhook-Timestamp': seconds(nowMs),
  }),
  example: ({ id, nowMs }) => ({
    order: {
      id: numeric(id),
      status: 'success',
      processed_at: isoTime(nowMs),
      customer: { email: 'zoe@example.com' },
    },
  }),
});

export const recharge: Sender = {
  ...byTime,
  expression: (s) =>
    `(${header(timed)} IS NULL\n  AND secure_compare(${header(older)}, encode(sha256(${utf8(s)} || payload), 'hex')))\n` +
    `  OR (${byTime.expression(s)})`,
};
