/**
 * What Headgate knows of one webhook sender: the VALIDATE expression that checks its requests, and, written
 * independently, how that sender signs. The latter is the sender's side: `headgate send` and the tests use it to check
 * the expression against what a sender really sends. Types and one constructor; pure.
 */

import {
  type DeliveryEvidence,
  type Evidence,
  type Retries,
  type WantedAnswer,
  unverified,
} from './evidence.ts';

export type Random = (size: number) => Buffer;

export type SignatureKind =
  | 'A signature of the body'
  | 'A signature of the body and a timestamp'
  | 'Standard Webhooks'
  | 'A public key'
  | 'A signature of the URL or of fields'
  | 'A token';

/** A request as the sender is about to sign it. */
export interface Draft {
  readonly method: string;
  /** As the sender calls it. */
  readonly url: string;
  readonly body: Buffer;
  readonly nowMs: number;
  readonly signingKey: string;
  /** 32 hexadecimal digits that no other request of this sender has; or the id of a delivery that is sent again, as it was. */
  readonly id: string;
}

export interface Signature {
  readonly headers: Readonly<Record<string, string>>;
  /** If the signature is in the body or in the URL: what is sent instead. */
  readonly body?: Buffer;
  readonly url?: string;
}

/** `secret` goes into CREATE SECRET; the sender signs with `signingKey`. Both are the same text unless the keys are a pair. */
export interface SecretKeys {
  readonly secret: string;
  readonly signingKey: string;
}

/** Where the events are, if one body contains several. `json`: the list at `at` is itself a JSON text. */
export interface EventList {
  readonly what: string;
  readonly at?: readonly string[];
  readonly json?: boolean;
}

/** A second secret that only answers to a sender's questions need, such as a verify token. */
interface AnswerSecret {
  readonly what: string;
  readonly where: string;
}

/** What a sender has available when it asks its question. */
export interface Asking {
  /** As the sender calls it. */
  readonly url: string;
  readonly nowMs: number;
  readonly signingKey: string;
  /** The text of the second secret; empty if there is none. */
  readonly answerKey: string;
  readonly id: string;
  readonly challenge: string;
  /** A request that the sender would sign like any other. */
  readonly signed: (
    body: string,
    change?: { readonly method?: string; readonly url?: string },
  ) => HandshakeQuery;
}

