/** Senders that sign only the bytes of the body: shops, payments, accounting, messages and forms. */
import { hmacBody } from './hmac-body.ts';
import type { Sender } from './sender.ts';
import { isoSeconds, isoTime, numeric, uuid } from './signing.ts';

const chosen = { what: 'the text you type as the secret', where: 'you choose it' } as const;
const shown = (what: string, where: string) => ({ what, where });

export const commerceSenders: readonly Sender[] = [
  hmacBody({
    id: 'shopify',
    name: 'Shopify',
    encoding: 'base64',
    headers: ['X-Shopify-Hmac-Sha256'],
    secret: shown(
      'the app’s client secret, or the key under the list of webhooks',
      'in the app’s settings or in Settings → Notifications → Webhooks',
    ),
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
  }),
  hmacBody({
    id: 'woocommerce',
    name: 'WooCommerce',
    encoding: 'base64',
    headers: ['X-WC-Webhook-Signature'],
    secret: chosen,
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
  }),
  hmacBody({
    id: 'razorpay',
    name: 'Razorpay',
    headers: ['X-Razorpay-Signature'],
    secret: chosen,
    deliveryId: { header: 'X-Razorpay-Event-Id' },
    steps: [
      'In the dashboard open Account & Settings → Webhooks → Add New Webhook.',
      'Webhook URL: the URL of the table. Secret: the text of the secret. Choose the events.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Razorpay-Event-Id': id.slice(0, 14) }),
    example: ({ id, nowMs }) => ({
      entity: 'event',
      event: 'payment.captured',
      payload: { payment: { entity: { id: `pay_${id.slice(0, 14)}`, amount: 500000, currency: 'INR' } } },
      created_at: Math.floor(nowMs / 1000),
    }),
  }),
  hmacBody({
    id: 'paystack',
    name: 'Paystack',
    algorithm: 'sha512',
    headers: ['x-paystack-signature'],
    secret: shown('the secret key (`sk_live_…`, `sk_test_…`)', 'Settings → API Keys & Webhooks'),
    steps: ['Open Settings → API Keys & Webhooks and enter the URL of the table as the webhook URL.'],
    example: ({ id, nowMs }) => ({
      event: 'charge.success',
      data: {
        id: numeric(id),
        reference: id.slice(0, 12),
        amount: 20000,
        currency: 'NGN',
        paid_at: isoTime(nowMs),
      },
    }),
  }),
  hmacBody({
    id: 'mollie',
    name: 'Mollie (signed webhooks)',
    prefix: 'sha256=',
    headers: ['X-Mollie-Signature'],
    secret: shown('the webhook’s signing secret', 'shown when the webhook is created'),
    deliveryId: { fields: [['id']] },
    steps: [
      'Create the webhook in the dashboard’s developer settings with the URL of the table, and copy its secret.',
    ],
    notes: [
      'The older webhooks of a payment (`webhookUrl`) are unsigned forms that contain only an id, and are not for this table.',
    ],
    example: ({ id, nowMs }) => ({
      resource: 'event',
      id: `event_${id.slice(0, 20)}`,
      type: 'payment-link.paid',
      createdAt: isoTime(nowMs),
    }),
  }),
  hmacBody({
    id: 'gocardless',
    name: 'GoCardless',
    headers: ['Webhook-Signature'],
    secret: shown('the endpoint’s secret', 'shown when the endpoint is created; you may choose it'),
    deliveryId: { ofEach: 'id', what: 'event', at: ['events'] },
    steps: [
      'In the dashboard open Developers → Create → Webhook endpoint, and enter the URL of the table and the secret.',
    ],
    notes: ['One request contains up to 250 events, which are stored as one row.'],
    example: ({ id, nowMs }) => ({
      events: [
        {
          id: `EV${id.slice(0, 14).toUpperCase()}`,
          created_at: isoTime(nowMs),
          resource_type: 'payments',
          action: 'confirmed',
          links: { payment: 'PM123' },
        },
      ],
    }),
  }),
  hmacBody({
    id: 'coinbase_commerce',
    name: 'Coinbase Commerce',
    headers: ['X-CC-Webhook-Signature'],
    secret: shown('the webhook shared secret', 'Settings → Notifications'),
    deliveryId: { fields: [['event', 'id']] },
    steps: [
      'Open Settings → Notifications, add the URL of the table as an endpoint and show the shared secret.',
    ],
    example: ({ id, nowMs }) => ({
      id: numeric(id),
      scheduled_for: isoSeconds(nowMs),
      event: { id: uuid(id), type: 'charge:confirmed', data: { code: '66BEOV2A' } },
    }),
  }),
  hmacBody({
    id: 'adyen_banking',
    name: 'Adyen (banking, management, platforms)',
    encoding: 'base64',
    key: 'hex',
    headers: ['HmacSignature'],
    secret: shown('the HMAC key, 64 hexadecimal digits', 'in the webhook’s security settings'),
    steps: [
      'In the Customer Area open Developers → Webhooks and choose the webhook.',
      'Server URL: the URL of the table. Generate an HMAC key under Security and save.',
    ],
    makeSecret: (random) => {
      const secret = random(32).toString('hex').toUpperCase();
      return { secret, signingKey: secret };
    },
    example: ({ id, nowMs }) => ({
      type: 'balancePlatform.payment.created',
      timestamp: isoTime(nowMs),
      data: { id: id.slice(0, 16).toUpperCase(), amount: { currency: 'EUR', value: 1000 } },
    }),
  }),
  hmacBody({
    id: 'xero',
    name: 'Xero',
    encoding: 'base64',
    headers: ['x-xero-signature'],
    secret: shown('the webhooks key', 'in the app, under Webhooks'),
    steps: [
      'On the developer site open the app → Webhooks, choose the events and enter the URL of the table.',
      'Copy the webhooks key into the secret first, then save: Xero tests the URL at once.',
    ],
    example: ({ id, nowMs }) => ({
      events: [
        { resourceId: uuid(id), eventDateUtc: isoTime(nowMs), eventType: 'UPDATE', eventCategory: 'INVOICE' },
      ],
      firstEventSequence: 1,
      lastEventSequence: 1,
    }),
  }),
  hmacBody({
    id: 'typeform',
    name: 'Typeform',
    prefix: 'sha256=',
    encoding: 'base64',
    headers: ['Typeform-Signature'],
    secret: chosen,
    deliveryId: { fields: [['event_id']] },
    steps: [
      'Open the form → Connect → Webhooks → Add a webhook with the URL of the table.',
      'Edit the webhook, enter the secret and switch it on.',
    ],
    example: ({ id, nowMs }) => ({
      event_id: id,
      event_type: 'form_response',
      form_response: {
        form_id: 'lT4Z3j',
        submitted_at: isoSeconds(nowMs),
        answers: [{ type: 'text', text: 'Zoë', field: { id: 'SMEUb7VJz92Q', type: 'short_text' } }],
      },
    }),
  }),
  hmacBody({
    id: 'cal_com',
    name: 'Cal.com',
    headers: ['X-Cal-Signature-256'],
    secret: chosen,
    steps: [
      'Open Settings → Developer → Webhooks → New: the URL of the table as subscriber URL, and the secret.',
    ],
    example: ({ id, nowMs }) => ({
      triggerEvent: 'BOOKING_CREATED',
      createdAt: isoTime(nowMs),
      payload: { uid: id, title: '30 min meeting', attendees: [{ name: 'Zoë', email: 'zoe@example.com' }] },
    }),
  }),
  hmacBody({
    id: 'patreon',
    name: 'Patreon',
    algorithm: 'md5',
    headers: ['X-Patreon-Signature'],
    secret: shown('the webhook’s secret', 'on the page of the webhooks'),
    steps: [
      'On the developer portal’s page of webhooks add the URL of the table, choose the triggers and copy the secret.',
    ],
    notes: ['Patreon sends an HMAC with MD5; it is weaker than the others, though not known to be broken.'],
    eventHeaders: () => ({ 'X-Patreon-Event': 'members:create' }),
    example: ({ id }) => ({
      data: {
        type: 'member',
        id: uuid(id),
        attributes: { full_name: 'Zoë', patron_status: 'active_patron' },
      },
    }),
  }),
];
