/**
 * What becomes of a request of which nothing is stored in its table: it is a handshake, which is answered although it cannot be stored; its table has changed,
 * and it is checked again; it is kept for the table's owner, or apart, as another delivery with its id; and the refusal that its sender gets. May
 * refuse with `engine_unavailable`, and with another refusal if the catalog is no longer what the first one rests on.
 */
import { Refused, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { freeBuffer, freeLarge } from '../kit/free-buffer.ts';
import type { TableName } from '../observe/observations.ts';
import type { ConflictingDeliveries } from '../reject/conflicting-deliveries.ts';
import type { Rejects } from '../reject/rejected-requests.ts';
import type { Arrival } from '../types/request.ts';
import type { KeptApart, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { HandshakeOutcome, SenderHandshakes } from './handshake.ts';
import type { Spooling } from './spooling.ts';
import { standing, standingOutcome } from './refusal-check.ts';

/** How far a request has come. */
export interface RequestProgress {
  /** When it arrived, by the clock. */
  readonly sinceMs: number;
  /** What this attempt has found. */
  found: Target | null;
  target: Target | null;
  body: Buffer | null;
  authenticated: boolean;
  /** Its rows may be in flight to the engine. */
  submitted: boolean;
}

/** Who is asked about a request that is not stored, and who keeps it. */
interface RefusalStages {
  readonly spooling: Pick<Spooling, 'isStill'>;
  readonly handshakes: Pick<SenderHandshakes, 'lastKnown' | 'meanwhile'>;
  readonly rejects: Pick<Rejects, 'keep'>;
  readonly apart: Pick<ConflictingDeliveries, 'keep'>;
}

/** `again`: its table has changed, which the last attempt may not say. Otherwise rejects with what has been thrown, or with Refused. */
export async function refused(
  stages: RefusalStages,
  thrown: unknown,
  name: TableName,
  arrival: Arrival,
  progress: RequestProgress,
  isLast: boolean,
): Promise<HandshakeOutcome | 'again'> {
  if (!(thrown instanceof Refused)) {
    release(progress);
    throw thrown;
  }
  const { handshakes } = stages;
  const asked = await answerMeanwhile(thrown, handshakes, arrival, progress);
  if (asked !== null) return asked;
  const why = await standing(thrown.refusal, stages.spooling, progress.found, progress.sinceMs);
  if (why.code === 'table_changed' && !isLast) return 'again';
  // No answer comes from a catalog that may be outdated, but those who watch the table learn of the 503.
  const last =
    why.code === 'engine_unavailable' && progress.target === null ? handshakes.lastKnown(name) : null;
  if (last !== null && last !== undefined) arrival.found?.(last);
  tellRejected(stages, arrival, progress, why);
  release(progress);
  throw why === thrown.refusal ? thrown : new Refused(why);
}

/** A handshake needs no room in a lane: it is answered even if the request was refused with a 5xx before its body was read. */
async function answerMeanwhile(
  { refusal: { code } }: Refused,
  handshakes: Pick<SenderHandshakes, 'meanwhile'>,
  arrival: Arrival,
  progress: RequestProgress,
): Promise<HandshakeOutcome | null> {
  if (progress.body !== null || progress.target === null || refusals[code].status < 500) return null;
  const read = async () => (progress.body ??= await arrival.body());
  return handshakes.meanwhile(progress.target, arrival, read);
}

function release({ body, submitted }: RequestProgress): void {
  if (body !== null && !submitted) freeBuffer(body);
}

function tellRejected(
  { rejects }: Pick<RefusalStages, 'rejects'>,
  arrival: Arrival,
  { target, body, authenticated }: RequestProgress,
  refusal: Refusal,
): void {
  if (target === null) return;
  rejects.keep({ ...headOf(arrival), body, target, refusal, door: 'http', authenticated });
}

function headOf(arrival: Arrival) {
  const { method, target: requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent } = arrival;
  return { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent };
}

/** What the lane has not stored. Rejects with Refused if another refusal has to be given. */
export async function notStored(
  stages: RefusalStages,
  arrival: Arrival,
  progress: RequestProgress,
  rows: Rows,
  outcome: Outcome,
): Promise<Outcome | KeptApart> {
  const { body, found, sinceMs } = progress;
  if (outcome.kind === 'aborted' && outcome.refusal.code === 'delivery_differs' && body !== null)
    return keptApart(stages.apart, arrival, body, rows, outcome.refusal);
  const answer = await standingOutcome(outcome, rows, stages.spooling, found, sinceMs);
  if (answer.kind === 'aborted') tellRejected(stages, arrival, progress, answer.refusal);
  return answer;
}

/** Only what is certainly kept is answered with a 2xx; otherwise the sender has to send it again. */
async function keptApart(
  apart: RefusalStages['apart'],
  arrival: Arrival,
  body: Buffer,
  rows: Rows,
  refusal: Refusal,
): Promise<KeptApart> {
  const { target } = rows;
  const status = target.answers?.committed?.status ?? target.spool?.status ?? 202;
  const request = { ...headOf(arrival), body, target, refusal, door: 'http', authenticated: true } as const;
  if (!(await apart.keep(request, rows, status))) throw new Refused('engine_unavailable');
  freeLarge(rows.documents.bytes, body);
  return { kind: 'kept apart', rows: rows.count, status };
}