export interface HandshakeQuery {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface HandshakeReply {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The whole answer, including its head. */
  readonly bytes: number;
  readonly ms: number;
}

/** The sender's side of one question: how it is asked, and which answer the sender accepts. */
export interface HandshakeQuestion {
  /** Completes “asks …” */
  readonly what: string;
  readonly challenge: (id: string) => string;
  readonly ask: (asking: Asking) => HandshakeQuery;
  /** Why the sender would not accept the answer; null: it would. */
  readonly judge: (answer: HandshakeReply, asking: Asking) => string | null;
  readonly withinMs: number;
}

/** The names of a table's secrets as SQL identifiers: VALIDATE's, and the one after `ANSWER SECRET`, if there is one. */
export interface AnswerSecrets {
  readonly secret: string;
  readonly answer: string | null;
}

/** What can be verified about a secret: if its text has another form, every check fails. */
export interface SecretForm {
  /** The id under which the catalog stores it. */
  readonly id: string;
  /** Completes “the secret is not …” */
  readonly sentence: string;
  readonly test: (secret: string) => boolean;
}

export interface Sender {
  /** As in `VALIDATE SECRET s USING id`. */
  readonly id: string;
  readonly name: string;
  readonly theme: SignatureKind;
  /** `secret`: the secret's name as an SQL identifier. The body is called `payload`. */
  readonly expression: (secret: string) => string;
  readonly secret: { readonly what: string; readonly where: string };
  /** The form that a text must have to be this sender's secret; null: any text will do. */
  readonly secretForm: SecretForm | null;
  /** The headers that the expression reads, as the sender writes them. */
  readonly headers: readonly string[];
  /** The header with the signature or the token; null: it is in the body or in the URL. */
  readonly signatureHeader: string | null;
  /** Whether that header may occur more than once, with a signature each. */
  readonly repeatsSignature: boolean;
  /** Whether every byte of the body is signed. */
  readonly signsBody: boolean;
  /** How old a signature may be, in seconds; null: it has no time, or none that is checked. */
  readonly toleranceS: number | null;
  /** Whether the expression reads `url`, so that HEADGATE_PUBLIC_URL has to be set. */
  readonly signsUrl: boolean;
  /** What distinguishes a repeated delivery from a new one. */
  readonly delivery: DeliveryEvidence;
  /** The list of events in the body; null: one body is one event. */
  readonly events: EventList | null;
  /** Whether and when the sender tries again, and what it signs then; null: nobody has looked. */
  readonly retries: Retries | null;
  /** null: nobody has looked. */
  readonly answer: WantedAnswer | null;
  readonly evidence: Evidence;
  /** Other names by which people look for it: `USING alias` is `USING id`. */
  readonly aliases: readonly string[];
  /** A sentence for a service that has ended, or will; it is the first on the page, and a warning of CREATE TABLE. */
  readonly ended: string | null;
  /** The question that the sender asks before it delivers, in words; null: it asks none. */
  readonly handshake: string | null;
  /**
   * The ANSWER clauses that USING brings, in order, each as it is written after VALIDATE: the answers to the sender's
   * questions, and to a committed request. Clauses that need a second secret are left out if there is none.
   */
  readonly answers: (secrets: AnswerSecrets) => readonly string[];
  /** null: no answer needs a second secret. */
  readonly answerSecret: AnswerSecret | null;
  /** The sender's side of its handshake, independent of `answers`: each is checked against the other. */
  readonly questions: readonly HandshakeQuestion[];
  /** What the table consists of: `text` is one TEXT column, the others are documents. */
  readonly format: 'json' | 'form' | 'text';
  readonly notes: readonly string[];
  /** What to do at the sender. */
  readonly steps: readonly string[];
  readonly contentType: string;
  /** Other headers of a real request, e.g. the event's name. */
  readonly eventHeaders: (draft: Draft) => Readonly<Record<string, string>>;
  readonly example: (event: { readonly id: string; readonly nowMs: number }) => string;
  readonly sign: (draft: Draft) => Signature;
  /** The text that signs differs from the text that checks: a pair of keys, which takes some time to create. */
  readonly paired: boolean;
  readonly makeSecret: (random: Random) => SecretKeys;
}

/** Whether the secret is the owner's to choose; false: the sender, or its first request, has it. */
export const takesYours = ({ paired, secret: { what, where } }: Sender): boolean =>
  !paired && /\byou (?:may )?choose\b|\byou type\b/.test(`${where} ${what}`);

/** What the tables contain; everything else has a default. */
export interface SenderSpec extends Omit<Partial<Sender>, 'example' | 'theme'> {
  readonly id: string;
  readonly name: string;
  readonly secret: Sender['secret'];
  readonly headers: readonly string[];
  readonly steps: readonly string[];
  /** A text is sent unchanged, anything else as JSON. */
  readonly example: (event: { readonly id: string; readonly nowMs: number }) => unknown;
}

type Needed = 'expression' | 'sign';

export function sender(
  theme: SignatureKind,
  spec: SenderSpec & { readonly [K in Needed]: Sender[K] },
): Sender {
  return {
    signatureHeader: spec.headers[0] ?? null,
    repeatsSignature: false,
    signsBody: true,
    toleranceS: null,
    signsUrl: false,
    delivery: unverified(),
    events: null,
    retries: null,
    answer: null,
    evidence: {},
    aliases: [],
    ended: null,
    handshake: null,
    answers: () => [],
    answerSecret: null,
    questions: [],
    format: formatOf(spec.contentType ?? 'application/json'),
    notes: [],
    contentType: 'application/json',
    eventHeaders: () => ({}),
    secretForm: null,
    paired: false,
    makeSecret: textSecret(),
    ...spec,
    theme,
    example: (event) => {
      const body = spec.example(event);
      return typeof body === 'string' ? body : JSON.stringify(body);
    },
  };
}

function formatOf(contentType: string): Sender['format'] {
  if (contentType === formType) return 'form';
  return /\bxml\b/.test(contentType) ? 'text' : 'json';
}

/** A shared text of `size` random bytes in hexadecimal, after a prefix. */
export function textSecret(prefix = '', size = 24): (random: Random) => SecretKeys {
  return (random) => same(`${prefix}${random(size).toString('hex')}`);
}

export function same(secret: string): SecretKeys {
  return { secret, signingKey: secret };
}

/** As web page forms are sent: a blank is `+`. */
export const formType = 'application/x-www-form-urlencoded';
