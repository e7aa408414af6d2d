/** Questions that test whether the receiver has the key: it must sign a challenge, or tell correct signatures from wrong ones. */
import { createHash } from 'node:crypto';
import { discordPing, isHex, isUuid, question, wronglySigned, xeroIntent } from './challenges.ts';
import { all, empty, get, json, status, text, type } from './answer-checks.ts';
import type { HandshakeQuestion } from './sender.ts';
import { mac } from './signing.ts';

export const testingQuestions: Readonly<Record<string, readonly HandshakeQuestion[]>> = {
  zoom: [
    question({
      what: 'for an HMAC of `plainToken` (endpoint.url_validation)',
      withinMs: 3_000,
      ask: ({ signed, challenge, nowMs }) =>
        signed(
          JSON.stringify({
            event: 'endpoint.url_validation',
            payload: { plainToken: challenge },
            event_ts: nowMs,
          }),
        ),
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge, signingKey }) => ({
          plainToken: challenge,
          encryptedToken: mac('sha256', signingKey, 'hex', challenge),
        })),
      ),
    }),
  ],
  x: [
    question({
      what: 'by GET for an HMAC of `crc_token`',
      withinMs: 3_000,
      ask: ({ url, challenge }) => get(url, { crc_token: challenge }),
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge, signingKey }) => ({
          response_token: `sha256=${mac('sha256', signingKey, 'base64', challenge)}`,
        })),
      ),
    }),
  ],
  linkedin: [
    question({
      what: 'by GET for an HMAC of `challengeCode`',
      challenge: isUuid,
      withinMs: 3_000,
      ask: ({ url, challenge }) => get(url, { challengeCode: challenge }),
      judge: all(
        status(200),
        type('application/json'),
        json(({ challenge, signingKey }) => ({
          challengeCode: challenge,
          challengeResponse: mac('sha256', signingKey, 'hex', challenge),
        })),
      ),
    }),
  ],
  ebay: [
    question({
      what: 'by GET for a digest of `challenge_code`',
      challenge: isUuid,
      withinMs: 3_000,
      ask: ({ url, challenge }) => get(url, { challenge_code: challenge }),
      judge: all(
        status(200),
        type('application/json'),
        // The second secret is the token followed by the registered URL.
        json(({ challenge, answerKey }) => ({
          challengeResponse: createHash('sha256').update(challenge).update(answerKey).digest('hex'),
        })),
      ),
    }),
  ],
  braintree: [
    question({
      what: 'by GET for an HMAC of `bt_challenge`',
      challenge: isHex,
      withinMs: 10_000,
      ask: ({ url, challenge }) => get(url, { bt_challenge: challenge }),
      judge: all(
        status(200),
        text(({ challenge, signingKey, answerKey }) => {
          const keys = JSON.parse(signingKey) as { private_key: string };
          const key = createHash('sha1').update(keys.private_key).digest();
          return `${answerKey}|${mac('sha1', key, 'hex', challenge)}`;
        }),
      ),
    }),
  ],
  xero: [
    question({
      what: 'with a correctly signed request (intent to receive)',
      withinMs: 5_000,
      ask: (asking) => asking.signed(xeroIntent(asking)),
      judge: all(status(200), empty),
    }),
    wronglySigned({ what: 'with a wrongly signed request', withinMs: 5_000 }, xeroIntent),
  ],
  discord: discordPing({
    ping: { version: 1, application_id: '1234560123453231555', type: 0 },
    judge: all(status(204), empty),
  }),
  discord_interactions: discordPing({
    ping: {
      id: '1088605110638227537',
      application_id: '1234560123453231555',
      type: 1,
      token: 'ping',
      version: 1,
    },
    judge: all(
      status(200),
      type('application/json'),
      json(() => ({ type: 1 })),
    ),
  }),
};
