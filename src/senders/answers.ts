/**
 * What the senders ask before they deliver, in words, and the ANSWER clauses that USING brings for it; and the answer that
 * they expect after a delivery, if that is not an empty 200. The senders' own side is in questions.ts. By id. Texts only.
 */
import { activationAnswers } from './answers-activation.ts';
import { computedAnswers } from './answers-computed.ts';
import {
  type SenderAnswering,
  anyHead,
  checked,
  committed,
  echoHeader,
  echoQuery,
  isText,
  isThere,
  member,
  plain,
  query,
  token,
  unchecked,
  verifyToken,
} from './clauses.ts';
import { body, header } from './expressions.ts';

const typeIs = (type: string) => isText(member('type'), type);

const salesforceAck =
  '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>' +
  '<notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound"><Ack>true</Ack></notificationsResponse>' +
  '</soapenv:Body></soapenv:Envelope>';

const websub = (name: string): SenderAnswering => ({
  handshake: `When a subscription is created, renewed or ended, ${name} calls the URL with GET and \`hub.challenge\` and expects it back as text, if \`hub.topic\` is a topic that you subscribed to. A subscription ends with its lease (\`hub.lease_seconds\`): subscribe again in time.`,
  answerSecret: { what: 'the URL of the topic, as in `hub.topic`', where: 'you subscribe with it' },
  answers: ({ answer: secret }) =>
    secret === null
      ? []
      : [
          unchecked({
            secret,
            when: `method = 'GET' AND query->>'hub.mode' IN ('subscribe', 'unsubscribe')\n  AND secure_compare(${query('hub.topic')}, ${secret})`,
            type: 'text/plain',
            body: plain(query('hub.challenge')),
          }),
        ],
});

const validationToken = (name: string): SenderAnswering => ({
  handshake:
    'When a subscription is created or renewed, Microsoft calls the URL by POST with a `validationToken` in the query and an empty body, and expects the token back as text, within seconds.',
  answers: () => [
    unchecked({
      when: `${isThere(query(name))} AND length(payload) = 0`,
      type: 'text/plain',
      body: plain(query(name), 512),
    }),
  ],
});

const abuseProtection = (make: typeof checked) =>
  make({
    when: `method = 'OPTIONS' AND ${isThere(header('WebHook-Request-Origin'))}`,
    headers: {
      'WebHook-Allowed-Origin': token(header('WebHook-Request-Origin'), 253),
      'WebHook-Allowed-Rate': `'*'`,
      Allow: `'POST'`,
    },
  });

