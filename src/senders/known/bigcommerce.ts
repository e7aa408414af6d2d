/** BigCommerce. */
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const bigcommerce: Sender = tokenHeader('plain', {
  id: 'bigcommerce',
  name: 'BigCommerce',
  headers: ['Authorization'],
  secret: chosen(),
  deliveryId: { fields: [['hash']] },
  steps: [
    'Create webhooks through the API: `destination` is the URL of the table, `headers` contains `Authorization` with the text of the secret.',
  ],
  example: ({ id, nowMs }) => ({
    scope: 'store/order/created',
    store_id: '1025646',
    data: { type: 'order', id: numeric(id) },
    hash: id,
    created_at: Math.floor(nowMs / 1000),
  }),
});
