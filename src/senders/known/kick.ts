/** Kick. */
import { code, known } from '../evidence.ts';
import { freshIso, header, headerOperand, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, privateKey, rsaSecret, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';
import { sign } from 'node:crypto';

export const kick: Sender = sender('A public key', {
  id: 'kick',
  name: 'Kick',
  secretForm: forms.pem,
  headers: ['Kick-Event-Signature', 'Kick-Event-Message-Id', 'Kick-Event-Message-Timestamp'],
  toleranceS: 600,
  expression: (s) =>
    `${freshIso(header('Kick-Event-Message-Timestamp'), 600)}\n  AND rsa_verify(${s},\n    ${utf8(`${headerOperand('Kick-Event-Message-Id')} || '.' || ${headerOperand('Kick-Event-Message-Timestamp')} || '.'`)} || payload,\n    decode(${header('Kick-Event-Signature')}, 'base64'), 'sha256')`,
  sign: ({ body, nowMs, signingKey, id }) => {
    const signed = Buffer.concat([Buffer.from(`${id}.${isoTime(nowMs)}.`), body]);
    return {
      headers: {
        'Kick-Event-Message-Id': id,
        'Kick-Event-Message-Timestamp': isoTime(nowMs),
        'Kick-Event-Signature': sign('sha256', signed, privateKey(signingKey)).toString('base64'),
      },
    };
  },
  paired: true,
  makeSecret: rsaSecret,
  secret: { what: 'Kick’s public key (PEM)', where: '`https://api.kick.com/public/v1/public-key`' },
  delivery: known(
    { header: 'Kick-Event-Message-Id' },
    code('KickEngineering/KickDevDocs c8a086c, events/webhook-security.md: an idempotent key'),
  ),
  evidence: {
    signature: code('KickEngineering/KickDevDocs c8a086c, events/webhook-security.md'),
    event: code('KickEngineering/KickDevDocs c8a086c, events/webhook-security.md'),
  },
  steps: [
    'In the developer settings open the app, enable webhooks and enter the URL of the table; subscribe through the API.',
  ],
  notes: ['Kick signs for all apps with the same key.'],
  eventHeaders: () => ({ 'Kick-Event-Type': 'chat.message.sent', 'Kick-Event-Version': '1' }),
  example: ({ id, nowMs }) => ({
    message_id: uuid(id),
    content: 'Grüße',
    created_at: isoTime(nowMs),
    sender: { username: 'zoe' },
  }),
});
