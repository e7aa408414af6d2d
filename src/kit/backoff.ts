/**
 * The pause before attempt number `attempt` (1 is the first retry), in ms: doubles from `minMs` up to
 * `maxMs`, less a random part of up to a half, so that many clients of one server do not return together.
 * `random` yields numbers in [0, 1).
 */
export function backoffMs(attempt: number, minMs: number, maxMs: number, random: () => number): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, 30));
  return Math.ceil(full * (1 - random() / 2));
}
