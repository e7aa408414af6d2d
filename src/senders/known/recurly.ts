/** Recurly. */
import { page, report, unverified } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

export const recurly: Sender = sender('A signature of the body and a timestamp', {
  id: 'recurly',
  name: 'Recurly',
  headers: ['recurly-signature'],
  expression: (s) => {
    const at = `split_part(${header('recurly-signature')}, ',', 1)`;
    return `secure_compare_any(${hmac(s, `${utf8(`${at} || '.'`)} || payload`, 'sha256', 'hex')},\n    string_to_array(replace(${header('recurly-signature')}, ' ', ''), ','))`;
  },
  sign: ({ body, nowMs, signingKey }) => ({
    headers: { 'recurly-signature': `${nowMs},${mac('sha256', signingKey, 'hex', `${nowMs}.`, body)}` },
  }),
  secret: { what: 'the endpoint’s secret key', where: 'Integrations → Webhooks → the endpoint' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  retries: {
    when: 'up to 10 times, more and more rarely',
    signed: 'unsaid',
    from: page('docs.recurly.com, “Automatic retries”', 'November 2026'),
  },
  answer: { what: 'a 2xx', from: page('docs.recurly.com, “Automatic retries”', 'November 2026') },
  steps: ['Open Integrations → Webhooks → New endpoint with the URL of the table, format JSON.'],
  notes: ['The time is signed and not compared. While a key is being changed the header has two signatures.'],
  example: ({ id, nowMs }) => ({
    id: id.slice(0, 12),
    object_type: 'account',
    site_id: id.slice(0, 12),
    event_type: 'created',
    event_time: isoTime(nowMs),
    account_code: 'zoe',
  }),
});
