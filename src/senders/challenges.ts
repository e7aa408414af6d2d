/** Questions that several senders ask in the same way, and how they create their challenges. Pure. */
import { all, challengeOf, empty, get, head, post, status, success, text, type } from './answer-checks.ts';
import type { Asking, HandshakeQuestion } from './sender.ts';
import { numeric, uuid } from './signing.ts';

export const isUuid = (id: string) => uuid(id);
export const isHex = (id: string) => id;
/** As created by PHP's uniqid and the like: letters, digits and the additional characters of base64url. */
const isToken = (id: string) => Buffer.from(id, 'hex').toString('base64url');
export const isNumber = (id: string) => String(numeric(id));

export const question = (
  spec: Omit<HandshakeQuestion, 'challenge'> & Partial<HandshakeQuestion>,
): HandshakeQuestion => ({
  challenge: isToken,
  ...spec,
});

const textBack = all(status(200), type('text/plain'), text(challengeOf));

export const byQuery = (name: string, withinMs: number, challenge = isToken): HandshakeQuestion =>
  question({
    what: `by GET for \`${name}\` back`,
    challenge,
    withinMs,
    ask: ({ url, challenge }) => get(url, { [name]: challenge }),
    judge: textBack,
  });

export const hub = (spec: Partial<HandshakeQuestion> & Pick<HandshakeQuestion, 'judge'>): HandshakeQuestion =>
  question({
    what: 'for `hub.challenge` back',
    challenge: isNumber,
    withinMs: 10_000,
    ask: ({ url, challenge, answerKey }) =>
      get(url, { 'hub.mode': 'subscribe', 'hub.challenge': challenge, 'hub.verify_token': answerKey }),
    ...spec,
  });

/** W3C WebSub, 5.3: the hub does not name a token, but the topic. */
export const websub = hub({
  ask: ({ url, challenge, answerKey }) =>
    get(url, {
      'hub.mode': 'subscribe',
      'hub.topic': answerKey,
      'hub.challenge': challenge,
      'hub.lease_seconds': '432000',
    }),
  judge: all(success, text(challengeOf)),
});

/** The example in their documentation: the token has blanks and a colon. */
export const validation = (name: string, withinMs: number): HandshakeQuestion =>
  question({
    what: `for \`${name}\` back`,
    challenge: (id) =>
      `Validation: Testing client application reachability for subscription Request-Id: ${uuid(id)}`,
    withinMs,
    ask: ({ url, challenge }) => ({
      ...post(url, '', { 'Content-Type': 'text/plain; charset=utf-8' }),
      url: `${url}${url.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(challenge)}`,
    }),
    judge: textBack,
  });

export const head200 = question({
  what: 'by HEAD whether the URL is there',
  withinMs: 10_000,
  ask: ({ url }) => head(url),
  judge: all(status(200), empty),
});

/** Signed with a key that is not the sender's. */
export const wronglySigned = (
  spec: Pick<HandshakeQuestion, 'what' | 'withinMs'>,
  body: (asking: Asking) => string,
): HandshakeQuestion =>
  question({
    ...spec,
    ask: (asking) => {
      const sent = asking.signed(body(asking));
      // Another body was signed, so the signature is well-formed and wrong.
      return { ...sent, body: Buffer.concat([sent.body, Buffer.from(' ')]) };
    },
    judge: status(401),
  });

export const discordPing = (spec: {
  readonly ping: object;
  readonly judge: HandshakeQuestion['judge'];
}): readonly HandshakeQuestion[] => {
  const body = () => JSON.stringify(spec.ping);
  return [
    question({
      what: 'with a ping',
      withinMs: 3_000,
      ask: ({ signed }) => signed(body()),
      judge: spec.judge,
    }),
    wronglySigned({ what: 'with a ping that is wrongly signed', withinMs: 3_000 }, body),
  ];
};

export const xeroIntent = ({ challenge }: Asking) =>
  JSON.stringify({ events: [], firstEventSequence: 0, lastEventSequence: 0, entropy: challenge });

export const cloudEvents = (origin: string): HandshakeQuestion =>
  question({
    what: 'by OPTIONS whether it may deliver',
    challenge: () => origin,
    withinMs: 30_000,
    ask: ({ url, challenge, signed }) => ({
      ...signed('', { method: 'OPTIONS', url }),
      method: 'OPTIONS',
      headers: { 'WebHook-Request-Origin': challenge, 'WebHook-Request-Rate': '120' },
    }),
    judge: all(success, ({ headers }, { challenge }) =>
      [challenge, '*'].includes(headers['webhook-allowed-origin'] ?? '')
        ? null
        : 'the header WebHook-Allowed-Origin does not allow its origin',
    ),
  });

/** Why a `hub.topic` or a verify token that nobody chose has to be refused. */
export const refusal: HandshakeQuestion['judge'] = ({ status, body }, { challenge }) =>
  status >= 400 && status < 500 && !body.includes(challenge)
    ? null
    : `the status is ${status}, but must be 4xx without the challenge`;

export const wrongToken = hub({
  what: 'with a wrong verify token',
  ask: ({ url, challenge, answerKey }) =>
    get(url, { 'hub.mode': 'subscribe', 'hub.challenge': challenge, 'hub.verify_token': `${answerKey}x` }),
  judge: refusal,
});
