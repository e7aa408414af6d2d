/** monday.com. */
import { report } from '../evidence.ts';
import { header } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { hs256, isoTime, numeric, token } from '../signing.ts';

export const monday: Sender = sender('A public key', {
  id: 'monday',
  aliases: ['monday_com'],
  name: 'monday.com',
  headers: ['Authorization'],
  signsBody: false,
  secret: { what: 'the app’s signing secret', where: 'Developer Center → the app → Basic information' },
  evidence: { signature: report('its documented scheme, signed with the package jose') },
  steps: ['Create the webhook from an app (integration) with the URL of the table.'],
  notes: ['Webhooks created on a board, without an app, carry no token and cannot be checked.'],
  expression: (s) => `jwt_verify(${header('Authorization')}, ${s}) IS NOT NULL`,
  sign: ({ nowMs, signingKey, url }) => {
    const claims = {
      aud: url,
      accountId: 12345678,
      iat: Math.floor(nowMs / 1000),
      exp: Math.floor(nowMs / 1000) + 300,
    };
    return { headers: { Authorization: token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey)) } };
  },
  toleranceS: 300,
  example: ({ id, nowMs }) => ({
    event: { type: 'create_pulse', boardId: 1771812698, pulseId: numeric(id), triggerTime: isoTime(nowMs) },
  }),
});