export const answering: Readonly<Record<string, SenderAnswering>> = {
  ...computedAnswers,
  ...activationAnswers,
  slack: {
    handshake:
      'When the URL is saved, Slack POSTs `{"type": "url_verification", "challenge": …}`, signed like any request, and expects the challenge back within 3 seconds.',
    answers: () => [
      checked({
        when: `${typeIs('url_verification')} AND ${member('event_id')} IS NULL`,
        type: 'text/plain',
        body: token(member('challenge')),
      }),
    ],
  },
  meta: {
    handshake:
      'When the URL is saved, Meta calls it with GET, `hub.verify_token` and `hub.challenge`, and expects the challenge back if the token is the one that you typed there.',
    answerSecret: {
      what: 'the verify token',
      where: 'you choose it; never use the app secret, because this one is sent in URLs',
    },
    answers: (secrets) => verifyToken(secrets, { type: 'text/plain', body: token(query('hub.challenge')) }),
  },
  strava: {
    handshake:
      'When the subscription is created, Strava calls the URL with GET, `hub.verify_token` and `hub.challenge`, and expects the challenge back as JSON within 2 seconds.',
    answerSecret: {
      what: 'the verify token',
      where: 'you choose it: `verify_token` of the call that subscribes',
    },
    answers: (secrets) =>
      verifyToken(secrets, {
        type: 'application/json',
        body: `json_object('hub.challenge', ${token(query('hub.challenge'))})`,
      }),
  },
  websub: websub('the hub'),
  youtube: websub('the hub'),
  microsoft_graph: validationToken('validationToken'),
  sharepoint: validationToken('validationtoken'),
  azure_event_grid: {
    handshake:
      'When the subscription is created or changed, Event Grid POSTs a `SubscriptionValidation` event, or with the CloudEvents schema sends OPTIONS with `WebHook-Request-Origin`, and expects the validation code, or the origin, back with 200.',
    answers: () => [
      checked({
        when: isText(header('aeg-event-type'), 'SubscriptionValidation'),
        type: 'application/json',
        body: `json_object('validationResponse', ${token(`${body} #>> '{0,data,validationCode}'`)})`,
      }),
      abuseProtection(checked),
    ],
  },
  cloudevents: {
    handshake:
      'Before its first delivery, or before each one, a sender may send OPTIONS with `WebHook-Request-Origin` and expects `WebHook-Allowed-Origin` to say that it may deliver.',
    answers: () => [abuseProtection(unchecked)],
  },
  dropbox: {
    handshake:
      'When the URL is added, Dropbox calls it with GET and `challenge` and expects it back as text within 10 seconds.',
    answers: () => [echoQuery('challenge')],
  },
  adobe_io: {
    handshake:
      'When the webhook is created, changed or retried, Adobe calls the URL with GET and `challenge`, a UUID, and expects it back as text.',
    answers: () => [
      unchecked({
        when: `method = 'GET' AND ${isThere(query('challenge'))}`,
        type: 'text/plain',
        body: `shaped(${query('challenge')}, 'uuid', 36)`,
      }),
    ],
  },
  nylas: {
    handshake:
      'When the webhook is created or activated, Nylas calls the URL with GET and `challenge` and expects it back as text within 10 seconds.',
    answers: () => [echoQuery('challenge')],
  },
  onfleet: {
    handshake:
      'When the webhook is created, Onfleet calls the URL with GET and `check` and expects it back as text, with 200 and no other status.',
    answers: () => [echoQuery('check')],
  },
  acrobat_sign: {
    handshake:
      'When the webhook is created, Acrobat Sign calls the URL with GET and its client id in `X-AdobeSign-ClientId`, and expects the same header in the answer, to that and to every notification.',
    answers: () => [
      checked({
        when: `method = 'GET'`,
        headers: { 'X-AdobeSign-ClientId': token(header('X-AdobeSign-ClientId'), 256) },
      }),
      committed({ headers: { 'X-AdobeSign-ClientId': header('X-AdobeSign-ClientId') } }),
    ],
  },
  okta: {
    handshake:
      'When an event hook is verified, Okta calls the URL with GET and `x-okta-verification-challenge`, with the same `Authorization` as later, and expects the challenge back as JSON within 3 seconds.',
    answers: () => [
      checked({
        when: `method = 'GET' AND ${isThere(header('X-Okta-Verification-Challenge'))}`,
        type: 'application/json',
        body: `json_object('verification', ${token(header('X-Okta-Verification-Challenge'), 256)})`,
      }),
    ],
  },
  xero: {
    handshake:
      '“Intent to receive”: Xero sends correctly and wrongly signed requests with empty `events` and expects 200 and 401, both within 5 seconds and the first without a body. They are answered like deliveries, and the correct ones become rows.',
  },
  discord: {
    handshake:
      'When the URL is saved, Discord POSTs a ping (`"type": 0`), signed, and expects 204 without a body; it also sends wrong signatures on purpose, then and later, and expects 401.',
    // Their documentation requires a type, although there is no body that could have one.
    answers: () => [
      checked({ when: typeIs('0'), status: 204, type: 'application/json' }),
      committed({ status: 204, type: 'application/json' }),
    ],
  },
  discord_interactions: {
    handshake:
      'When the URL is saved, and occasionally later, Discord POSTs a ping (`"type": 1`), signed, and expects `{"type":1}` as JSON within 3 seconds; it also sends wrong signatures on purpose and expects 401.',
    answers: () => [
      checked({
        when: `${typeIs('1')} AND ${body}->'event' IS NULL`,
        type: 'application/json',
        body: `'{"type":1}'`,
      }),
      committed({ type: 'application/json', body: `'{"type":5}'` }),
    ],
  },
  monday: {
    handshake:
      'When the webhook is created, monday.com POSTs `{"challenge": …}` without a token and expects it back as JSON.',
    answers: () => [
      unchecked({
        when: `${isThere(member('challenge'))} AND ${body}->'event' IS NULL`,
        type: 'application/json',
        body: `json_object('challenge', ${token(member('challenge'))})`,
      }),
    ],
  },
  twitch: {
    handshake:
      'For each subscription Twitch POSTs a `webhook_callback_verification`, signed like any request, and expects its challenge back as text within 10 seconds.',
    answers: () => [
      checked({
        when: isText(header('Twitch-Eventsub-Message-Type'), 'webhook_callback_verification'),
        type: 'text/plain',
        body: token(member('challenge')),
      }),
    ],
  },
  smartsheet: {
    handshake:
      'When the webhook is enabled, and occasionally while it delivers, Smartsheet POSTs a request with `Smartsheet-Hook-Challenge` and expects it back in the header `Smartsheet-Hook-Response`.',
    answers: () => [echoHeader('Smartsheet-Hook-Challenge', 'Smartsheet-Hook-Response')],
  },
  ringcentral: {
    handshake:
      'When the subscription is created, RingCentral POSTs a request with an empty body and `Validation-Token`, a random text of its own, and expects the same header in an answer of at most 1024 bytes within 3 seconds.',
    answers: () => [
      unchecked({
        when: `${isThere(header('Validation-Token'))} AND length(payload) = 0`,
        headers: { 'Validation-Token': token(header('Validation-Token'), 256) },
      }),
    ],
  },
  trello: {
    handshake: 'When the webhook is created, Trello sends HEAD to the URL and expects 200.',
    answers: () => [anyHead],
  },
  mandrill: {
    handshake: 'When the webhook is created, Mandrill sends HEAD to the URL and expects 200.',
    answers: () => [anyHead],
  },
  intercom: {
    handshake: 'When the URL is saved, Intercom sends HEAD to it and expects 200.',
    answers: () => [anyHead],
  },
  mailchimp: {
    handshake: 'When the webhook is created, Mailchimp calls the URL with GET and expects 200.',
    answers: () => [checked({ when: `method = 'GET'`, status: 200 })],
  },
  mailchimp_signed: {
    handshake: 'When the webhook is created, Mailchimp calls the URL with GET and expects 200.',
    answers: () => [unchecked({ when: `method = 'GET'`, status: 200 })],
  },
  woocommerce: {
    handshake:
      'When the webhook is saved, WooCommerce POSTs an unsigned form `webhook_id=…` and activates the webhook only after a 200.',
    answers: () => [
      unchecked({
        when: `method = 'POST' AND ${header('X-WC-Webhook-Signature')} IS NULL\n  AND ${isThere(`form(payload)->>'webhook_id'`)}`,
        status: 200,
      }),
    ],
  },
  toggl: {
    handshake:
      'When the subscription is created, Toggl POSTs a ping with a `validation_code`, signed like any request, and expects the code back as JSON.',
    answers: () => [
      checked({
        when: `${isText(member('payload'), 'ping')} AND ${isThere(member('validation_code'))}`,
        type: 'application/json',
        body: `json_object('validation_code', ${token(member('validation_code'))})`,
      }),
    ],
  },
  lark: {
    handshake:
      'When the URL is saved, Lark POSTs `{"type": "url_verification", "token": …, "challenge": …}` and expects the challenge back as JSON within a second.',
    answers: () => [
      checked({
        when: typeIs('url_verification'),
        type: 'application/json',
        body: `json_object('challenge', ${token(member('challenge'))})`,
      }),
      committed({ type: 'application/json', body: `'{}'` }),
    ],
  },
  vk: {
    handshake:
      'When the address is confirmed, VK POSTs `{"type": "confirmation"}`, with the secret key if one is set, and expects the string that it shows you.',
    answerSecret: {
      what: 'the string that the server has to return',
      where: 'on the page of the Callback API',
    },
    answers: ({ answer: secret }) => [
      ...(secret === null
        ? []
        : [checked({ secret, when: typeIs('confirmation'), type: 'text/plain', body: secret })]),
      committed({ type: 'text/plain', body: `'ok'` }),
    ],
  },
  fitbit: {
    handshake:
      'When the subscriber is added, Fitbit calls the URL with GET and `verify` twice, with the right code and with a wrong one, and expects 204 and 404.',
    answerSecret: { what: 'the verification code', where: 'in the subscriber’s settings' },
    answers: ({ answer: secret }) => [
      ...(secret === null
        ? []
        : [
            unchecked({
              secret,
              when: `method = 'GET' AND secure_compare(${query('verify')}, ${secret})`,
              status: 204,
            }),
            // A wrong code must get 404, and a request that no rule matches gets 405.
            unchecked({ when: `method = 'GET' AND ${isThere(query('verify'))}`, status: 404 }),
          ]),
      committed({ status: 204 }),
    ],
  },
  // It refuses a 200 that is not JSON.
  supabase_auth: { answers: () => [committed({ status: 204 })] },
  wechat: {
    handshake:
      'When the URL is saved, WeChat calls it with GET, a signature in the query and `echostr`, and expects that back as text within 5 seconds.',
    answers: () => [
      checked({
        when: `method = 'GET' AND ${isThere(query('echostr'))}`,
        type: 'text/plain',
        body: token(query('echostr')),
      }),
    ],
  },
  google_channels: {
    handshake:
      'When the channel is created, Google POSTs a `sync` message with an empty body and expects a 2xx. It carries the token like all others.',
    answers: () => [checked({ when: isText(header('X-Goog-Resource-State'), 'sync'), status: 200 })],
  },
  salesforce: {
    answers: () => [committed({ type: 'text/xml', body: `'${salesforceAck}'` })],
  },
  twilio_form: {
    answers: () => [committed({ type: 'text/xml', body: `'<Response/>'` })],
  },
  dropbox_sign: {
    answers: () => [committed({ type: 'text/plain', body: `'Hello API Event Received'` })],
  },
  microsoft_teams: {
    answers: () => [committed({ type: 'application/json', body: `'{"type":"message","text":""}'` })],
  },
  adyen: {
    answers: () => [committed({ type: 'text/plain', body: `'[accepted]'` })],
  },
  aws_sns: {
    handshake:
      'SNS first POSTs a signed `SubscriptionConfirmation` and delivers only after its `SubscribeURL` was opened. With `HEADGATE_CONFIRM_SUBSCRIPTIONS=sns` Headgate opens it, for a table that names the topic.',
  },
};
