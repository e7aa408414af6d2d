/**
 * How the handshake of a sender is answered: by the ANSWER clauses of its table. It makes no row, and nothing of it is stored but a
 * secret that a rule learns.
 *
 *   route → find the table → select rules → body → match → answer
 *
 * UNCHECKED rules are tried before VALIDATE, the others once it has accepted. While the engine is unreachable, handshakes are answered
 * from the last known catalog (decision 0083): an outdated answer does no harm, a missing one ends a subscription.
 * Takes an Arrival; returns the answer, or null if no rule matches; the request then continues as if there were no rules. May refuse
 * with `rate_limited`, with `method_not_allowed`, as a POST is where the path names no table, and with `engine_unavailable` as long as nothing is known of its database.
 */
import { RateLimit } from '../access/rate-limit.ts';
import type { TableAnswers, HandshakeAnswer, HandshakeRule } from '../types/answers.ts';
import type { Arrival, CheckRequest } from '../types/request.ts';
import type { AskedHandshake } from '../types/journal.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused, refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { changedAttemptsMax } from './refusal-check.ts';
import type { Learning } from './learning.ts';
import { webhookRoute, wrongMethod } from './routes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { StageContext } from '../observe/context.ts';
import type { Rejects } from '../reject/rejected-requests.ts';

/** How a handshake ended. */
export type HandshakeOutcome =
  | { readonly kind: 'asked'; readonly target: Target; readonly answer: HandshakeAnswer }
  | { readonly kind: 'askedTooOften'; readonly target: Target; readonly refusal: Refusal };

/** What becomes of a request that is no POST, and no handshake. */
export type NotAsked = 'stored' | Refusal;

type Which = 'unchecked' | 'checked';

/** Where the tables are found, who keeps what was asked, and who stores a secret that a sender brings. */
interface Around extends StageContext {
  readonly catalog: Pick<Catalog, 'find' | 'isStill' | 'lastKnown'>;
  readonly rejects: Pick<Rejects, 'asked'>;
  readonly learning: Pick<Learning, 'learn'>;
}

const { handshakeBodyBytesMax: bytesMax } = limits;

/** Methods of handshakes besides POST. */
const questions = new Set(['GET', 'HEAD', 'OPTIONS']);

export class SenderHandshakes {
  readonly #around: Around;
  readonly #matcher: Matcher;

  constructor(around: Around) {
    this.#around = around;
    this.#matcher = new Matcher(around);
  }

  lastKnown(name: TableName): Target | null | undefined {
    return this.#around.catalog.lastKnown(name);
  }

  /** A request that is no POST. `stored`: its table stores such requests, too. */
  async ask(arrival: Arrival): Promise<HandshakeOutcome | NotAsked> {
    const { catalog, clock } = this.#around;
    const sinceMs = clock();
    const read = async () => arrival.body();
    const known = await found(arrival, catalog);
    if (known instanceof Refused) return known.refusal;
    let target = known;
    for (let attempt = 1; ; attempt++) {
      const { answers } = target;
      const { method, remoteAddress, arrivedAtMs: askedAtMs } = arrival;
      const asks =
        answers !== undefined &&
        questions.has(method) &&
        (canMatch(answers.unchecked, method) || canMatch(answers.checked, method));
      const body = asks ? await smallBody(arrival, read) : null;
      const asked =
        body === null || !asks
          ? null
          : this.#matcher.all(target, answers, requestOf(arrival, body), remoteAddress);
      if (asked !== null) return asked;
      if (target.methods?.has(method) === true) return 'stored';
      // The clause that answers it may be a millisecond old.
      if (attempt < changedAttemptsMax && !(await isStill(target, sinceMs, catalog))) {
        target = await catalog.find(target);
        continue;
      }
      const { status } = refusals.method_not_allowed;
      if (asks)
        tell(this.#around, {
          target,
          method,
          remoteAddress,
          askedAtMs,
          place: null,
          status,
          outcome: 'unmatched',
        });
      arrival.found?.(target);
      return wrongMethod(target);
    }
  }

  /** A POST whose body has been read, before VALIDATE (`unchecked`) or once it has accepted; null: the request continues. */
  posted(
    target: Target,
    answers: TableAnswers,
    request: CheckRequest,
    remoteAddress: string,
    which: Which,
  ): HandshakeOutcome | null {
    if (which === 'unchecked' && request.body.length > bytesMax) return null;
    return this.#matcher.first(target, answers, request, remoteAddress, which);
  }

  /** A POST that may bring a secret of the table; null: the request continues. */
  async learning(
    target: Target,
    request: CheckRequest,
    remoteAddress: string,
  ): Promise<HandshakeOutcome | null> {
    return request.body.length > bytesMax ? null : this.#matcher.learning(target, request, remoteAddress);
  }

  /** A POST that cannot be stored at present; null: refuse it for that reason. */
  async meanwhile(
    target: Target | null | undefined,
    arrival: Arrival,
    read: () => Promise<Buffer>,
  ): Promise<HandshakeOutcome | null> {
    const answers = target?.answers;
    if (target === null || target === undefined || answers?.asksByPost !== true) return null;
    const body = await smallBody(arrival, read);
    if (body === null) return null;
    return this.#matcher.all(target, answers, requestOf(arrival, body), arrival.remoteAddress);
  }
}

function tell({ observe, rejects }: Around, handshake: AskedHandshake): void {
  observe({ kind: 'handshake.asked', table: handshake.target, outcome: handshake.outcome });
  rejects.asked(handshake);
}

