/** ANSWER clauses, compiled and as text. Types only. */
import type { CheckRequest } from './request.ts';

/** The answer to a sender's handshake. */
export interface HandshakeAnswer {
  readonly status: number;
  /** Content-Type; null: none. */
  readonly type: string | null;
  /** Names and values in turn: visible ASCII. */
  readonly headers: readonly string[];
  /** One char for each byte. */
  readonly body: string;
  /** The secret that came with the handshake, for a rule that learns. */
  readonly learned?: string;
}

/** One compiled ANSWER … WHEN. */
export interface CompiledAnswer {
  /** Methods that it can match; null: any. */
  readonly methods: ReadonlySet<string> | null;
  /** null: it does not match. Never throws because of a request. */
  readonly answer: (request: CheckRequest) => HandshakeAnswer | null;
}

/** The secret that a rule learns, while its window is open. */
export interface Learns {
  readonly name: string;
  /** The id under which it is sealed now. */
  readonly sealId: string;
  /** Its value; '': none yet. */
  readonly value: string;
}

export interface HandshakeRule extends CompiledAnswer {
  /** Absent: it learns nothing. */
  readonly learns?: Learns;
  /** Its place among the ANSWER clauses of the table, from 1. */
  readonly place: number;
}

/** The answer to a committed request, instead of `{"rows":n}`. */
export interface CommittedAnswer extends HandshakeAnswer {
  /** Headers of the request that are returned under these names; `header` in lower case. */
  readonly echoes: readonly { readonly name: string; readonly header: string }[];
}

/** The ANSWER clauses of a table. */
export interface TableAnswers {
  /** Tried before VALIDATE, in order; the first match answers. */
  readonly unchecked: readonly HandshakeRule[];
  /** Tried once VALIDATE has accepted. */
  readonly checked: readonly HandshakeRule[];
  /** Whether one of them can match a POST. */
  readonly asksByPost: boolean;
  /** Whether one of them learns a secret. */
  readonly learns?: boolean;
  readonly committed: CommittedAnswer | null;
}

/** The texts of one ANSWER, each as its owner wrote it. */
export interface AnswerText {
  readonly unchecked: boolean;
  /** null: it answers committed requests. */
  readonly when: string | null;
  readonly status: number | null;
  readonly type: string | null;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly body: string | null;
  /** The secret that is learned, and the text of its value; absent: none. */
  readonly learn?: { readonly secret: string; readonly value: string };
}

/** Which text of an ANSWER; a number: the value of that HEADER. */
export type AnswerPart = 'when' | 'body' | 'status' | 'type' | 'learn' | number;
