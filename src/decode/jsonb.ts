/**
 * Bytes to rows for a table of one JSONB column. Takes the body as it arrived, gives it back as the one document
 * of one row; may refuse with `body_not_json`. Touches nothing.
 */
import type { DecodeRequest, Rows, Target } from '../flow.ts';
import { limits } from '../limits.ts';
import { Refused, refusals } from '../refusals.ts';
import { scanJson } from './json-scan.ts';

export function decodeJsonb(target: Target, { body }: DecodeRequest): Rows {
  const problem = scanJson(body, { depthMax: limits.jsonDepthMax });
  if (problem !== null) {
    const place = problem.offset === null ? '' : ` at byte ${problem.offset}`;
    throw new Refused('body_not_json', `${refusals.body_not_json.message}: ${problem.reason}${place}`);
  }
  return {
    target,
    documents: { bytes: body, spans: null },
    count: 1,
    bytes: body.length,
    removes: null,
    keeps: null,
    lines: null,
    patienceMs: limits.ackDeadlineMs,
    chain: null,
  };
}
