/**
 * What ingest.ts asks for the senders whose handshakes, secrets or certificates come by POST: none of it for most tables. Takes a request and its table;
 * returns the answer to a handshake, or null, and the request continues. May refuse as handshakes do.
 */
import type { Catalog } from '../catalog/catalog.ts';
import type { TableAnswers } from '../types/answers.ts';
import type { Arrival, CheckRequest } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { freeBuffer } from '../kit/free-buffer.ts';
import type { HandshakeOutcome, SenderHandshakes } from './handshake.ts';
import type { RequestProgress } from './refused-request.ts';
import type { Sns } from './sns.ts';

interface HandshakeStages {
  readonly catalog: Pick<Catalog, 'refresh'>;
  readonly handshakes: Omit<SenderHandshakes, 'ask'>;
  readonly sns: Pick<Sns, 'certify'> | null;
}

/** Resolves with the table; or, while the catalog is not current, with the answer to a handshake, by the rules that the table had last. */
export async function foundOrAnswered(
  found: Promise<Target>,
  { handshakes }: Pick<HandshakeStages, 'handshakes'>,
  last: Target,
  arrival: Arrival,
  progress: RequestProgress,
): Promise<Target | HandshakeOutcome> {
  // Awaited below, unless the handshake is answered without it.
  found.catch(() => undefined);
  const read = async () => (progress.body ??= await arrival.body(last.readsEncodedBody));
  return (await handshakes.meanwhile(last, arrival, read)) ?? found;
}

export function answerHandshake(
  { handshakes }: Pick<HandshakeStages, 'handshakes'>,
  target: Target,
  answers: TableAnswers,
  request: CheckRequest & Pick<Arrival, 'remoteAddress'>,
  which: 'unchecked' | 'checked',
): HandshakeOutcome | null {
  if (answers[which].length === 0) return null;
  const asked = handshakes.posted(target, answers, request, request.remoteAddress, which);
  if (asked !== null) freeBuffer(request.body);
  return asked;
}

/** For a request that may bring the table's secret, or whose certificate may have to be fetched. `again`: the certificate was replaced. */
export async function learnOrCertify(
  { catalog, handshakes, sns }: HandshakeStages,
  target: Target,
  request: CheckRequest & Pick<Arrival, 'remoteAddress'>,
): Promise<HandshakeOutcome | 'again' | null> {
  const { answers, check } = target;
  if (answers?.learns === true) {
    const asked = await handshakes.learning(target, request, request.remoteAddress);
    if (asked !== null) return asked;
  }
  if (target.sns === undefined || (typeof check === 'function' && check(request))) return null;
  if ((await sns?.certify(target, request.body)) !== true) return null;
  await catalog.refresh(target);
  return 'again';
}
