/** Midtrans. */
import { report } from '../evidence.ts';
import { field, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { createHash } from 'node:crypto';

export const midtrans: Sender = sender('A signature of the URL or of fields', {
  id: 'midtrans',
  name: 'Midtrans',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  expression: (s) =>
    `secure_compare(${field('signature_key')},\n  encode(sha512(${utf8(`(${field('order_id')}) || (${field('status_code')}) || (${field('gross_amount')}) || ${s}`)}), 'hex'))`,
  sign: ({ body, signingKey }) => {
    const event = JSON.parse(body.toString()) as Record<string, string>;
    const text = `${event['order_id']}${event['status_code']}${event['gross_amount']}${signingKey}`;
    const signature = createHash('sha512').update(text).digest('hex');
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...event, signature_key: signature })) };
  },
  secret: { what: 'the server key', where: 'Settings → Access Keys' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Configuration, and enter the URL of the table as the payment notification URL.'],
  notes: ['The signature covers the order’s number, the status code and the amount, not the whole body.'],
  example: ({ id, nowMs }) => ({
    transaction_id: uuid(id),
    order_id: id.slice(0, 12),
    status_code: '200',
    gross_amount: '19990.00',
    transaction_status: 'settlement',
    transaction_time: isoTime(nowMs),
  }),
});
