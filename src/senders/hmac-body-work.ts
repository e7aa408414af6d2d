/** Senders that sign the bytes of the body with an HMAC in one header: work tools, deliveries, feeds, devices. */
import { header, hmac, utf8 } from './expressions.ts';
import { hmacBody } from './hmac-body.ts';
import { type Sender, type SenderSpec, same, sender, textSecret } from './sender.ts';
import { isoSeconds, isoTime, mac, numeric, uuid } from './signing.ts';

const theme = 'A signature of the body';
const shown = (what: string, where: string) => ({ what, where });

/** An Atom entry, as hubs send it: XML, which goes into a text column. */
const atom = (id: string, title: string, at: string) =>
  `<?xml version='1.0' encoding='UTF-8'?>\n<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>${id}</id><title>${title}</title><published>${at}</published></entry></feed>`;

const textNote =
  "The body is XML: with `format = 'text'` it is stored unchanged in a TEXT column, and `data::xml` parses it.";

/** WebSub lets the hub choose the digest: any of the known methods is accepted. */
function websub(
  methods: readonly ('sha1' | 'sha256')[],
  spec: Omit<SenderSpec, 'headers' | 'secret'>,
): Sender {
  const [first = 'sha1'] = methods;
  return sender(theme, {
    headers: ['X-Hub-Signature'],
    secret: shown('the text of `hub.secret`, at most 199 bytes', 'you subscribe with it'),
    contentType: 'application/atom+xml',
    expression: (s) =>
      methods
        .map(
          (method) =>
            `secure_compare(${header('X-Hub-Signature')}, '${method}=' || ${hmac(s, 'payload', method, 'hex')})`,
        )
        .join('\n  OR '),
    sign: ({ body, signingKey }) => ({
      headers: { 'X-Hub-Signature': `${first}=${mac(first, signingKey, 'hex', body)}` },
    }),
    ...spec,
    notes: [...(spec.notes ?? []), textNote],
  });
}

