/** PayMongo. */
import { page, report, unverified } from '../evidence.ts';
import { element, elements, hmac, utf8 } from '../expressions.ts';
import { timestampedList } from '../timestamped.ts';
import type { Sender } from '../sender.ts';

export const paymongo: Sender = timestampedList({
  id: 'paymongo',
  name: 'PayMongo',
  time: 't',
  version: 'li',
  headers: ['Paymongo-Signature'],
  expression: (s) => {
    const at = element('Paymongo-Signature', 't', ',');
    const digest = hmac(s, `${utf8(`${at} || '.'`)} || payload`, 'sha256', 'hex');
    return ['te', 'li']
      .map((it) => `secure_compare_any('${it}=' || ${digest},\n    ${elements('Paymongo-Signature', ',')})`)
      .join('\n  OR ');
  },
  secret: { what: 'the webhook’s `secret_key`', where: 'in the answer of the call that creates it' },
  delivery: unverified({ fields: [['data', 'id']] }),
  retries: {
    when: 'up to 12 times within 136 minutes',
    signed: 'unsaid',
    from: page('developers.paymongo.com, “Retry Logic”', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 30 seconds',
    from: page('developers.paymongo.com, “Retry Logic”', 'November 2026'),
  },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Create webhooks through the API: `POST /v1/webhooks` with `url`, the URL of the table.'],
  notes: ['`te` is the signature in test mode, `li` in live mode.', 'The time is signed and not compared.'],
  example: ({ id, nowMs }) => ({
    data: {
      id: `evt_${id.slice(0, 24)}`,
      type: 'event',
      attributes: { type: 'payment.paid', livemode: true, created_at: Math.floor(nowMs / 1000) },
    },
  }),
});
