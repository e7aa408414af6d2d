/** BTCPay Server. */
import { unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const btcpay: Sender = hmacBody({
  id: 'btcpay',
  aliases: ['btcpay_server'],
  name: 'BTCPay Server',
  prefix: 'sha256=',
  headers: ['BTCPay-Sig'],
  secret: { what: 'the webhook’s secret', where: 'Store settings → Webhooks' },
  delivery: unverified({ fields: [['originalDeliveryId']] }),
  steps: ['Open the store’s Settings → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    deliveryId: id.slice(0, 22),
    webhookId: id.slice(0, 22),
    originalDeliveryId: id.slice(0, 22),
    isRedelivery: false,
    type: 'InvoiceSettled',
    timestamp: Math.floor(nowMs / 1000),
    invoiceId: id.slice(0, 22),
  }),
});
