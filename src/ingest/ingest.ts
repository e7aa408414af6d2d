/**
 * What happens to a webhook request, from its arrival to its outcome. Each stage may refuse the request by throwing Refused.
 * Only the last stage can report success: it knows that the row is committed.
 *
 *   route → find the table → admit → read the body → VALIDATE → decode → the lane's receipt
 *
 * A table with ANSWER … WHEN also looks for handshakes (request-handshakes.ts): by its UNCHECKED rules before VALIDATE, by the others after. A table that spools
 * takes another way (spooling.ts) from the moment that its database is unavailable.
 * Takes an Arrival; returns an Outcome, or the answer to a handshake, or says that the request is on the disk; throws
 * Refused with the codes of those stages (refused-request.ts). Touches nothing itself.
 */
import type { Admission } from '../access/admission.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { ServedTables } from '../catalog/database-tables.ts';
import { decodeWithPauses } from '../decode/decode-slices.ts';
import { decodeWhole } from '../decode/decode.ts';
import { Refused } from '../errors/refusals.ts';
import { freeLarge } from '../kit/free-buffer.ts';
import type { StageContext } from '../observe/context.ts';
import type { ConflictingDeliveries } from '../reject/conflicting-deliveries.ts';
import type { Rejects } from '../reject/rejected-requests.ts';
import { isSpooling } from '../spool/table-order.ts';
import type { Arrival, CheckRequest, DecodeRequest, HeaderReader, RequestCheck } from '../types/request.ts';
import type { KeptApart, Outcome, Rows, Spooled } from '../types/rows.ts';
import type { FetchedKeys, Target } from '../types/target.ts';
import type { HandshakeOutcome, SenderHandshakes } from './handshake.ts';
import { notStored, refused } from './refused-request.ts';
import type { RequestProgress } from './refused-request.ts';
import { answerHandshake, foundOrAnswered, learnOrCertify } from './request-handshakes.ts';
import { refuseOtherMethod, webhookRoute } from './routes.ts';
import type { Sns } from './sns.ts';
import { Spooling } from './spooling.ts';
import type { SpoolStages } from './spooling.ts';
import { changedAttemptsMax } from './refusal-check.ts';

/** What a request passes, and who is told of it. */
export interface Stages extends Pick<StageContext, 'clock' | 'observe'> {
  readonly catalog: Pick<ServedTables, 'answering'> & Pick<Catalog, 'refresh'> & SpoolStages['catalog'];
  readonly lanes: Pick<Lanes, 'admit' | 'submit'>;
  /** Which tables spool, and for how long. */
  readonly settings: SpoolStages['settings'];
  /** null: no request is spooled. */
  readonly disk: SpoolStages['disk'];
  /** null: the rate of a table has no bound. */
  readonly gate: Pick<Admission, 'admitTable'> | null;
  readonly handshakes: Omit<SenderHandshakes, 'ask'>;
  /** Certificates and confirmations of SNS, and confirmations of Event Grid; null: off. */
  readonly sns: Pick<Sns, 'certify' | 'stored'> | null;
  /** Keeps refused requests for the owners of their tables. */
  readonly rejects: Pick<Rejects, 'keep'>;
  /** Keeps requests with the id of another delivery. */
  readonly apart: Pick<ConflictingDeliveries, 'keep'>;
  /** `AcceptedRequests` of console/: called with what a request to an inspected table held, once it is stored; returns the id to look it up by. Never throws. */
  readonly hold: (target: Target, arrival: Arrival, body: Buffer) => string;
}

export class Ingest {
  readonly #stages: Stages & { readonly spooling: Spooling };

  constructor(stages: Stages) {
    const spooling = new Spooling(stages);
    this.#stages = { ...stages, spooling };
  }

