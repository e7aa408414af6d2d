/** BTCPay Server. */
import { code, known } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const btcpay: Sender = hmacBody({
  id: 'btcpay',
  aliases: ['btcpay_server'],
  name: 'BTCPay Server',
  prefix: 'sha256=',
  headers: ['BTCPay-Sig'],
  secret: { what: 'the webhook’s secret', where: 'Store settings → Webhooks' },
  delivery: known(
    { fields: [['originalDeliveryId']], stays: [['type'], ['timestamp'], ['invoiceId']] },
    code('btcpayserver/btcpayserver 03345c2, BTCPayServer/Plugins/Webhooks/WebhookSender.cs'),
  ),
  retries: {
    when: 'after 10 seconds, 1 minute, and six times after 10 minutes, if automatic redelivery is on',
    afterS: [10, 70, 670, 1270, 1870, 2470, 3070, 3670],
    signed: 'anew',
    from: code('btcpayserver/btcpayserver 03345c2, BTCPayServer/Plugins/Webhooks/WebhookSender.cs'),
  },
  answer: {
    what: 'a 2xx; it tries again after 408, 429 and 5xx',
    from: code('btcpayserver/btcpayserver 03345c2, BTCPayServer/Plugins/Webhooks/WebhookSender.cs'),
  },
  evidence: {
    signature: code('btcpayserver/btcpayserver 03345c2, BTCPayServer/Plugins/Webhooks/WebhookSender.cs'),
  },
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
