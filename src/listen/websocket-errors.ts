/**
 * What a WebSocket's client reads when it is refused: sentences and close codes. Pure; touches nothing.
 */
import type { Outcome } from '../types/rows.ts';
import type { Refusal, RefusalCode } from '../errors/refusals.ts';
import { refusal, refusals } from '../errors/refusals.ts';

/** RFC 6455 §7.4.1, and 1013 of the registry that it created. */
export const closeCodes = {
  goingAway: 1001,
  unsupported: 1003,
  refused: 1008,
  tooLarge: 1009,
  internal: 1011,
  tryAgain: 1013,
} as const;

/** The refusal for a table that cannot be opened. */
export function lookupFailed(why: Refusal): Refusal {
  const asked =
    why.code === 'signature_failed' || why.code === 'malformed_payload' || why.code === 'timestamp_skew';
  return asked ? why : refusal(why.code, `table lookup failed: ${why.message}`);
}

/** Names the batch that is meant, and its item. */
export function named(outcome: Exclude<Outcome, { kind: 'committed' }>, id: bigint): Refusal {
  const { code, message } = outcome.refusal;
  const row = outcome.kind === 'aborted' ? outcome.row : undefined;
  const item = row === undefined ? '' : ` item ${row + 1}`;
  // A stage that names the item itself begins its message with it.
  const separator = row === undefined && /^item \d+: /.test(message) ? ' ' : ': ';
  return refusal(code, `dml_batch_id ${id}${item}${separator}${message}`);
}

export const binaryRefused = refusal('malformed_payload', 'malformed payload: binary messages are not read');

export function closeCode(code: RefusalCode): number {
  if (code === 'internal') return closeCodes.internal;
  if (code === 'body_too_large') return closeCodes.tooLarge;
  return refusals[code].retryable && code !== 'request_timeout' ? closeCodes.tryAgain : closeCodes.refused;
}
