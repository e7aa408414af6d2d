/**
 * What happens to a webhook request, from its arrival to its outcome. Each stage may refuse the request by throwing Refused.
 * Only the last stage can report success: it knows that the row is committed.
 *
 *   route → find the table → admit → read the body → VALIDATE → decode → the lane's receipt
 *
 * A table with ANSWER … WHEN also looks for handshakes (request-handshakes.ts): by its UNCHECKED rules before VALIDATE, by the others after.
 * Takes an Arrival; returns an Outcome, or the answer to a handshake, or says that the request is on the disk (spooling.ts); throws
 * Refused with the codes of those stages. Touches nothing itself.
 */
import type { Arrival, CheckRequest, DecodeRequest, HeaderReader } from '../types/request.ts';
import type { KeptApart, Outcome, Rows, Spooled } from '../types/rows.ts';
import type { FetchedKeys, Target } from '../types/target.ts';
import { wrongMethod } from './handshake.ts';
import type { HandshakeOutcome } from './handshake.ts';
import { decode } from '../decode/decode.ts';
import { freeBuffer, freeMade } from '../kit/free-buffer.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { changedAttemptsMax, standing } from './pipeline.ts';
import { notStored, tellRejected } from './refused-request.ts';
import {
  answerHandshake,
  answerHandshakeMeanwhile,
  findLate,
  learnOrCertify,
  mayLearnOrCertify,
  nameLastKnown,
} from './request-handshakes.ts';
import type { IngestHooks, RequestProgress, Stages } from './request-progress.ts';
import { webhookRoute } from './routes.ts';

export class Ingest {
  readonly #stages: Stages;

  constructor(stages: Stages) {
    this.#stages = stages;
  }

  /**
   * `named`: the table, if not the request's target names it. Rejects with Refused, which is answered from refusals.ts, or because of a bug, which is
   * answered 500 with a request id.
   */
  async submit(
    arrival: Arrival,
    hooks: IngestHooks,
    named: TableName | null = null,
  ): Promise<Outcome | HandshakeOutcome | Spooled | KeptApart> {
    const stages = this.#stages;
    const { way } = stages;
    const progress = begun(stages.clock());
    const name = named ?? webhookRoute(arrival.target);
    for (let attempt = 1; ; attempt++) {
      // Whatever `find` refuses with, it has asked.
      progress.found = null;
      try {
        const found = way.find(name);
        const late = found instanceof Promise ? await findLate(found, name, stages, arrival, progress) : null;
        if (late !== null && 'kind' in late) return late;
        const target = late ?? (found as Target);
        progress.target = progress.found = target;
        hooks.target(target);
        if (!takes(target, arrival.method)) throw new Refused(wrongMethod(target));
        way.admit(target, arrival.announcedBytes ?? 0);
        const reading = progress.body ?? arrival.body(target.readsEncodedBody);
        const body = (progress.body = reading instanceof Promise ? await reading : reading);
        // It may have taken long to arrive, and the table may have another check by now.
        if (reading instanceof Promise && !isSame(way.find(name), target)) continue;
        const request = new ReceivedRequest(arrival, body);
        progress.authenticated = false;
        const first = answerHandshake(target, stages, request, 'unchecked');
        if (first !== null) return first;
        const before = mayLearnOrCertify(target) ? await learnOrCertify(target, stages, request) : null;
        if (before === 'again' && attempt < changedAttemptsMax) continue;
        if (before !== null && before !== 'again') return before;
        const waits = authenticated(target, request);
        if (waits !== null) await waits;
        verified(progress, arrival, stages);
        const second = answerHandshake(target, stages, request, 'checked');
        if (second !== null) return second;
        const decoded = decode(target, request);
        const rows = traced(decoded instanceof Promise ? await decoded : decoded, arrival);
        // A batch without lines: there is nothing to wait for.
        if (rows.count === 0) return { kind: 'committed', rows: 0 };
        queued(progress, arrival, stages);
        const outcome = await way.submit(rows, arrival, body);
        if (outcome.kind === 'committed' || outcome.kind === 'spooled') {
          ended(outcome, arrival, stages);
          if (stages.sns !== undefined && confirms(target) && outcome.kind === 'committed')
            stages.sns.stored(target, body);
          const held = target.inspected === true ? stages.hold?.(target, arrival, body) : undefined;
          // The engine, or the disk, has all of the request, so none of its memory waits to be written any more. A group that was given
          // up as unknown may still be written, or tried again.
          if (outcome.kind === 'committed' || !outcome.wasInLane) freeMade(rows.documents.bytes, body);
          return held === undefined ? outcome : { ...outcome, held };
        }
        if (!wasChanged(outcome) || attempt === changedAttemptsMax)
          return await notStored(stages, arrival, progress, rows, outcome);
        await stages.catalog.refresh(target);
      } catch (thrown) {
        const asked =
          thrown instanceof Refused
            ? await answerHandshakeMeanwhile(thrown, stages, arrival, progress)
            : null;
        if (asked !== null) return asked;
        const why =
          thrown instanceof Refused
            ? await standing(thrown.refusal, way, progress.found, progress.sinceMs)
            : null;
        if (why?.code === 'table_changed' && attempt < changedAttemptsMax) continue;
        if (why?.code === 'engine_unavailable' && progress.target === null)
          nameLastKnown(stages, name, hooks);
        if (why !== null) tellRejected(stages, arrival, progress, why);
        if (progress.body !== null && !progress.submitted) freeBuffer(progress.body);
        throw why === null || why === (thrown as Refused).refusal ? thrown : new Refused(why);
      }
    }
  }
}