/** Finds the rule that a handshake matches, and enforces the rate of its table. */
class Matcher {
  readonly #around: Around;
  /** Separate, so that strangers cannot use up the rate of senders whom VALIDATE has accepted. */
  readonly #rates: { readonly [which in Which]: RateLimit };

  constructor(around: Around) {
    this.#around = around;
    const { handshakesPerSecond: count, handshakesBurst: burst, handshakeTablesMax } = around.limits;
    const rate = () => new RateLimit({ count, perMs: 1_000, burst }, handshakeTablesMax);
    this.#rates = { unchecked: rate(), checked: rate() };
  }

  /** UNCHECKED rules, then, if VALIDATE accepts, the others. */
  all(
    target: Target,
    answers: TableAnswers,
    request: CheckRequest,
    remoteAddress: string,
  ): HandshakeOutcome | null {
    const first = this.first(target, answers, request, remoteAddress, 'unchecked');
    if (first !== null || !canMatch(answers.checked, request.method)) return first;
    const { check } = target;
    if (typeof check !== 'function' || !check(request)) return null;
    return this.first(target, answers, request, remoteAddress, 'checked');
  }

  first(
    target: Target,
    answers: TableAnswers,
    request: CheckRequest,
    remoteAddress: string,
    which: Which,
  ): HandshakeOutcome | null {
    for (const { place, methods, learns, answer: makes } of answers[which]) {
      if (learns !== undefined) continue;
      if (methods !== null && !methods.has(request.method)) continue;
      const answer = makes(request);
      if (answer === null) continue;
      const asked = { target, request, remoteAddress, place };
      return this.#tooOften(asked, which) ?? this.#answered(asked, answer);
    }
    return null;
  }

  /** The first rule whose secret this request brings: answered once the secret is committed. */
  async learning(
    target: Target,
    request: CheckRequest,
    remoteAddress: string,
  ): Promise<HandshakeOutcome | null> {
    for (const { place, methods, learns, answer: makes } of target.answers?.unchecked ?? []) {
      if (learns === undefined || methods?.has(request.method) === false) continue;
      const answer = makes(request);
      if (answer?.learned === undefined) continue;
      const asked = { target, request, remoteAddress, place };
      const refused = this.#tooOften(asked, 'unchecked');
      if (refused !== null) return refused;
      const known = await this.#around.learning.learn(target, learns, answer.learned, remoteAddress);
      return known ? this.#answered(asked, answer) : null;
    }
    return null;
  }

  #tooOften(asked: PostedQuestion, which: Which): HandshakeOutcome | null {
    const { target } = asked;
    const waitMs = this.#rates[which].take(`${target.database}/${target.oid}`, this.#around.clock());
    if (waitMs <= 0) return null;
    this.#tell(asked, refusals.rate_limited.status, 'too_many');
    return { kind: 'askedTooOften', target, refusal: tooMany(waitMs) };
  }

  #answered(asked: PostedQuestion, answer: HandshakeAnswer): HandshakeOutcome {
    this.#tell(asked, answer.status, 'answered');
    return { kind: 'asked', target: asked.target, answer };
  }

  #tell(
    { target, request, remoteAddress, place }: PostedQuestion,
    status: number,
    outcome: AskedHandshake['outcome'],
  ): void {
    const { method, arrivedAtMs: askedAtMs } = request;
    tell(this.#around, { target, method, remoteAddress, askedAtMs, place, status, outcome });
  }
}

interface PostedQuestion {
  readonly target: Target;
  readonly request: CheckRequest;
  readonly remoteAddress: string;
  readonly place: number;
}

function tooMany(waitMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000));
  return { ...refusal('rate_limited', 'too many handshakes of this table'), retryAfterSeconds };
}

/** Also while the engine is away: then handshakes are answered by what was known last. */
async function isStill(target: Target, sinceMs: number, catalog: Pick<Catalog, 'isStill'>): Promise<boolean> {
  try {
    return await catalog.isStill(target, sinceMs);
  } catch (error) {
    if (error instanceof Refused && refusals[error.refusal.code].status >= 500) return true;
    throw error;
  }
}

/** Does not wait if the table is known. Returns what a POST is told if there is no such table, which the engine has to say: of what is known last, only the method is refused. */
async function found(
  arrival: Arrival,
  catalog: Pick<Catalog, 'find' | 'lastKnown'>,
): Promise<Target | Refused> {
  let known: Target | null | undefined;
  try {
    const name = webhookRoute(arrival.target);
    known = catalog.lastKnown(name);
    // The table may be a millisecond old: its URL is given to the sender as soon as CREATE TABLE returns.
    return known ?? (await catalog.find(name));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (refusals[error.refusal.code].status < 500) return error;
    if (known === null) return new Refused('method_not_allowed');
    throw error;
  }
}

function canMatch(rules: readonly HandshakeRule[], method: string): boolean {
  return rules.some(({ methods }) => methods === null || methods.has(method));
}

function requestOf({ method, target, rawHeaders, arrivedAtMs }: Arrival, body: Buffer): CheckRequest {
  return { method, target, rawHeaders, arrivedAtMs, body };
}

/** null: the body may be larger, or is encoded, so no rule matches it. Most handshakes have no body. */
async function smallBody(arrival: Arrival, read: () => Promise<Buffer>): Promise<Buffer | null> {
  const { rawHeaders, announcedBytes = 0 } = arrival;
  const coded = rawHeaders.some(
    (name, at) => at % 2 === 0 && /^(?:transfer-encoding|content-encoding)$/i.test(name),
  );
  if (coded || announcedBytes > bytesMax) return null;
  return announcedBytes === 0 ? Buffer.alloc(0) : read();
}
