/** Crisp. */
import { ran } from '../evidence.ts';
import { freshMs, header, headerOperand, hmac, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const crisp: Sender = sender('A signature of the body and a timestamp', {
  id: 'crisp',
  name: 'Crisp',
  headers: ['X-Crisp-Signature', 'X-Crisp-Request-Timestamp'],
  toleranceS: 300,
  expression: (s) =>
    `${freshMs(header('X-Crisp-Request-Timestamp'), 300)}\n  AND secure_compare(${header('X-Crisp-Signature')},\n    ${hmac(s, `${utf8(`'[' || ${headerOperand('X-Crisp-Request-Timestamp')} || ';'`)} || payload || ${utf8(`']'`)}`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      'X-Crisp-Request-Timestamp': String(nowMs),
      'X-Crisp-Signature': mac('sha256', signingKey, 'hex', `[${nowMs};`, body, ']'),
    },
  }),
  secret: { what: 'the signing secret', where: 'the plugin’s settings in the Marketplace' },
  evidence: { signature: ran('crisp-api') },
  steps: ['In the Marketplace open the plugin → Web Hooks, with the URL of the table and the events.'],
  example: ({ id, nowMs }) => ({
    website_id: uuid(id),
    event: 'message:send',
    timestamp: nowMs,
    data: { content: 'Grüße' },
  }),
});
