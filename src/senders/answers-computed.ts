/** Answers that are computed: an HMAC or a digest of a challenge that has a shape no event has. By id. Texts only. */
import {
  type SenderAnswering,
  checked,
  isText,
  isThere,
  member,
  query,
  token,
  unchecked,
} from './clauses.ts';
import { body, hmac, utf8 } from './expressions.ts';

const zoomToken = token(`${body} #>> '{payload,plainToken}'`);

export const computedAnswers: Readonly<Record<string, SenderAnswering>> = {
  zoom: {
    handshake:
      'Zoom POSTs `endpoint.url_validation`, when the URL is saved and again every 72 hours, signed like any request, and expects an HMAC of its `plainToken`. It sends nothing more to a URL that does not answer.',
    answers: ({ secret }) => [
      checked({
        when: isText(member('event'), 'endpoint.url_validation'),
        type: 'application/json',
        body: `json_object('plainToken', ${zoomToken},\n    'encryptedToken', ${hmac(secret, utf8(zoomToken), 'sha256', 'hex')})`,
      }),
    ],
  },
  x: {
    handshake:
      'X calls the URL with GET and `crc_token`, when it is registered and again every hour, and expects an HMAC of it. It sends nothing more to a URL that does not answer.',
    answers: ({ secret }) => [
      unchecked({
        when: `method = 'GET' AND ${isThere(query('crc_token'))}`,
        type: 'application/json',
        body: `json_object('response_token',\n    'sha256=' || ${hmac(secret, utf8(token(query('crc_token'))), 'sha256', 'base64')})`,
      }),
    ],
  },
  linkedin: {
    handshake:
      'LinkedIn calls the URL with GET and `challengeCode`, when it is registered and again every two hours, and expects an HMAC of it as JSON. After three failures it sends nothing more.',
    answers: ({ secret }) => {
      const code = `shaped(${query('challengeCode')}, 'uuid', 36)`;
      return [
        unchecked({
          when: `method = 'GET' AND ${isThere(query('challengeCode'))}`,
          type: 'application/json',
          body: `json_object('challengeCode', ${code},\n    'challengeResponse', ${hmac(secret, utf8(code), 'sha256', 'hex')})`,
        }),
      ];
    },
  },
  ebay: {
    handshake:
      'When the endpoint is saved, eBay calls it with GET and `challenge_code` and expects, as JSON, the SHA-256 of the code, the verification token and the URL as registered.',
    answerSecret: {
      what: 'the verification token immediately followed by the URL as it is registered at eBay, as one text',
      where: 'you choose the token (32 to 80 letters, digits, `_`, `-`)',
    },
    answers: ({ answer: secret }) =>
      secret === null
        ? []
        : [
            unchecked({
              secret,
              when: `method = 'GET' AND ${isThere(query('challenge_code'))}`,
              type: 'application/json',
              body: `json_object('challengeResponse',\n    encode(sha256(${utf8(`${token(query('challenge_code'))} || ${secret}`)}), 'hex'))`,
            }),
          ],
  },
  braintree: {
    handshake:
      'When the webhook is created, Braintree calls the URL with GET and `bt_challenge` and expects the public key and an HMAC of the challenge.',
    // VALIDATE's own secret is never shown, not even the part of it that is not secret.
    answerSecret: { what: 'the public key', where: 'Settings → API → Keys' },
    answers: ({ secret, answer }) =>
      answer === null
        ? []
        : [
            unchecked({
              secret: answer,
              when: `method = 'GET' AND ${isThere(query('bt_challenge'))}`,
              type: 'text/plain',
              body: `${answer} || '|' ||\n    ${hmac(`sha1(${utf8(`${secret}::jsonb->>'private_key'`)})`, utf8(`shaped(${query('bt_challenge')}, 'hex', 32)`), 'sha1', 'hex')}`,
            }),
          ],
  },
};
