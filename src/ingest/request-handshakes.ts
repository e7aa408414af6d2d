/**
 * What ingest.ts asks for the senders whose handshakes, secrets or certificates come by POST: none of it for most tables. Takes a request and its table;
 * returns the answer to a handshake, or null, and the request continues. May refuse as handshakes do.
 */
import type { Arrival, CheckRequest } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { refusals } from '../errors/refusals.ts';
import type { Refused } from '../errors/refusals.ts';
import { freeBuffer } from '../kit/free-buffer.ts';
import type { TableName } from '../observe/observations.ts';
import type { HandshakeOutcome } from './handshake.ts';
import type { IngestHooks, RequestProgress, Stages } from './request-progress.ts';

/** The table; or, while the catalog is not current, the answer to a handshake, by the rules that the table had last. */
export async function findLate(
  finding: Promise<Target>,
  name: TableName,
  { handshakes }: Stages,
  arrival: Arrival,
  progress: RequestProgress,
): Promise<Target | HandshakeOutcome> {
  const last = handshakes?.lastKnown(name);
  if (handshakes === undefined || last?.answers?.asksByPost !== true) return finding;
  // Awaited below, unless the handshake is answered without it.
  finding.catch(() => undefined);
  const read = async () => (progress.body ??= await arrival.body(last.readsEncodedBody));
  return (await handshakes.meanwhile(last, arrival, read)) ?? finding;
}

/** For a table that answers no handshakes by POST this costs one comparison. */
export function answerHandshake(
  target: Target,
  { handshakes }: Stages,
  request: CheckRequest & Pick<Arrival, 'remoteAddress'>,
  which: 'unchecked' | 'checked',
): HandshakeOutcome | null {
  const { answers } = target;
  if (answers?.asksByPost !== true || handshakes === undefined || answers[which].length === 0) return null;
  const asked = handshakes.posted(target, answers, request, request.remoteAddress, which);
  if (asked !== null) freeBuffer(request.body);
  return asked;
}

/** True for few tables: the request may bring their secret, or its certificate may have to be fetched. */
export function mayLearnOrCertify({ answers, sns }: Target): boolean {
  return answers?.learns === true || sns !== undefined;
}

/** `again`: the table's certificate was replaced, so the message has to be checked again. */
export async function learnOrCertify(
  target: Target,
  stages: Stages,
  request: CheckRequest & Pick<Arrival, 'remoteAddress'>,
): Promise<HandshakeOutcome | 'again' | null> {
  const { answers, check, sns } = target;
  if (answers?.learns === true) {
    const asked = (await stages.handshakes?.learning(target, request, request.remoteAddress)) ?? null;
    if (asked !== null) return asked;
  }
  if (sns === undefined || (typeof check === 'function' && check(request))) return null;
  if ((await stages.sns?.certify(target, request.body)) !== true) return null;
  await stages.catalog.refresh(target);
  return 'again';
}

/** A handshake needs no room in a lane: it is answered even if the request was refused with a 5xx before its body was read. */
export async function answerHandshakeMeanwhile(
  { refusal: { code } }: Refused,
  { handshakes }: Stages,
  arrival: Arrival,
  progress: RequestProgress,
): Promise<HandshakeOutcome | null> {
  if (progress.body !== null || progress.target === null || refusals[code].status < 500) return null;
  const read = async () => (progress.body ??= await arrival.body());
  return (await handshakes?.meanwhile(progress.target, arrival, read)) ?? null;
}

/** No answer comes from a catalog that may be outdated, but those who watch the table learn of the 503. */
export function nameLastKnown({ handshakes }: Stages, name: TableName, hooks: IngestHooks): void {
  const last = handshakes?.lastKnown(name) ?? null;
  if (last !== null) hooks.target(last);
}
