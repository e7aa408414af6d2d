/** Persona. */
import { unverified } from '../evidence.ts';
import { fresh, header, hmac, utf8 } from '../expressions.ts';
import { timestampedList } from '../timestamped.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const persona: Sender = timestampedList({
  id: 'persona',
  name: 'Persona',
  time: 't',
  version: 'v1',
  headers: ['Persona-Signature'],
  toleranceS: 300,
  expression: (s) => {
    const parts = `replace(${header('Persona-Signature')}, ' ', ',')`;
    const at = `split_part(split_part(',' || ${parts}, ',t=', 2), ',', 1)`;
    const digest = hmac(s, `${utf8(`${at} || '.'`)} || payload`, 'sha256', 'hex');
    return `${fresh(at, 300)}\n  AND secure_compare_any('v1=' || ${digest},\n    string_to_array(${parts}, ','))`;
  },
  secret: { what: 'the webhook’s secret (`wbhsec_…`)', where: 'Dashboard → Webhooks → the webhook' },
  delivery: unverified({ fields: [['data', 'id']] }),
  steps: [
    'Open Webhooks → Create webhook with the URL of the table, choose the events, and copy the secret.',
  ],
  notes: [
    'While a secret is being changed, the header contains two lists with a blank between them; either `v1` may match.',
  ],
  makeSecret: textSecret('wbhsec_', 16),
  example: ({ id, nowMs }) => ({
    data: {
      type: 'event',
      id: `evt_${id.slice(0, 24)}`,
      attributes: { name: 'inquiry.completed', 'created-at': isoTime(nowMs) },
    },
  }),
});
