/** Senders that sign a timestamp and the body, with the timestamp in a header of its own or in the body. */
import { body, fresh, freshIso, freshMs, header, headerOperand, hmac, utf8 } from './expressions.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import { isoSeconds, mac, numeric, seconds, uuid } from './signing.ts';

const theme = 'A signature of the body and a timestamp';

/** `v0:<time>:<body>`: Slack's form, which Zoom adopted. The headers: signature, timestamp. */
function v0(spec: SenderSpec & { readonly toleranceS: number }): Sender {
  const [signature = '', time = ''] = spec.headers;
  return sender(theme, {
    expression: (s) =>
      `${fresh(header(time), spec.toleranceS)}\n  AND secure_compare(${header(signature)},\n    'v0=' || ` +
      `${hmac(s, `${utf8(`'v0:' || ${headerOperand(time)} || ':'`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        [time]: seconds(nowMs),
        [signature]: `v0=${mac('sha256', signingKey, 'hex', `v0:${seconds(nowMs)}:`, body)}`,
      },
    }),
    ...spec,
  });
}

const boxTime = 'BOX-DELIVERY-TIMESTAMP';
const boxPart = (s: string, name: string) =>
  `secure_compare(${header(name)}, ${hmac(s, `payload || ${utf8(header(boxTime))}`, 'sha256', 'base64')})`;

const grafanaTime = 'X-Grafana-Alerting-Timestamp';
const grafanaSignature = 'X-Grafana-Alerting-Signature';
const zendeskTime = 'X-Zendesk-Webhook-Signature-Timestamp';
const webflowTime = 'X-Webflow-Timestamp';
const twitchTime = 'Twitch-Eventsub-Message-Timestamp';
const twitchId = 'Twitch-Eventsub-Message-Id';

