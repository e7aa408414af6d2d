/** Shopify. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, numeric, uuid } from '../signing.ts';

export const shopify: Sender = hmacBody({
  id: 'shopify',
  name: 'Shopify',
  encoding: 'base64',
  headers: ['X-Shopify-Hmac-Sha256'],
  secret: {
    what: 'the app’s client secret, or the key under the list of webhooks',
    where: 'in the app’s settings or in Settings → Notifications → Webhooks',
  },
  deliveryId: { header: 'X-Shopify-Webhook-Id' },
  steps: [
    'In the shop’s admin open Settings → Notifications → Webhooks → Create webhook.',
    'Choose the event, the format JSON and the URL of the table.',
    'Copy the key that the page says all webhooks are signed with.',
  ],
  notes: [
    'After a change of the secret, Shopify may sign with the old one for some time: list both secrets meanwhile.',
  ],
  eventHeaders: ({ id }) => ({
    'X-Shopify-Topic': 'orders/create',
    'X-Shopify-Shop-Domain': 'acme.myshopify.com',
    'X-Shopify-Webhook-Id': uuid(id),
  }),
  example: ({ id, nowMs }) => ({
    id: numeric(id),
    email: 'zoe@example.com',
    created_at: isoSeconds(nowMs),
    total_price: '199.00',
    currency: 'EUR',
    line_items: [{ id: 866550311766439, title: 'Café mug', quantity: 1, price: '199.00' }],
  }),
});
