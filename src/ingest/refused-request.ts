/**
 * What becomes of a request of which nothing is stored in its table: it is kept for the table's owner, or apart, as another delivery with its id; and the
 * refusal that its sender gets. May refuse with `engine_unavailable`, and with another refusal if the catalog is no longer what the first one rests on.
 */
import { Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { freeMade } from '../kit/free-buffer.ts';
import type { Arrival } from '../types/request.ts';
import type { KeptApart, Outcome, Rows } from '../types/rows.ts';
import { standing } from './pipeline.ts';
import type { RequestProgress, Stages } from './request-progress.ts';

export function tellRejected(
  stages: Stages,
  arrival: Arrival,
  progress: RequestProgress,
  refusal: Refusal,
): void {
  const { target, body, authenticated } = progress;
  if (target === null || stages.rejects === undefined) return;
  stages.rejects.keep({ ...headOf(arrival), body, target, refusal, door: 'http', authenticated });
}

function headOf(arrival: Arrival) {
  const { method, target: requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent } = arrival;
  return { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent };
}

/** Rejects with Refused if another refusal has to be given. */
export async function notStored(
  stages: Stages,
  arrival: Arrival,
  progress: RequestProgress,
  rows: Rows,
  outcome: Outcome,
): Promise<Outcome | KeptApart> {
  const { body, found, sinceMs } = progress;
  if (outcome.kind === 'aborted') {
    if (outcome.refusal.code === 'delivery_differs' && stages.apart !== undefined && body !== null)
      return keptApart(stages, arrival, body, rows, outcome.refusal);
    const why = await standing(outcome.refusal, stages.way, found, sinceMs);
    if (why.code !== outcome.refusal.code) throw new Refused(why);
  }
  const answer = withLineNumber(outcome, rows);
  if (answer.kind === 'aborted') tellRejected(stages, arrival, progress, answer.refusal);
  return answer;
}

/** Only what is certainly kept is answered with a 2xx; otherwise the sender has to send it again. */
async function keptApart(
  stages: Stages,
  arrival: Arrival,
  body: Buffer,
  rows: Rows,
  refusal: Refusal,
): Promise<KeptApart> {
  const { target } = rows;
  const status = target.answers?.committed?.status ?? target.spool?.status ?? 202;
  const request = { ...headOf(arrival), body, target, refusal, door: 'http', authenticated: true } as const;
  if ((await stages.apart?.keep(request, rows, status)) !== true) throw new Refused('engine_unavailable');
  freeMade(rows.documents.bytes, body);
  return { kind: 'kept apart', rows: rows.count, status };
}

/** Tells the sender of a batch which line of its body holds the row at fault. */
function withLineNumber(outcome: Outcome, rows: Rows): Outcome {
  if (outcome.kind !== 'aborted' || outcome.row === undefined || !rows.target.intake.batched) return outcome;
  const line = rows.lines?.[outcome.row] ?? outcome.row + 1;
  const { refusal } = outcome;
  return { ...outcome, refusal: { ...refusal, message: `line ${line}: ${refusal.message}` } };
}