export const workSenders: readonly Sender[] = [
  hmacBody({
    id: 'clickup',
    name: 'ClickUp',
    headers: ['X-Signature'],
    secret: shown('`webhook.secret`', 'in the answer of the call that creates the webhook'),
    steps: [
      'Create webhooks through the API: `POST /team/{team_id}/webhook` with `endpoint`, the URL of the table, and the events.',
    ],
    source: 'ClickUp’s page “Webhook signature”',
    example: ({ id }) => ({
      event: 'taskUpdated',
      task_id: id.slice(0, 9),
      webhook_id: uuid(id),
      history_items: [{ id: String(numeric(id)), type: 1, field: 'status', user: { username: 'Zoë' } }],
    }),
  }),
  hmacBody({
    id: 'nylas',
    name: 'Nylas (v3)',
    headers: ['X-Nylas-Signature'],
    secret: shown('`webhook_secret`', 'in the answer of the call that creates the webhook'),
    deliveryId: { fields: [['id']] },
    steps: [
      'Create the table first, with any secret: Nylas calls it while the webhook is created.',
      'Create webhooks through the API: `POST /v3/webhooks` with `webhook_url`, the URL of the table. Put `webhook_secret` from the answer into the secret with `ALTER SECRET`.',
    ],
    source: 'Nylas’s own Node package and its page about webhooks',
    example: ({ id, nowMs }) => ({
      specversion: '1.0',
      type: 'message.created',
      source: '/google/emails/realtime',
      id,
      time: Math.floor(nowMs / 1000),
      webhook_delivery_attempt: 1,
      data: { application_id: uuid(id), object: { object: 'message', subject: 'Grüße ☕' } },
    }),
  }),
  hmacBody({
    id: 'onfleet',
    name: 'Onfleet',
    algorithm: 'sha512',
    key: 'hex',
    headers: ['X-Onfleet-Signature'],
    secret: shown('the webhook secret, hexadecimal digits', 'Settings → API & Webhooks'),
    steps: [
      'Open Settings → API & Webhooks → Add webhook with the URL of the table and a trigger; or `POST /webhooks`.',
    ],
    source: 'Onfleet’s pages “Webhook Authentication” and “Validation”',
    makeSecret: textSecret('', 32),
    example: ({ id, nowMs }) => ({
      taskId: id.slice(0, 24),
      actionContext: { type: 'ORGANIZATION', id: id.slice(8, 32) },
      triggerId: 3,
      triggerName: 'taskCompleted',
      time: nowMs,
    }),
  }),
  hmacBody({
    id: 'smartsheet',
    name: 'Smartsheet',
    headers: ['Smartsheet-Hmac-SHA256'],
    secret: shown('`sharedSecret`', 'in the answer of the call that creates the webhook'),
    steps: [
      'Create webhooks through the API: `POST /webhooks` with `callbackUrl`, the URL of the table. Put `sharedSecret` from the answer into the secret, then enable the webhook: `PUT /webhooks/{id}` with `{"enabled": true}`.',
    ],
    notes: ['The URL must use port 443, 8000, 8008, 8080 or 8443.'],
    source: 'Smartsheet’s pages about webhooks',
    example: ({ id, nowMs }) => ({
      nonce: uuid(id),
      timestamp: isoTime(nowMs),
      webhookId: 4503604829677444,
      scope: 'sheet',
      scopeObjectId: 4509506114742148,
      events: [{ objectType: 'row', eventType: 'updated', id: numeric(id), userId: 9007194052434043 }],
    }),
  }),
  sender(theme, {
    id: 'linkedin',
    name: 'LinkedIn',
    headers: ['X-LI-Signature'],
    secret: shown('the app’s client secret', 'the app → Auth'),
    steps: [
      'In the developer portal open the app → Webhooks and register the URL of the table; for leads, subscribe through the API.',
    ],
    notes: ['The signed text begins with `hmacsha256=`; the signature itself does not.'],
    source: 'LinkedIn’s page “Webhooks” (validation and signature)',
    expression: (s) =>
      `secure_compare(${header('X-LI-Signature')},\n  ${hmac(s, `${utf8(`'hmacsha256='`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, signingKey }) => ({
      headers: { 'X-LI-Signature': mac('sha256', signingKey, 'hex', 'hmacsha256=', body) },
    }),
    example: ({ id, nowMs }) => ({
      type: 'LEAD_ACTION',
      leadGenFormResponse: `urn:li:leadGenFormResponse:${uuid(id)}`,
      leadAction: 'CREATED',
      occurredAt: nowMs,
    }),
  }),
  hmacBody({
    id: 'toggl',
    name: 'Toggl Track',
    prefix: 'sha256=',
    headers: ['X-Webhook-Signature-256'],
    secret: shown('the subscription’s secret', 'you choose it, or the API creates it'),
    deliveryId: { fields: [['event_id']] },
    steps: [
      'Open the workspace’s Integrations → Webhooks → Create webhook with the URL of the table, the events and the secret.',
    ],
    source: 'Toggl’s API documentation, “Webhooks”',
    example: ({ id, nowMs }) => ({
      event_id: numeric(id),
      created_at: isoTime(nowMs),
      subscription_id: 1,
      payload: { id: numeric(id), description: 'Café', duration: 1800 },
      metadata: { action: 'updated', model: 'time_entry' },
    }),
  }),
  hmacBody({
    id: 'viber',
    name: 'Viber bots',
    headers: ['X-Viber-Content-Signature'],
    secret: shown('the bot’s authentication token', 'the bot’s account → Edit info'),
    // One message is delivered, then seen: the same token.
    deliveryId: { fields: [['event'], ['message_token']] },
    steps: ['Call `set_webhook` with `url`, the URL of the table, and the `event_types`.'],
    notes: ['`set_webhook` sends a signed event `webhook`; it is stored like any other.'],
    source: 'Viber’s own Node package',
    example: ({ id, nowMs }) => ({
      event: 'message',
      timestamp: nowMs,
      message_token: numeric(id),
      sender: { id: 'MDEyMzQ1Njc4OWFiY2RlZg==', name: 'Zoë' },
      message: { type: 'text', text: 'Привет' },
    }),
  }),
  sender(theme, {
    id: 'fitbit',
    name: 'Fitbit',
    headers: ['X-Fitbit-Signature'],
    secret: shown('the app’s client secret', 'dev.fitbit.com → the app'),
    steps: [
      'On dev.fitbit.com open the app and add a subscriber: the URL of the table, type JSON.',
      'Verify it there; then subscribe each user through the API.',
    ],
    notes: ['The key of the signature is the client secret followed by `&`.'],
    source: 'public receivers of Fitbit’s notifications; the handshake is general knowledge',
    expression: (s) =>
      `secure_compare(${header('X-Fitbit-Signature')}, ${hmac(`${s} || '&'`, 'payload', 'sha1', 'base64')})`,
    sign: ({ body, signingKey }) => ({
      headers: { 'X-Fitbit-Signature': mac('sha1', `${signingKey}&`, 'base64', body) },
    }),
    example: ({ id, nowMs }) => [
      {
        collectionType: 'activities',
        date: isoTime(nowMs).slice(0, 10),
        ownerId: id.slice(0, 6).toUpperCase(),
        ownerType: 'user',
        subscriptionId: '1',
      },
    ],
  }),
  sender(theme, {
    id: 'klaviyo',
    name: 'Klaviyo (system webhooks)',
    headers: ['Klaviyo-Signature', 'Klaviyo-Timestamp'],
    secret: shown('the webhook’s secret key', 'you choose it when the webhook is created'),
    deliveryId: { ofEach: 'external_id', what: 'event', at: ['data'] },
    steps: [
      'Open Integrations → Webhooks → Create webhook, or `POST /api/webhooks`, with the URL of the table, the topics and a secret key.',
    ],
    notes: [
      'The timestamp is signed, but in the form `Tue, 14 Apr 2026 03:50:12 GMT`, which an expression cannot parse: an old request is accepted again.',
    ],
    source: 'Klaviyo’s page “Working with system webhooks”',
    expression: (s) =>
      `secure_compare(${header('Klaviyo-Signature')},\n  ${hmac(s, `payload || ${utf8(header('Klaviyo-Timestamp'))}`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey }) => {
      const time = new Date(nowMs).toUTCString();
      return {
        headers: {
          'Klaviyo-Timestamp': time,
          'Klaviyo-Signature': mac('sha256', signingKey, 'hex', body, time),
        },
      };
    },
    eventHeaders: ({ id }) => ({ 'Klaviyo-Webhook-Id': id }),
    example: ({ id, nowMs }) => ({
      data: [
        {
          topic: 'event:klaviyo.sent_sms',
          external_id: id,
          payload: { data: { type: 'event', id: id.slice(0, 11) } },
        },
      ],
      meta: { klaviyo_account_id: 'ABC123', klaviyo_webhook_id: id, timestamp: isoTime(nowMs) },
    }),
  }),
  hmacBody({
    id: 'quickbooks',
    name: 'QuickBooks Online (Intuit)',
    encoding: 'base64',
    headers: ['intuit-signature'],
    secret: shown('the verifier token', 'the app → Webhooks'),
    deliveryId: { ofEach: 'id', what: 'event' },
    steps: [
      'On developer.intuit.com open the app → Webhooks, enter the URL of the table, choose the entities and save.',
      'Show the verifier token and put it into the secret.',
    ],
    notes: [
      'One request is a list of events (CloudEvents); the older form is an object with `eventNotifications`, which has no ids.',
    ],
    source: 'public receivers of Intuit’s webhooks',
    makeSecret: (random) => same(uuid(random(16).toString('hex'))),
    example: ({ id, nowMs }) => [
      {
        specversion: '1.0',
        id: uuid(id),
        source: 'intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=',
        type: 'qbo.invoice.created.v1',
        time: isoSeconds(nowMs),
        intuitentityid: '1234',
        intuitaccountid: '310687',
      },
    ],
  }),
  hmacBody({
    id: 'lemon_squeezy',
    name: 'Lemon Squeezy',
    headers: ['X-Signature'],
    secret: shown('the signing secret, 6 to 40 characters', 'you choose it'),
    steps: ['Open Settings → Webhooks → + with the URL of the table, the signing secret and the events.'],
    source: 'general knowledge of Lemon Squeezy’s page “Signing requests”',
    makeSecret: textSecret('', 20),
    eventHeaders: () => ({ 'X-Event-Name': 'order_created' }),
    example: ({ id, nowMs }) => ({
      meta: { event_name: 'order_created', custom_data: { customer_id: '25' } },
      data: {
        type: 'orders',
        id: String(numeric(id)),
        attributes: { status: 'paid', total: 1999, created_at: isoTime(nowMs) },
      },
    }),
  }),
  hmacBody({
    id: 'checkout',
    name: 'Checkout.com',
    headers: ['Cko-Signature'],
    secret: shown('the signature key of the workflow’s webhook action', 'you choose it or have it generated'),
    deliveryId: { fields: [['id']] },
    steps: [
      'Open Developers → Workflows → Add workflow → Receive webhook with the URL of the table, and show the signature key.',
    ],
    source: 'Checkout.com’s page “Set up your webhook receiver”',
    example: ({ id, nowMs }) => ({
      id: `evt_${id.slice(0, 26)}`,
      type: 'payment_approved',
      version: '1.0.0',
      created_on: isoTime(nowMs),
      data: { id: 'pay_waji3dd46ufudiuqnwgj2ub3d4', amount: 1999, currency: 'EUR' },
    }),
  }),
  websub(['sha256', 'sha1'], {
    id: 'websub',
    name: 'WebSub (any hub)',
    steps: [
      'Create the table first, and keep this running: `headgate websub <topic> --callback <the URL of the table> --secret-file …`. It subscribes at the hub that the feed names, and renews the subscription before it ends.',
      'By hand: POST a form to the hub with `hub.mode=subscribe`, `hub.topic`, `hub.callback` (the URL of the table) and `hub.secret`, and again before the lease ends.',
    ],
    notes: ['Hubs that sign with SHA-384 or SHA-512 need their own expression.'],
    source: 'the W3C’s recommendation WebSub',
    example: ({ id, nowMs }) => atom(`urn:uuid:${uuid(id)}`, 'Café', isoSeconds(nowMs)),
  }),
  websub(['sha1'], {
    id: 'youtube',
    name: 'YouTube (push notifications of channels)',
    steps: [
      "Create the table first, and keep this running: `headgate websub 'https://www.youtube.com/xml/feeds/videos.xml?channel_id=…' --hub https://pubsubhubbub.appspot.com/ --callback <the URL of the table> --secret-file …`. It subscribes, and renews the subscription before it ends.",
      'By hand: on pubsubhubbub.appspot.com/subscribe enter the URL of the table, the topic `https://www.youtube.com/xml/feeds/videos.xml?channel_id=…` and a secret, and subscribe; again before the lease ends.',
    ],
    source: 'the W3C’s recommendation WebSub, and general knowledge of Google’s hub, which signs with SHA-1',
    example: ({ id, nowMs }) => atom(`yt:video:${id.slice(0, 11)}`, 'Café ☕', isoSeconds(nowMs)),
  }),
];
