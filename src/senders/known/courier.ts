/** Courier. */
import { report } from '../evidence.ts';
import { element, elements, hmac, utf8 } from '../expressions.ts';
import { timestampedList } from '../timestamped.ts';
import type { Sender } from '../sender.ts';

export const courier: Sender = timestampedList({
  id: 'courier',
  name: 'Courier',
  time: 't',
  version: 'signature',
  headers: ['courier-signature'],
  milliseconds: true,
  expression: (s) => {
    const at = element('courier-signature', 't', ',');
    return `secure_compare_any('signature=' || ${hmac(s, `${utf8(`${at} || '.'`)} || payload`, 'sha256', 'hex')},\n    ${elements('courier-signature', ',')})`;
  },
  secret: { what: 'the webhook’s secret', where: 'Settings → Outbound Webhooks' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Outbound Webhooks → New Webhook with the URL of the table.'],
  notes: ['The time is signed and not compared.'],
  example: ({ id, nowMs }) => ({
    type: 'message:updated',
    data: { id, status: 'DELIVERED', updated: nowMs },
  }),
});
