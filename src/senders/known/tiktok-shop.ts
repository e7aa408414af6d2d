/** TikTok Shop. */
import { unverified } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { same, sender, type Sender } from '../sender.ts';
import { mac, numeric } from '../signing.ts';
import { forms } from '../secret-forms.ts';

export const tiktokShop: Sender = sender('A signature of the body', {
  id: 'tiktok_shop',
  name: 'TikTok Shop',
  secretForm: forms.keyAndSecret,
  headers: ['Authorization'],
  expression: (s) =>
    `secure_compare(${header('Authorization')},\n  ${hmac(`(${s}::jsonb->>'secret')`, `${utf8(`${s}::jsonb->>'key'`)} || payload`, 'sha256', 'hex')})`,
  sign: ({ body, signingKey }) => {
    const { key, secret } = JSON.parse(signingKey) as { key: string; secret: string };
    return { headers: { Authorization: mac('sha256', secret, 'hex', key, body) } };
  },
  makeSecret: (random) =>
    same(JSON.stringify({ key: random(8).toString('hex'), secret: random(20).toString('hex') })),
  secret: {
    what: 'JSON that contains app key and app secret: `{"key": "…", "secret": "…"}`',
    where: 'Partner Center → App & Service → the app',
  },
  delivery: unverified({ fields: [['tts_notification_id']] }),
  steps: [
    'In the Partner Center open the app → Manage API → Webhooks and enter the URL of the table for each topic.',
  ],
  example: ({ id, nowMs }) => ({
    type: 1,
    tts_notification_id: id,
    shop_id: '7494049642642441621',
    timestamp: Math.floor(nowMs / 1000),
    data: { order_id: String(numeric(id)), order_status: 'AWAITING_SHIPMENT' },
  }),
});