function begun(sinceMs: number): RequestProgress {
  return { sinceMs, found: null, target: null, body: null, authenticated: false, submitted: false };
}

/** For a table without the option `methods` this costs one comparison. */
function takes({ methods }: Target, method: string): boolean {
  return methods === undefined ? method === 'POST' : methods.has(method);
}

/** The same, at once: not even in doubt. */
function isSame(found: Target | Promise<Target>, target: Target): boolean {
  if (found instanceof Promise) found.catch(() => undefined);
  return found === target;
}

/** A request whose body has been read. Its headers become strings only when something reads them. */
class ReceivedRequest implements CheckRequest, DecodeRequest {
  readonly body: Buffer;
  readonly #arrival: Arrival;

  constructor(arrival: Arrival, body: Buffer) {
    this.#arrival = arrival;
    this.body = body;
  }

  get method(): string {
    return this.#arrival.method;
  }

  get target(): string {
    return this.#arrival.target;
  }

  get encodedBody(): Buffer | undefined {
    return this.#arrival.encodedBody;
  }

  get rawHeaders(): readonly string[] {
    return this.#arrival.rawHeaders;
  }

  get header(): HeaderReader | undefined {
    return this.#arrival.header;
  }

  get arrivedAtMs(): number {
    return this.#arrival.arrivedAtMs;
  }

  get remoteAddress(): string {
    return this.#arrival.remoteAddress;
  }

  get traceparent(): string | undefined {
    return this.#arrival.traceparent;
  }
}

function verified(progress: RequestProgress, { span = null }: Arrival, { clock }: Stages): void {
  progress.authenticated = true;
  if (span !== null) span.verifiedMs = clock();
}

function queued(progress: RequestProgress, { span = null }: Arrival, { clock }: Stages): void {
  progress.submitted = true;
  if (span !== null) span.queuedMs = clock();
}

function ended({ kind }: Outcome | Spooled, { span = null }: Arrival, { clock }: Stages): void {
  if (span === null) return;
  if (kind === 'spooled') span.spooledMs = clock();
  else span.committedMs = clock();
}

/** The group of the rows finds the request's trace by them. */
function traced(rows: Rows, { traceparent }: Arrival): Rows {
  return traceparent === undefined ? rows : { ...rows, traceparent };
}

/** True for few tables: a URL in a stored message may have to be fetched. */
const confirms = ({ sns, eventGrid }: Target) => sns !== undefined || eventGrid !== undefined;

/** Runs before the body is parsed, so that a stranger learns nothing about how it would be parsed. */
function authenticate({ check }: Target, request: CheckRequest): void {
  if (check === null) return;
  if (check === 'unusable') throw new Refused('table_unusable');
  if (!check(request)) throw new Refused('signature_failed');
}

/** The same for a table whose keys may have to be fetched; null: it is authenticated. Throws Refused, or rejects with it. */
export function authenticated(target: Target, request: CheckRequest): Promise<void> | null {
  if (target.fetchedKeys !== undefined) return authenticateByKeys(target, target.fetchedKeys, request);
  authenticate(target, request);
  return null;
}

async function authenticateByKeys(target: Target, keys: FetchedKeys, request: CheckRequest): Promise<void> {
  const { check } = target;
  if (typeof check !== 'function') return authenticate(target, request);
  await keys.ready();
  if (check(request)) return;
  if (!(await keys.renewed()) || !check(request)) throw new Refused('signature_failed');
}

function wasChanged(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && outcome.refusal.code === 'table_changed';
}
