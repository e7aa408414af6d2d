/** Questions with which a sender activates an endpoint, or brings it the secret. By id. */
import { isNumber, isUuid, question, refusal } from './challenges.ts';
import { all, challengeOf, get, header, json, post, status, text, type } from './answer-checks.ts';
import type { HandshakeQuestion } from './sender.ts';
import { mac } from './signing.ts';

/** The key that is given becomes the table's: this can be asked only once, in the window of `learn`. */
const bringsSecret: readonly HandshakeQuestion[] = [
  question({
    what: 'for `X-Hook-Secret` back, which becomes the secret',
    withinMs: 10_000,
    ask: ({ url, signingKey }) => post(url, '{}', { 'X-Hook-Secret': signingKey }),
    judge: all(
      status(200, 204),
      header('X-Hook-Secret', ({ signingKey }) => signingKey),
    ),
  }),
];

const activate = (what: string, suffix: string, judge: HandshakeQuestion['judge']) =>
  question({
    what,
    challenge: isNumber,
    withinMs: 10_000,
    ask: ({ url, challenge, answerKey }) =>
      get(url, {
        event: 'activate',
        verification_token: `${answerKey}${suffix}`,
        challenge,
        app_id: '54e9ujn',
      }),
    judge,
  });

export const activationQuestions: Readonly<Record<string, readonly HandshakeQuestion[]>> = {
  asana: bringsSecret,
  clio: bringsSecret,
  notion: [
    question({
      what: 'with its `verification_token`, which becomes the secret',
      withinMs: 10_000,
      ask: ({ url, signingKey }) => post(url, JSON.stringify({ verification_token: signingKey })),
      judge: status(200),
    }),
  ],
  keap: [
    question({
      what: 'for `X-Hook-Secret` back',
      withinMs: 10_000,
      ask: ({ signed, challenge }) => {
        const sent = signed('');
        return { ...sent, headers: { ...sent.headers, 'X-Hook-Secret': challenge } };
      },
      judge: all(status(200), header('X-Hook-Secret', challengeOf)),
    }),
  ],
  wrike: [
    question({
      what: 'for an HMAC of `X-Hook-Secret` (WebHook secret verification)',
      withinMs: 10_000,
      ask: ({ signed, challenge }) => {
        const sent = signed('{"requestType":"WebHook secret verification"}');
        return { ...sent, headers: { ...sent.headers, 'X-Hook-Secret': challenge } };
      },
      judge: all(
        status(200),
        header('X-Hook-Secret', ({ challenge, signingKey }) => mac('sha256', signingKey, 'hex', challenge)),
      ),
    }),
  ],
  prelude: [
    activate('by GET for `challenge` back', '', all(status(200), text(challengeOf))),
    activate('by GET with a wrong verification token', 'x', refusal),
  ],
  apideck: [
    question({
      what: 'with a validating request',
      withinMs: 10_000,
      ask: ({ signed }) => {
        const sent = signed('{"message":"Validating delivery URL"}');
        const type = { 'x-apideck-event-type': 'apideck.subscription.created' };
        return { ...sent, headers: { ...sent.headers, ...type } };
      },
      judge: status(200),
    }),
  ],
  dimo: [
    question({
      what: 'for the verification token',
      withinMs: 10_000,
      ask: ({ signed }) => signed('{"verification":"test"}'),
      judge: all(
        status(200),
        text(({ answerKey }) => answerKey),
      ),
    }),
  ],
  smartthings: [
    question({
      what: 'with a PING for its challenge back',
      challenge: isUuid,
      withinMs: 10_000,
      ask: ({ url, challenge }) =>
        post(url, JSON.stringify({ lifecycle: 'PING', pingData: { challenge }, appId: challenge })),
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge }) => ({ statusCode: 200, pingData: { challenge } })),
      ),
    }),
  ],
};
