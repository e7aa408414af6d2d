/** Atlassian Connect apps. */
import { ran } from '../evidence.ts';
import { createHash } from 'node:crypto';
import { header } from '../expressions.ts';
import { type Sender, same, sender } from '../sender.ts';
import { hs256, numeric, token } from '../signing.ts';

export const atlassianConnect: Sender = sender('A public key', {
  id: 'atlassian_connect',
  name: 'Atlassian Connect apps',
  ended:
    'Atlassian Connect ends in December 2026, and private apps can no longer be installed since 31 March 2026: use `USING jira` with a webhook of the administration, or Forge.',
  headers: ['Authorization'],
  signsBody: false,
  secret: {
    what: 'the shared secret of the installation',
    where: '`sharedSecret` of the app’s `installed` callback',
  },
  evidence: { signature: ran('atlassian-jwt') },
  steps: ['Enter the URL of the table in the app’s descriptor (`modules.webhooks`).'],
  notes: [
    'The token’s `qsh` binds it to one URL; it is not compared, so a token for another URL of the same app is accepted.',
  ],
  expression: (s) => `jwt_verify(replace(${header('Authorization')}, 'JWT ', ''), ${s}) IS NOT NULL`,
  sign: ({ nowMs, signingKey, method, url }) => {
    const qsh = createHash('sha256')
      .update(`${method}&${new URL(url).pathname}&`)
      .digest('hex');
    const issued = Math.floor(nowMs / 1000);
    const claims = { iss: 'b0e3a1f2-client-key', iat: issued, exp: issued + 180, qsh };
    return {
      headers: { Authorization: `JWT ${token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey))}` },
    };
  },
  toleranceS: 180,
  makeSecret: (random) => same(random(48).toString('base64url')),
  example: ({ id, nowMs }) => ({
    timestamp: nowMs,
    webhookEvent: 'jira:issue_created',
    issue: { id: String(numeric(id)), key: 'SHOP-43' },
  }),
});
