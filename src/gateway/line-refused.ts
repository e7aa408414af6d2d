/**
 * Errors about one line of a body of events, and about a body without events. Takes refusals of the decode and commit rooms, which are worded for webhooks,
 * and rewords them for senders of events; refuses with `event_not_object`. Touches nothing.
 */
import { firstByte } from '../decode/event-text.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import { refusal, Refused, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';

/** A refusal that is about one line, counted from 1. */
export class LineRefused extends Error {
  readonly refusal: Refusal;
  readonly line: number;

  constructor(it: Refusal, line: number) {
    super(it.message);
    this.name = 'LineRefused';
    this.refusal = it;
    this.line = line;
  }
}

/** The line of a row in its body, from 1. */
export function lineOf(rows: Rows, row: number): number {
  return rows.lines?.[row] ?? row + 1;
}

const prefix = `${refusals.payload_undecodable.message}: `;

/** Only the reason, without the sentence before it. */
export function reasonOf(message: string): string {
  return message.replace(prefix, '');
}

/** The decode room puts the line at the beginning of its sentence. */
export function asLineRefused(error: unknown): unknown {
  if (!(error instanceof Refused)) return error;
  const { code, message } = error.refusal;
  const [, line, reason] = /^line (\d+): ([^]*)$/.exec(message) ?? [];
  if (line === undefined || reason === undefined) return new Refused(code, reasonOf(message));
  return new LineRefused(refusal(code, reason), Number(line));
}

/** Codes that blame a row, and not a passing condition. */
const rowCodes: ReadonlySet<string> = new Set([
  'row_refused',
  'body_not_json',
  'payload_undecodable',
  'version_missing',
]);

export function isOfRow({ code }: Refusal): boolean {
  return rowCodes.has(code);
}

/** What the sender of rows is told that are not stored, or perhaps not. */
export function refusedBy(outcome: Exclude<Outcome, { kind: 'committed' }>, rows: Rows): Error {
  const { refusal } = outcome;
  if (outcome.kind === 'unknown' || outcome.row === undefined || !isOfRow(refusal)) {
    return new Refused(refusal.code, refusal.message);
  }
  return new LineRefused(refusal, lineOf(rows, outcome.row));
}

export const noEvent = 'the body holds no event';

/** Throws Refused for a body without events, and for one sent by mistake instead of NDJSON, with a sentence that helps; returns any other. */
export function refuseNoEvents(body: Buffer): Buffer {
  const first = body[firstByte(body)];
  if (first === undefined) throw new Refused('event_not_object', noEvent);
  if (first !== 0x5b) return body;
  throw new Refused(
    'event_not_object',
    'the body is a JSON array: send its items as one JSON object a line (NDJSON), without brackets and commas',
  );
}
