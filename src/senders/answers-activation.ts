/** Answers to the questions of questions-activation.ts. By id. Texts only. */
import {
  type SenderAnswering,
  checked,
  committed,
  isText,
  isThere,
  learning,
  member,
  query,
  token,
  unchecked,
} from './clauses.ts';
import { body, header, hmac, utf8 } from './expressions.ts';

const hookSecret = token(header('X-Hook-Secret'));

/** The REST Hooks pattern, in which the secret that is brought signs all later requests. */
const bringsSecret = (handshake: string): SenderAnswering => ({
  handshake,
  answers: ({ secret }) => [
    learning({
      secret,
      when: `${isThere(header('X-Hook-Secret'))} AND ${header('X-Hook-Signature')} IS NULL`,
      value: hookSecret,
      headers: { 'X-Hook-Secret': hookSecret },
    }),
  ],
});

export const activationAnswers: Readonly<Record<string, SenderAnswering>> = {
  asana: bringsSecret(
    'During the call that creates the webhook, Asana POSTs a request with the header `X-Hook-Secret`, expects the same header in the answer, and signs with that value from then on.',
  ),
  clio: bringsSecret(
    'When the webhook is created, Clio POSTs a request with the header `X-Hook-Secret`, expects the same header in the answer, and signs with that value from then on.',
  ),
  notion: {
    handshake:
      'Notion first POSTs `{"verification_token": "secret_…"}` without a signature; a person pastes that token back into Notion, and it becomes the key.',
    answers: ({ secret }) => [
      learning({
        secret,
        when: `${isThere(member('verification_token'))} AND ${member('type')} IS NULL`,
        value: token(member('verification_token'), 256),
        status: 200,
      }),
    ],
  },
  keap: {
    handshake:
      'When the hook is created, or verified again, Keap POSTs a request with the header `X-Hook-Secret` and expects the same header in the answer, with 200.',
    answers: () => [
      checked({ when: isThere(header('X-Hook-Secret')), headers: { 'X-Hook-Secret': hookSecret } }),
    ],
  },
  wrike: {
    handshake:
      'When the webhook is created, Wrike POSTs `{"requestType": "WebHook secret verification"}` with a challenge in `X-Hook-Secret`, signed like any request, and expects an HMAC of the challenge in the same header.',
    // Events may have the header, too: the body tells them apart.
    answers: ({ secret }) => [
      checked({
        when: isText(member('requestType'), 'WebHook secret verification'),
        headers: { 'X-Hook-Secret': hmac(secret, utf8(hookSecret), 'sha256', 'hex') },
      }),
    ],
  },
  prelude: {
    handshake:
      'When the webhook is activated, Prelude calls the URL with GET, `event=activate`, `verification_token` and `challenge`, and expects the challenge back if the token is the one of the webhook.',
    answerSecret: {
      what: 'the verification token',
      where: 'you choose it: `verification_token` of the call that creates the webhook',
    },
    answers: ({ answer: secret }) =>
      secret === null
        ? []
        : [
            unchecked({
              secret,
              when: `method = 'GET' AND ${isText(query('event'), 'activate')}\n  AND secure_compare(${query('verification_token')}, ${secret})`,
              type: 'text/plain',
              body: `shaped(${query('challenge')}, 'digits', 20)`,
            }),
          ],
  },
  apideck: {
    handshake:
      'When the subscription is created, Apideck POSTs `{"message": "Validating delivery URL"}` and expects 200.',
    answers: () => [
      checked({ when: isText(header('x-apideck-event-type'), 'apideck.subscription.created'), status: 200 }),
    ],
  },
  dimo: {
    handshake:
      'When the webhook is created, DIMO POSTs `{"verification": …}` and expects the verification token as text.',
    answerSecret: { what: 'the verification token', where: 'you choose it: `verificationToken`' },
    answers: ({ answer: secret }) =>
      secret === null
        ? []
        : [checked({ secret, when: isThere(member('verification')), type: 'text/plain', body: secret })],
  },
  smartthings: {
    handshake:
      'When the app is registered, SmartThings POSTs a PING, which is not signed, and expects its challenge back as JSON; then it POSTs a CONFIRMATION with a URL that has to be opened.',
    answers: () => [
      unchecked({
        when: isText(member('lifecycle'), 'PING'),
        type: 'application/json',
        body: `'{"statusCode":200,"pingData":' || json_object('challenge', ${token(`${body} #>> '{pingData,challenge}'`)}) || '}'`,
      }),
      committed({ type: 'application/json', body: `'{"statusCode":200,"eventData":{}}'` }),
    ],
  },
};
