/** What became of a request, in words: 202, handshakes and repeats are no refusals. Pure. */
import type { TailLine } from '../observe/tail.ts';

type LineOutcome = Pick<TailLine, 'status' | 'code'>;

/** Nothing of it is stored, and it was no question. `status` 0: a batch of a WebSocket. */
export function isRefused({ status, code }: LineOutcome): boolean {
  if (code === 'committed' || code === 'spooled' || code === 'handshake') return false;
  // The id of another delivery: answered 2xx, and kept for the owner of the table to decide.
  return status === 0 || status >= 400 || code === 'delivery_differs';
}

export function kindOf(outcome: LineOutcome): 'good' | 'warn' | 'plain' | 'bad' {
  if (outcome.code === 'committed') return 'good';
  if (!isRefused(outcome)) return 'plain';
  return outcome.status >= 500 || outcome.status < 300 ? (outcome.status === 0 ? 'bad' : 'warn') : 'bad';
}

export function wordsOf({ code, rows }: Pick<TailLine, 'code' | 'rows'>): string {
  if (code === 'spooled') return 'kept on disk';
  if (code === 'handshake') return 'handshake answered';
  return code === 'committed' ? `${rows} ${rows === 1 ? 'row' : 'rows'}` : code;
}
