/** Rootly. */
import { report, unverified } from '../evidence.ts';
import { element, elements, fresh, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, mac, seconds, uuid } from '../signing.ts';

export const rootly: Sender = sender('A signature of the body and a timestamp', {
  id: 'rootly',
  name: 'Rootly',
  headers: ['X-Rootly-Signature'],
  toleranceS: 300,
  expression: (s) => {
    const at = element('X-Rootly-Signature', 't', ',');
    return `${fresh(at, 300)}\n  AND secure_compare_any('v1=' || ${hmac(s, `${utf8(at)} || payload`, 'sha256', 'hex')},\n    ${elements('X-Rootly-Signature', ',')})`;
  },
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      'X-Rootly-Signature': `t=${seconds(nowMs)},v1=${mac('sha256', signingKey, 'hex', seconds(nowMs), body)}`,
    },
  }),
  secret: { what: 'the endpoint’s secret', where: 'Configuration → Webhooks' },
  delivery: unverified({ fields: [['event', 'id']] }),
  evidence: { signature: report('simstudioai/sim, its webhook providers') },
  steps: ['Open Configuration → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    event: { id: uuid(id), type: 'incident.created', issued_at: isoTime(nowMs) },
    data: { title: 'Disk full on café-1' },
  }),
});
