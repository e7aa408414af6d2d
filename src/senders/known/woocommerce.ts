/** WooCommerce. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, numeric } from '../signing.ts';

export const woocommerce: Sender = hmacBody({
  id: 'woocommerce',
  name: 'WooCommerce',
  encoding: 'base64',
  headers: ['X-WC-Webhook-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-WC-Webhook-Delivery-ID' },
  steps: [
    'Open WooCommerce → Settings → Advanced → Webhooks → Add webhook.',
    'Status: Active. Choose the topic, the delivery URL (the URL of the table) and the secret. Save.',
  ],
  eventHeaders: ({ id }) => ({
    'X-WC-Webhook-Topic': 'order.created',
    'X-WC-Webhook-Delivery-ID': id,
  }),
  example: ({ id, nowMs }) => ({
    id: numeric(id),
    status: 'processing',
    currency: 'EUR',
    date_created_gmt: isoSeconds(nowMs).replace('Z', ''),
    total: '29.35',
  }),
});
