/** Pieces of ANSWER clauses that several senders share. Texts only: the compiler determines what they mean. */
import { body, header } from './expressions.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { AnswerSecrets, Sender } from './sender.ts';

/** A sender's handshake, and how it is answered. */
export type SenderAnswering = Partial<Pick<Sender, 'handshake' | 'answers' | 'answerSecret'>>;

type MediaType = 'text/plain' | 'application/json' | 'text/xml';

interface AnswerParts {
  readonly status?: number;
  readonly type?: MediaType;
  /** Name → expression. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** `checked` accepts only requests that VALIDATE has accepted, `unchecked` any. */
interface Rule extends AnswerParts {
  readonly when: string;
  /** The second secret, if the rule reads it. */
  readonly secret?: string;
}

function answer({ status, type, headers = {}, body }: AnswerParts): string {
  const parts = [
    ...(status === undefined ? [] : [`STATUS ${status}`]),
    ...(type === undefined ? [] : [`TYPE '${type}'`]),
    ...Object.entries(headers).map(([name, value]) => `HEADER '${name}' = ${value}`),
    ...(body === undefined ? [] : [`BODY ${body}`]),
  ];
  return parts.map((part) => `\n  ${part}`).join('');
}

function rule(unchecked: boolean, { when, secret, ...rest }: Rule): string {
  const bound = secret === undefined ? '' : ` SECRET ${secret}`;
  return `ANSWER${bound}${unchecked ? ' UNCHECKED' : ''} WHEN ${when}${answer(rest)}`;
}

export const checked = (of: Rule): string => rule(false, of);
export const unchecked = (of: Rule): string => rule(true, of);

/** A handshake that brings the secret, which has no value yet: it is learned once, and the answer is given then. */
export const learning = ({
  secret,
  when,
  value,
  ...rest
}: Rule & { readonly secret: string; readonly value: string }): string =>
  `ANSWER SECRET ${secret} UNCHECKED WHEN ${when}\n  LEARN ${secret} = ${value}${answer(rest)}`;

/** The answer to a committed request. */
export const committed = (of: AnswerParts): string => `ANSWER${answer(of)}`.replace('\n ', '');

export const query = (name: string): string => `query->>'${name}'`;
export const member = (name: string): string => `${body}->>'${name}'`;
export const isThere = (value: string): string => `${value} IS NOT NULL`;
export const isText = (value: string, text: string): string => `${value} = ${quoteLiteral(text)}`;

/** Letters, digits and `._~+/=-`: a value that an answer is computed from has to have a shape that no event has. */
export const token = (value: string, max = 128): string => `shaped(${value}, 'token', ${max})`;
/** Printable ASCII without markup, including blanks: for challenges that are only returned. */
export const plain = (value: string, max = 256): string => `shaped(${value}, 'plain', ${max})`;

/** `?name=…` by GET, returned as text. */
export const echoQuery = (name: string): string =>
  unchecked({
    when: `method = 'GET' AND ${isThere(query(name))}`,
    type: 'text/plain',
    body: token(query(name), 256),
  });

/** A header, returned under another name or the same. */
export const echoHeader = (asked: string, answered: string): string =>
  unchecked({
    when: isThere(header(asked)),
    headers: { [answered]: token(header(asked), 256) },
  });

/** The probe whether a URL exists. */
export const anyHead = unchecked({ when: `method = 'HEAD'`, status: 200 });

/** WebSub's question with a verify token, as Meta and Strava ask it. */
export function verifyToken(secrets: AnswerSecrets, give: AnswerParts): readonly string[] {
  const { answer: secret } = secrets;
  if (secret === null) return [];
  const when = `method = 'GET' AND ${isText(query('hub.mode'), 'subscribe')}\n  AND secure_compare(${query('hub.verify_token')}, ${secret})`;
  return [unchecked({ secret, when, ...give })];
}
