/** WooCommerce. */
import { code, none } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds, numeric } from '../signing.ts';

export const woocommerce: Sender = hmacBody({
  id: 'woocommerce',
  name: 'WooCommerce',
  encoding: 'base64',
  headers: ['X-WC-Webhook-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: none(
    'WooCommerce never repeats a delivery, and X-WC-Webhook-Delivery-ID is a hash of the webhook and the second: two orders within one second have the same',
    code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
    'Store every request: there is nothing to tell apart.',
  ),
  retries: {
    when: null,
    signed: 'unsaid',
    from: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
  },
  answer: {
    what: 'a 2xx, 301 or 302 within a minute; after seven failures in a row it switches the webhook off',
    from: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
  },
  evidence: {
    secret: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
    rotation: code(
      'woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php: one secret, which signs once it is saved',
    ),
    signature: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
    handshake: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
    event: code('woocommerce/woocommerce, plugins/woocommerce/includes/class-wc-webhook.php'),
  },
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
