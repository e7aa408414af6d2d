/** BigCommerce. */
import { page, report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { textSecret } from '../sender.ts';
import { numeric } from '../signing.ts';
import { standard, standardNotes } from '../standard-webhooks.ts';

export const bigcommerce: Sender = standard({
  id: 'bigcommerce',
  name: 'BigCommerce',
  secret: {
    what: 'the client secret of the API account',
    where: 'Settings → API → the account, when it is created',
  },
  // Its key is the base64 of the client secret: the text itself.
  keyIsText: true,
  secretForm: null,
  makeSecret: textSecret('', 32),
  evidence: {
    signature: [
      page('docs.bigcommerce.com/webhooks/https', 'November 2026'),
      report('hookdeck/webhook-skills, which checks it with the package standardwebhooks'),
    ],
  },
  steps: [
    'Create webhooks through the API: `POST /v3/hooks` with `destination`, the URL of the table, and `scope`.',
  ],
  notes: [
    ...standardNotes,
    'A text of yours in a header (`headers` of the call that creates the webhook) is checked by `USING api_key` or `USING bearer`.',
  ],
  example: ({ id, nowMs }) => ({
    scope: 'store/order/created',
    store_id: '1025646',
    data: { type: 'order', id: numeric(id) },
    hash: id,
    created_at: Math.floor(nowMs / 1000),
  }),
});