  /** Rejects with Refused, which is answered from refusals.ts, or because of a bug, which is answered 500 with a request id. */
  async submit(arrival: Arrival): Promise<Outcome | HandshakeOutcome | Spooled | KeptApart> {
    const stages = this.#stages;
    const { catalog, lanes, gate, spooling, clock } = stages;
    const { span = null, traceparent } = arrival;
    const progress = begun(clock());
    const name = webhookRoute(arrival.target);
    for (let attempt = 1; ; attempt++) {
      // Whatever it is refused with before the table is found, the catalog has asked.
      progress.found = null;
      try {
        let target = catalog.answering(name);
        // The rare case: nothing, or nothing certain, is known of the table (one that was made a moment ago; or its database is away), and the engine has to be asked.
        if (target === undefined) {
          const finding = spooling.findLate(name);
          const last = stages.handshakes.lastKnown(name);
          const asks = finding instanceof Promise && last?.answers?.asksByPost === true;
          const late = await (asks ? foundOrAnswered(finding, stages, last, arrival, progress) : finding);
          if ('kind' in late) return late;
          target = late;
        }
        progress.target = progress.found = target;
        arrival.found?.(target);
        refuseOtherMethod(target, arrival.method);
        gate?.admitTable(target);
        const spools = isSpooling(target, stages.settings);
        const expected = { bytes: arrival.announcedBytes ?? 0, inOrder: false };
        if (spools) spooling.admit(target, expected);
        else lanes.admit(target, expected);
        // As a rule it has arrived, and is no promise.
        const reading = progress.body ?? arrival.body(target.readsEncodedBody);
        const body = (progress.body = reading instanceof Promise ? await reading : reading);
        // It may have taken long to arrive, and the table may have another check by now.
        if (reading instanceof Promise && catalog.answering(name) !== target) continue;
        const request = new ReceivedRequest(arrival, body);
        progress.authenticated = false;
        const { answers, sns } = target;
        if (answers?.asksByPost === true) {
          const asked = answerHandshake(stages, target, answers, request, 'unchecked');
          if (asked !== null) return asked;
        }
        if (answers?.learns === true || sns !== undefined) {
          const asked = await learnOrCertify(stages, target, request);
          if (asked === 'again' && attempt < changedAttemptsMax) continue;
          if (asked !== null && asked !== 'again') return asked;
        }
        const waits = authenticated(target, request);
        if (waits !== null) await waits;
        progress.authenticated = true;
        if (span !== null) span.verifiedMs = clock();
        if (answers?.asksByPost === true) {
          const asked = answerHandshake(stages, target, answers, request, 'checked');
          if (asked !== null) return asked;
        }
        // As a rule the first: the document is only scanned, and its bytes are the row.
        const decoding = decodeWhole(target, request) ?? decodeWithPauses(target, request);
        const decoded = decoding instanceof Promise ? await decoding : decoding;
        // The group of the rows finds the request's trace by them.
        const rows = traceparent === undefined ? decoded : { ...decoded, traceparent };
        // A batch without lines: there is nothing to wait for.
        if (rows.count === 0) return { kind: 'committed', rows: 0 };
        progress.submitted = true;
        if (span !== null) span.queuedMs = clock();
        const outcome = await (spools ? spooling.submit(rows, arrival, body) : lanes.submit(rows));
        if (outcome.kind === 'committed' || outcome.kind === 'spooled')
          return this.#stored(outcome, arrival, body, rows);
        if (!wasChanged(outcome) || attempt === changedAttemptsMax)
          return await notStored(stages, arrival, progress, rows, outcome);
        await catalog.refresh(target);
      } catch (thrown) {
        const isLast = attempt === changedAttemptsMax;
        const asked = await refused(stages, thrown, name, arrival, progress, isLast);
        if (asked !== 'again') return asked;
      }
    }
  }

  #stored(
    outcome: Extract<Outcome | Spooled, { kind: 'committed' | 'spooled' }>,
    arrival: Arrival,
    body: Buffer,
    { target, documents }: Rows,
  ): Outcome | Spooled {
    const { clock, sns, hold } = this.#stages;
    const { span = null } = arrival;
    if (span !== null) span[outcome.kind === 'spooled' ? 'spooledMs' : 'committedMs'] = clock();
    // A URL in a stored message may have to be fetched.
    if (outcome.kind === 'committed' && (target.sns !== undefined || target.eventGrid !== undefined))
      sns?.stored(target, body);
    const held = target.inspected === true ? hold(target, arrival, body) : undefined;
    // The engine, or the disk, has all of the request, so none of its memory waits to be written any more. A group that was given
    // up as unknown may still be written, or tried again.
    if (outcome.kind === 'committed' || !outcome.wasInLane) freeLarge(documents.bytes, body);
    return held === undefined ? outcome : { ...outcome, held };
  }
}

function begun(sinceMs: number): RequestProgress {
  return { sinceMs, found: null, target: null, body: null, authenticated: false, submitted: false };
}

/**
 * By the table's VALIDATE, which `checkOf` (validate/program.ts) has made. It runs before the body is parsed, so that a stranger learns nothing about how it would be parsed. Throws Refused, or returns a
 * promise if keys may have to be fetched, which rejects with it; null: it is authenticated.
 */
export function authenticated({ check, fetchedKeys }: Target, request: CheckRequest): Promise<void> | null {
  if (check === null) return null;
  if (check === 'unusable') throw new Refused('table_unusable');
  if (fetchedKeys !== undefined) return authenticatedByKeys(check, fetchedKeys, request);
  if (!check(request)) throw new Refused('signature_failed');
  return null;
}

async function authenticatedByKeys(
  check: RequestCheck,
  keys: FetchedKeys,
  request: CheckRequest,
): Promise<void> {
  await keys.ready();
  if (check(request)) return;
  if (!(await keys.renewed()) || !check(request)) throw new Refused('signature_failed');
}

function wasChanged(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && outcome.refusal.code === 'table_changed';
}

/** A webhook request whose body has been read, as VALIDATE and decode take it. Its headers become strings only when something reads them. */
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
