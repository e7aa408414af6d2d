/** Asaas. */
import { known, page } from '../evidence.ts';
import { tokenHeader, chosen } from '../token-forms.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const asaas: Sender = tokenHeader('plain', {
  id: 'asaas',
  name: 'Asaas',
  headers: ['asaas-access-token'],
  secret: chosen(),
  delivery: known({ fields: [['id']] }, page('docs.asaas.com, “Webhooks FAQ”', 'November 2026')),
  retries: {
    when: 'until the queue is interrupted after 15 failures',
    signed: 'unsaid',
    from: page('docs.asaas.com, “Webhooks FAQ”', 'November 2026'),
  },
  answer: { what: 'a 200', from: page('docs.asaas.com, “Webhooks FAQ”', 'November 2026') },
  evidence: { signature: page('docs.asaas.com, “Webhooks FAQ”', 'November 2026') },
  steps: ['Open Integrações → Webhooks → Criar with the URL of the table and a token.'],
  notes: ['Asaas takes only 200 for success, tries again, and interrupts the queue after 15 failures.'],
  example: ({ id, nowMs }) => ({
    id: `evt_${id}`,
    event: 'PAYMENT_RECEIVED',
    dateCreated: isoTime(nowMs),
    payment: { id: `pay_${id.slice(0, 16)}`, value: 19.9 },
  }),
});
