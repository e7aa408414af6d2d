/**
 * The senders' side of their handshakes, by id: what they send before they deliver, and what they accept as an answer.
 * Written from their documentation and not from answers.ts, which it verifies. Pure.
 */
import {
  isUuid,
  isHex,
  isNumber,
  question,
  byQuery,
  hub,
  websub,
  validation,
  head200,
  cloudEvents,
  refusal,
  wrongToken,
} from './challenges.ts';
import {
  all,
  atMost,
  challengeOf,
  empty,
  get,
  header,
  json,
  post,
  status,
  success,
  text,
  type,
} from './answer-checks.ts';
import { activationQuestions } from './questions-activation.ts';
import { testingQuestions } from './questions-testing.ts';
import { type HandshakeQuestion, formType } from './sender.ts';
import { numeric, uuid } from './signing.ts';

export const questions: Readonly<Record<string, readonly HandshakeQuestion[]>> = {
  ...testingQuestions,
  ...activationQuestions,
  slack: [
    question({
      what: 'for `challenge` back (url_verification)',
      withinMs: 3_000,
      ask: ({ signed, challenge }) =>
        signed(JSON.stringify({ token: 'Jhj5dZrVaK7ZwHHjRyZWjbDl', challenge, type: 'url_verification' })),
      // Slack accepts text, a form or JSON.
      judge: all(status(200), ({ body }, { challenge }) =>
        body.includes(challenge) ? null : 'the challenge is not in the body',
      ),
    }),
  ],
  meta: [hub({ judge: all(status(200), text(challengeOf)) }), wrongToken],
  strava: [
    hub({
      challenge: isHex,
      withinMs: 2_000,
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge }) => ({ 'hub.challenge': challenge })),
      ),
    }),
    wrongToken,
  ],
  websub: [
    websub,
    hub({
      what: 'for a topic that was not subscribed to',
      ask: ({ url, challenge }) =>
        get(url, {
          'hub.mode': 'subscribe',
          'hub.topic': 'https://evil.example/feed',
          'hub.challenge': challenge,
        }),
      judge: refusal,
    }),
  ],
  youtube: [websub],
  microsoft_graph: [validation('validationToken', 10_000)],
  sharepoint: [validation('validationtoken', 5_000)],
  azure_event_grid: [
    question({
      what: 'for the validation code back (SubscriptionValidation)',
      challenge: isUuid,
      withinMs: 30_000,
      ask: ({ signed, challenge, id, nowMs }) => {
        const sent = signed(
          JSON.stringify([
            {
              id: uuid(id),
              topic: '/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/shop',
              subject: '',
              data: {
                validationCode: challenge,
                validationUrl: `https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/shop/validate?id=${challenge}`,
              },
              eventType: 'Microsoft.EventGrid.SubscriptionValidationEvent',
              eventTime: new Date(nowMs).toISOString(),
              metadataVersion: '1',
              dataVersion: '1',
            },
          ]),
        );
        return { ...sent, headers: { ...sent.headers, 'aeg-event-type': 'SubscriptionValidation' } };
      },
      // Event Grid explicitly refuses 202.
      judge: all(
        status(200),
        json(({ challenge }) => ({ validationResponse: challenge })),
      ),
    }),
    cloudEvents('eventgrid.azure.net'),
  ],
  cloudevents: [cloudEvents('eventemitter.example.com')],
  dropbox: [byQuery('challenge', 10_000)],
  adobe_io: [byQuery('challenge', 10_000, isUuid)],
  nylas: [byQuery('challenge', 10_000, isUuid)],
  onfleet: [byQuery('check', 10_000, isHex)],
  acrobat_sign: [
    question({
      what: 'by GET for its client id back',
      withinMs: 5_000,
      ask: ({ url, signed }) => ({ ...signed('', { method: 'GET', url }), method: 'GET' }),
      judge: all(
        success,
        header('X-AdobeSign-ClientId', ({ signingKey }) => signingKey),
      ),
    }),
  ],
  okta: [
    question({
      what: 'by GET for `x-okta-verification-challenge` back',
      withinMs: 3_000,
      ask: ({ url, signed, challenge }) => {
        const { headers } = signed('', { method: 'GET', url });
        return {
          ...get(url, {}),
          headers: {
            Authorization: headers['Authorization'] ?? '',
            'x-okta-verification-challenge': challenge,
          },
        };
      },
      judge: all(
        status(200),
        json(({ challenge }) => ({ verification: challenge })),
      ),
    }),
  ],
  monday: [
    question({
      what: 'for `challenge` back',
      withinMs: 10_000,
      ask: ({ url, challenge }) => post(url, JSON.stringify({ challenge })),
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge }) => ({ challenge })),
      ),
    }),
  ],
  twitch: [
    question({
      what: 'for `challenge` back (webhook_callback_verification)',
      withinMs: 10_000,
      ask: ({ signed, challenge, id }) => {
        const sent = signed(
          JSON.stringify({
            challenge,
            subscription: {
              id: uuid(id),
              status: 'webhook_callback_verification_pending',
              type: 'channel.follow',
            },
          }),
        );
        return {
          ...sent,
          headers: { ...sent.headers, 'Twitch-Eventsub-Message-Type': 'webhook_callback_verification' },
        };
      },
      judge: all(success, type('text/plain'), text(challengeOf)),
    }),
  ],
  smartsheet: [
    question({
      what: 'for `Smartsheet-Hook-Challenge` back',
      challenge: isUuid,
      withinMs: 10_000,
      ask: ({ url, challenge, id }) =>
        post(url, JSON.stringify({ challenge, webhookId: numeric(id) }), {
          'Smartsheet-Hook-Challenge': challenge,
        }),
      judge: all(status(200), header('Smartsheet-Hook-Response', challengeOf)),
    }),
  ],
  ringcentral: [
    question({
      what: 'for `Validation-Token` back',
      withinMs: 3_000,
      challenge: isUuid,
      ask: ({ url, challenge }) => post(url, '', { 'Validation-Token': challenge }),
      judge: all(status(200), header('Validation-Token', challengeOf), atMost(1024)),
    }),
  ],
  trello: [head200],
  mandrill: [head200],
  intercom: [head200],
  mailchimp: [
    question({
      what: 'by GET whether the URL is there',
      withinMs: 10_000,
      ask: ({ url, signed }) => ({ ...get(signed('', { method: 'GET', url }).url, {}) }),
      judge: status(200),
    }),
  ],
  mailchimp_signed: [
    question({
      what: 'by GET whether the URL is there',
      withinMs: 10_000,
      ask: ({ url }) => get(url, {}),
      judge: status(200),
    }),
  ],
  woocommerce: [
    question({
      what: 'with a ping (`webhook_id=7`)',
      withinMs: 10_000,
      ask: ({ url }) =>
        post(url, 'webhook_id=7', {
          'Content-Type': formType,
          'User-Agent': 'WooCommerce/9.4.1 Hookshot (WordPress/6.7)',
        }),
      judge: status(200),
    }),
  ],
  toggl: [
    question({
      what: 'for `validation_code` back',
      challenge: isHex,
      withinMs: 10_000,
      ask: ({ signed, challenge, id, nowMs }) =>
        signed(
          JSON.stringify({
            event_id: numeric(id),
            created_at: new Date(nowMs).toISOString(),
            subscription_id: 1,
            payload: 'ping',
            validation_code: challenge,
            validation_code_url: 'https://api.track.toggl.com/webhooks/api/v1/validate/1/2',
          }),
        ),
      judge: all(
        success,
        json(({ challenge }) => ({ validation_code: challenge })),
      ),
    }),
  ],
  lark: [
    question({
      what: 'for `challenge` back (url_verification)',
      challenge: isUuid,
      withinMs: 1_000,
      ask: ({ url, challenge, signingKey }) =>
        post(url, JSON.stringify({ challenge, token: signingKey, type: 'url_verification' })),
      judge: all(
        status(200),
        json(({ challenge }) => ({ challenge })),
      ),
    }),
  ],
  vk: [
    question({
      what: 'for the string of the page (confirmation)',
      withinMs: 10_000,
      ask: ({ url, signingKey }) =>
        post(url, JSON.stringify({ type: 'confirmation', group_id: 1, secret: signingKey })),
      judge: all(
        status(200),
        text(({ answerKey }) => answerKey),
      ),
    }),
  ],
  fitbit: [
    question({
      what: 'by GET with the right code',
      withinMs: 10_000,
      ask: ({ url, answerKey }) => get(url, { verify: answerKey }),
      judge: all(status(204), empty),
    }),
    question({
      what: 'by GET with a wrong code',
      withinMs: 10_000,
      ask: ({ url, challenge }) => get(url, { verify: challenge }),
      judge: status(404),
    }),
  ],
  wechat: [
    question({
      what: 'by GET for `echostr` back',
      challenge: isNumber,
      withinMs: 5_000,
      ask: ({ url, challenge, signed }) =>
        get(signed('', { method: 'GET', url }).url, { echostr: challenge }),
      judge: all(status(200), text(challengeOf)),
    }),
  ],
  google_channels: [
    question({
      what: 'with a `sync` message',
      withinMs: 10_000,
      ask: ({ signed }) => {
        const sent = signed('');
        return {
          ...sent,
          headers: { ...sent.headers, 'X-Goog-Resource-State': 'sync', 'X-Goog-Message-Number': '1' },
        };
      },
      judge: status(200, 201, 202, 204),
    }),
  ],
};
