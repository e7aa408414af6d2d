/** Alchemy. */
import { code, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const alchemy: Sender = hmacBody({
  id: 'alchemy',
  name: 'Alchemy',
  headers: ['X-Alchemy-Signature'],
  secret: { what: 'the webhook’s signing key', where: 'Dashboard → Webhooks → the webhook' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: code('alchemyplatform/webhook-examples 28a2888, node-express/src/webhooksUtil.ts') },
  steps: ['Open Data → Webhooks → Create webhook with the URL of the table, and copy the signing key.'],
  notes: ['The key is the whole text `whsec_…`, and not its base64.'],
  makeSecret: textSecret('whsec_', 12),
  example: ({ id, nowMs }) => ({
    webhookId: `wh_${id.slice(0, 16)}`,
    id: `whevt_${id.slice(0, 16)}`,
    createdAt: isoTime(nowMs),
    type: 'ADDRESS_ACTIVITY',
    event: { network: 'ETH_MAINNET' },
  }),
});
