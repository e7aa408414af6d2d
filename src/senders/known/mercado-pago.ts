/** Mercado Pago. */
import { ran, unverified } from '../evidence.ts';
import { element, elements, headerOperand, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac, numeric } from '../signing.ts';
import { query } from '../clauses.ts';

/** Parts that a request does not have are left out of the signed text. */
function manifestCheck(s: string): string {
  const at = element('x-signature', 'ts', ',');
  const id = query('data.id');
  const text = (value: string) =>
    `coalesce('id:' || ${value} || ';', '') || coalesce('request-id:' || ${headerOperand('x-request-id')} || ';', '') || 'ts:' || ${at} || ';'`;
  return [`lower(${id})`, `(${id})`]
    .map(
      (value) =>
        `secure_compare_any('v1=' || ${hmac(s, utf8(text(value)), 'sha256', 'hex')},\n    ${elements('x-signature', ',')})`,
    )
    .join('\n  OR ');
}

export const mercadoPago: Sender = sender('A signature of the URL or of fields', {
  id: 'mercado_pago',
  aliases: ['mercadopago'],
  name: 'Mercado Pago',
  headers: ['x-signature', 'x-request-id'],
  signsBody: false,
  expression: manifestCheck,
  sign: ({ url, nowMs, signingKey, id }) => {
    const full = new URL(url);
    full.searchParams.set('data.id', String(numeric(id)));
    full.searchParams.set('type', 'payment');
    const text = `id:${numeric(id)};request-id:${id};ts:${nowMs};`;
    return {
      headers: {
        'x-request-id': id,
        'x-signature': `ts=${nowMs},v1=${mac('sha256', signingKey, 'hex', text)}`,
      },
      url: full.href,
    };
  },
  secret: { what: 'the secret signature', where: 'Tus integraciones → the application → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: ran('mercadopago') },
  steps: [
    'In the developer panel open the application → Webhooks → Configure notifications, with the URL of the table and the events.',
  ],
  notes: [
    'The signature covers the id in the URL, the request’s id and the time, not the body: fetch what an event names through the API.',
    'The time is signed and not compared.',
  ],
  example: ({ id, nowMs }) => ({
    id: numeric(id),
    live_mode: true,
    type: 'payment',
    action: 'payment.updated',
    date_created: isoTime(nowMs),
    data: { id: String(numeric(id)) },
  }),
});
