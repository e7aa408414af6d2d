/** Gong. */
import { report } from '../evidence.ts';
import { header } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, numeric, privateKey, rsaSecret, token } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { createHash, sign } from 'node:crypto';

export const gong: Sender = sender('A public key', {
  id: 'gong',
  name: 'Gong',
  headers: ['Authorization'],
  secretForm: forms.pem,
  expression: (s) =>
    `secure_compare(jwt_verify(replace(${header('Authorization')}, 'Bearer ', ''), ${s})->>'body_sha256', encode(sha256(payload), 'hex'))`,
  sign: ({ body, url, nowMs, signingKey }) => {
    const issued = Math.floor(nowMs / 1000);
    const digest = createHash('sha256').update(body).digest('hex');
    const claims = { webhook_url: url, body_sha256: digest, iat: issued, exp: issued + 300 };
    const text = token({ alg: 'RS256', typ: 'JWT' }, claims, (signed) =>
      sign('sha256', Buffer.from(signed), privateKey(signingKey)),
    );
    return { headers: { Authorization: text } };
  },
  paired: true,
  makeSecret: rsaSecret,
  toleranceS: 300,
  secret: { what: 'the rule’s public key (PEM)', where: 'Settings → Automation rules → the rule' },
  evidence: { signature: report('simstudioai/sim, its webhook providers') },
  steps: [
    'Open Settings → Automation rules → the rule → Fire webhook, with the URL of the table and “Signed JWT header”.',
  ],
  example: ({ id, nowMs }) => ({
    callData: { metaData: { id: String(numeric(id)), title: 'Café', started: isoTime(nowMs) } },
    isTest: false,
  }),
});
