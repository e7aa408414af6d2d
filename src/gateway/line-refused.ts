/**
 * What is wrong with one line of a body. Takes refusals of the decode and commit rooms, which speak of webhooks, gives
 * them as a sender of events reads them; touches nothing.
 */
import type { Rows } from '../tables/flow.ts';
import { refusal, Refused, refusals } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';

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

/** Where a row stands in its body, from 1. */
export function lineOf(rows: Rows, row: number): number {
  return rows.lines?.[row] ?? row + 1;
}

const prefix = `${refusals.payload_undecodable.message}: `;

/** The reason alone, without the sentence in front of it. */
export function reasonOf(message: string): string {
  return message.replace(prefix, '');
}

/** The decode room names the line at the beginning of its sentence. */
export function asLineRefused(error: unknown): unknown {
  if (!(error instanceof Refused)) return error;
  const { code, message } = error.refusal;
  const [, line, reason] = /^line (\d+): ([^]*)$/.exec(message) ?? [];
  if (line === undefined || reason === undefined) return new Refused(code, reasonOf(message));
  return new LineRefused(refusal(code, reason), Number(line));
}