export const timestampHeaderSenders: readonly Sender[] = [
  v0({
    id: 'slack',
    name: 'Slack',
    toleranceS: 300,
    headers: ['X-Slack-Signature', 'X-Slack-Request-Timestamp'],
    secret: { what: 'the app’s signing secret', where: 'the app → Basic Information → App Credentials' },
    deliveryId: { fields: [['event_id']] },
    steps: [
      'On api.slack.com open the app → Event Subscriptions and switch events on.',
      'Request URL: the URL of the table. Subscribe to the events and save.',
    ],
    notes: [
      "Slash commands and interactive messages are signed in the same way but are forms: give them a table of their own with `format = 'form'`.",
    ],
    example: ({ id, nowMs }) => ({
      type: 'event_callback',
      team_id: 'T123ABC456',
      event_id: `Ev${id.slice(0, 10).toUpperCase()}`,
      event_time: Math.floor(nowMs / 1000),
      event: { type: 'message', channel: 'C123ABC456', user: 'U123ABC456', text: 'Grüße ☕' },
    }),
  }),
  v0({
    id: 'zoom',
    name: 'Zoom',
    toleranceS: 300,
    headers: ['x-zm-signature', 'x-zm-request-timestamp'],
    secret: { what: 'the secret token', where: 'Zoom Marketplace → the app → Feature' },
    steps: [
      'On the Zoom Marketplace open the app → Feature → Event Subscriptions → Add.',
      'Event notification endpoint URL: the URL of the table. Choose the events and save.',
    ],
    example: ({ id, nowMs }) => ({
      event: 'meeting.started',
      event_ts: nowMs,
      payload: { account_id: 'AAAAAABBBB', object: { id: String(numeric(id)), uuid: id, topic: 'Café' } },
    }),
  }),
  sender(theme, {
    id: 'zendesk',
    name: 'Zendesk',
    toleranceS: 300,
    headers: ['X-Zendesk-Webhook-Signature', zendeskTime],
    secret: {
      what: 'the webhook’s signing secret',
      where: 'Apps and integrations → Webhooks → the webhook → Reveal secret',
    },
    deliveryId: { header: 'X-Zendesk-Webhook-Invocation-Id' },
    steps: [
      'In the Admin Center open Apps and integrations → Webhooks → Create webhook.',
      'Endpoint URL: the URL of the table, method POST, format JSON. Save and reveal the signing secret.',
    ],
    notes: [
      'The signature covers the timestamp and then the body, according to Zendesk’s current pages; an older page had them in reverse order.',
    ],
    expression: (s) =>
      `${freshIso(header(zendeskTime), 300)}\n  AND secure_compare(${header('X-Zendesk-Webhook-Signature')},\n    ` +
      `${hmac(s, `${utf8(header(zendeskTime))} || payload`, 'sha256', 'base64')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        [zendeskTime]: isoSeconds(nowMs),
        'X-Zendesk-Webhook-Signature': mac('sha256', signingKey, 'base64', isoSeconds(nowMs), body),
      },
    }),
    eventHeaders: ({ id }) => ({ 'X-Zendesk-Webhook-Invocation-Id': id }),
    example: ({ id, nowMs }) => ({
      id: uuid(id),
      type: 'zen:event-type:ticket.created',
      time: isoSeconds(nowMs),
      detail: { id: String(numeric(id)), subject: 'Où est ma commande ?', status: 'NEW' },
    }),
  }),
  sender(theme, {
    id: 'webflow',
    name: 'Webflow',
    toleranceS: 300,
    headers: ['X-Webflow-Signature', webflowTime],
    secret: {
      what: 'the app’s client secret, or the webhook’s secret key',
      where: 'shown when the webhook is created',
    },
    steps: [
      'Create the webhook in the site’s settings (Apps & integrations) or through the API, with the URL of the table.',
    ],
    expression: (s) =>
      `${freshMs(header(webflowTime), 300)}\n  AND secure_compare(${header('X-Webflow-Signature')},\n    ` +
      `${hmac(s, `${utf8(`${headerOperand(webflowTime)} || ':'`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        [webflowTime]: String(nowMs),
        'X-Webflow-Signature': mac('sha256', signingKey, 'hex', `${nowMs}:`, body),
      },
    }),
    example: ({ id, nowMs }) => ({
      triggerType: 'form_submission',
      payload: { id: id.slice(0, 24), name: 'Contact', submittedAt: nowMs, data: { Name: 'Zoë' } },
    }),
  }),
  sender(theme, {
    id: 'grafana',
    name: 'Grafana Alerting',
    toleranceS: 300,
    headers: [grafanaSignature, grafanaTime],
    secret: { what: 'the secret of the contact point’s HMAC signature', where: 'you choose it' },
    steps: [
      'Open Alerting → Contact points → Add contact point, integration Webhook, with the URL of the table.',
      `Under “HMAC signature” enter the secret, and \`${grafanaTime}\` as the timestamp header. Leave the other header as it is.`,
    ],
    notes: [
      'Without a timestamp header Grafana signs only the body, which this check does not accept. Grafana before version 12 does not sign: `USING basic_auth` or `USING bearer`.',
    ],
    source: 'Grafana’s page about the webhook contact point, and public receivers',
    expression: (s) =>
      `${fresh(header(grafanaTime), 300)}\n  AND secure_compare(${header(grafanaSignature)},\n    ` +
      `${hmac(s, `${utf8(`${headerOperand(grafanaTime)} || ':'`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        [grafanaTime]: seconds(nowMs),
        [grafanaSignature]: mac('sha256', signingKey, 'hex', `${seconds(nowMs)}:`, body),
      },
    }),
    example: ({ id, nowMs }) => ({
      receiver: 'headgate',
      status: 'firing',
      orgId: 1,
      alerts: [
        {
          status: 'firing',
          labels: { alertname: 'DiskFull' },
          startsAt: isoSeconds(nowMs),
          fingerprint: id.slice(0, 16),
        },
      ],
      title: '[FIRING:1] DiskFull (café-1)',
    }),
  }),
  sender(theme, {
    id: 'twitch',
    name: 'Twitch EventSub',
    toleranceS: 600,
    headers: ['Twitch-Eventsub-Message-Signature', twitchId, twitchTime],
    secret: { what: 'the subscription’s secret, 10 to 100 ASCII characters', where: 'you choose it' },
    deliveryId: { header: 'Twitch-Eventsub-Message-Id' },
    steps: [
      'Create subscriptions through the API: `transport.callback` is the URL of the table, `transport.secret` the secret.',
    ],
    expression: (s) =>
      `${freshIso(header(twitchTime), 600)}\n  AND secure_compare(${header('Twitch-Eventsub-Message-Signature')},\n    'sha256=' || ` +
      `${hmac(s, `${utf8(`${headerOperand(twitchId)} || ${headerOperand(twitchTime)}`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey, id }) => {
      const time = `${isoSeconds(nowMs).slice(0, -1)}.123456789Z`;
      return {
        headers: {
          [twitchId]: uuid(id),
          [twitchTime]: time,
          'Twitch-Eventsub-Message-Signature': `sha256=${mac('sha256', signingKey, 'hex', uuid(id), time, body)}`,
        },
      };
    },
    eventHeaders: () => ({
      'Twitch-Eventsub-Message-Type': 'notification',
      'Twitch-Eventsub-Subscription-Type': 'channel.follow',
    }),
    example: ({ id, nowMs }) => ({
      subscription: { id: uuid(id), type: 'channel.follow', status: 'enabled' },
      event: { user_login: 'zoe', broadcaster_user_login: 'acme', followed_at: isoSeconds(nowMs) },
    }),
  }),
  sender(theme, {
    id: 'box',
    name: 'Box (webhooks v2)',
    toleranceS: 600,
    headers: ['BOX-SIGNATURE-PRIMARY', 'BOX-SIGNATURE-SECONDARY', boxTime],
    secret: {
      what: 'the primary or the secondary signature key',
      where: 'Developer Console → the app → Webhooks',
    },
    deliveryId: { header: 'BOX-DELIVERY-ID' },
    steps: [
      'In the Developer Console open the app → Webhooks → Manage signature keys and generate both keys.',
      'Create the webhook (V2): the URL of the table, and the triggers.',
    ],
    notes: ['With both keys: `VALIDATE SECRET primary_key, secondary_key USING box`.'],
    expression: (s) =>
      `${freshIso(header(boxTime), 600)}\n  AND (${boxPart(s, 'BOX-SIGNATURE-PRIMARY')}\n    OR ${boxPart(s, 'BOX-SIGNATURE-SECONDARY')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        'BOX-SIGNATURE-VERSION': '1',
        'BOX-SIGNATURE-ALGORITHM': 'HmacSHA256',
        [boxTime]: isoSeconds(nowMs),
        'BOX-SIGNATURE-PRIMARY': mac('sha256', signingKey, 'base64', body, isoSeconds(nowMs)),
      },
    }),
    eventHeaders: ({ id }) => ({ 'BOX-DELIVERY-ID': uuid(id) }),
    example: ({ id, nowMs }) => ({
      type: 'webhook_event',
      id: uuid(id),
      created_at: isoSeconds(nowMs),
      trigger: 'FILE.UPLOADED',
      source: { id: String(numeric(id)), type: 'file', name: 'résumé.pdf' },
    }),
  }),
  sender(theme, {
    id: 'linear',
    name: 'Linear',
    toleranceS: 60,
    headers: ['Linear-Signature'],
    secret: { what: 'the webhook’s signing secret', where: 'Settings → API → Webhooks → the webhook' },
    deliveryId: { header: 'Linear-Delivery' },
    steps: [
      'Open Settings → API → Webhooks → New webhook.',
      'URL: the URL of the table. Choose the data and create it; copy the signing secret.',
    ],
    notes: [
      'The time is `webhookTimestamp` in the body: your own body for `headgate send` needs a current one.',
    ],
    expression: (s) =>
      `secure_compare(${header('Linear-Signature')}, ${hmac(s, 'payload', 'sha256', 'hex')})\n` +
      `  AND ${freshMs(`${body}->>'webhookTimestamp'`, 60)}`,
    sign: ({ body, signingKey }) => ({
      headers: { 'Linear-Signature': mac('sha256', signingKey, 'hex', body) },
    }),
    eventHeaders: ({ id }) => ({ 'Linear-Event': 'Issue', 'Linear-Delivery': uuid(id) }),
    example: ({ id, nowMs }) => ({
      action: 'update',
      type: 'Issue',
      data: { id: uuid(id), title: 'The café page is slow' },
      webhookTimestamp: nowMs,
    }),
  }),
];
