/**
 * What happens to a refused request whose owner asks for another attempt: the stages of ingest.ts again, with the body and
 * the headers that were kept and the original time of arrival, but without the check, because the table's owner may write to it; and,
 * if it was kept because of its delivery's id, as another delivery. So is what was fetched from a sender's log (reconcile/), which nobody has signed.
 * Takes a KeptRequest; returns an Outcome, and never rejects with Refused. Touches nothing itself. Its rows bypass the disk, as those of WebSockets do.
 */
import type { Admission } from '../access/admission.ts';
import { nothingExpected } from '../batch/lanes.ts';
import type { ExpectedRequest, Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { decodeWithPauses } from '../decode/decode-slices.ts';
import { decodeWhole } from '../decode/decode.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { freeLarge } from '../kit/free-buffer.ts';
import type { StageContext } from '../observe/context.ts';
import type { KeptRequest } from '../types/journal.ts';
import type { DecodeRequest } from '../types/request.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import { derived } from '../types/table-options.ts';
import type { Target } from '../types/target.ts';
import { refuseOtherMethod } from './routes.ts';
import { changedAttemptsMax, standing, standingOutcome } from './refusal-check.ts';
import type { Disk } from './spooling.ts';

/** What rows pass that bypass the disk: those of retries and of WebSockets. */
export interface DirectStages {
  readonly catalog: Pick<Catalog, 'find' | 'isStill' | 'refresh'>;
  readonly lanes: Pick<Lanes, 'admit' | 'submit'>;
  /** null: the rate of a table has no bound. */
  readonly gate: Pick<Admission, 'admitTable'> | null;
  /** null: no requests are kept. */
  readonly disk: Pick<Disk, 'spoolOf'> | null;
}

export class Retry {
  readonly #stages: DirectStages & Pick<StageContext, 'clock'>;

  constructor(stages: DirectStages & Pick<StageContext, 'clock'>) {
    this.#stages = stages;
  }

  /** What is refused again is not kept again. */
  async store(request: KeptRequest): Promise<Outcome> {
    const { catalog, lanes, clock } = this.#stages;
    const sinceMs = clock();
    for (let attempt = 1; ; attempt++) {
      let found: Target | null = null;
      try {
        const target = await catalog.find(request);
        refuseIncomplete(target, request);
        found = target;
        refuseOtherMethod(target, request.method);
        admitPastDisk(this.#stages, target, nothingExpected);
        if (target.check === 'unusable') throw new Refused('table_unusable');
        const asReceived = received(request);
        const decoded = decodeWhole(target, asReceived) ?? (await decodeWithPauses(target, asReceived));
        const rows = asKept(decoded, request);
        if (rows.count === 0) return { kind: 'committed', rows: 0 };
        const outcome = await lanes.submit(rows);
        if (outcome.kind === 'committed') {
          freeLarge(rows.documents.bytes, request.body);
          return outcome;
        }
        const isChanged = outcome.kind === 'aborted' && outcome.refusal.code === 'table_changed';
        if (!isChanged || attempt === changedAttemptsMax)
          return await standingOutcome(outcome, rows, catalog, found, sinceMs);
        await catalog.refresh(target);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const why = await standing(error.refusal, catalog, found, sinceMs);
        if (why.code !== 'table_changed' || attempt === changedAttemptsMax)
          return { kind: 'aborted', refusal: why };
      }
    }
  }
}

/**
 * To be called before rows that bypass the disk are made: they must not overtake rows of their table that are on it. Throws `rate_limited`,
 * `lane_full`, `draining`, `spooling`.
 */
export function admitPastDisk(
  { gate, disk, lanes }: DirectStages,
  target: Target,
  expected: ExpectedRequest,
): void {
  gate?.admitTable(target);
  const order = disk?.spoolOf(target.database)?.knownGate(target.oid) ?? null;
  if (order !== null && order.state !== 'open') throw new Refused('spooling');
  lanes.admit(target, expected);
}

function received({ requestTarget: target, ...request }: KeptRequest): DecodeRequest {
  const { method, rawHeaders, arrivedAtMs, remoteAddress, traceparent, body } = request;
  return { method, target, rawHeaders, arrivedAtMs, remoteAddress, traceparent, body };
}

function asKept(rows: Rows, { fetched, apart: isApart, traceparent }: KeptRequest): Rows {
  const traced = traceparent === undefined ? rows : { ...rows, traceparent };
  if (fetched === true) return byIdAlone(traced);
  return isApart ? apart(traced) : traced;
}

/** Another delivery than the one that has its id: stored once, too, however often it is retried. */
function apart(rows: Rows): Rows {
  const { delivery, content = '', ...others } = rows;
  return delivery === undefined ? rows : { ...others, delivery: derived('apart', delivery, content) };
}

/** What came in another form is a copy, too. */
function byIdAlone(rows: Rows): Rows {
  const { content, ...others } = rows;
  return content === undefined ? rows : others;
}

/** A value of the query that reject/redact.ts masked, because no column takes it. */
export const maskedQuery = /[?&](?:[^&=]*=)?\*\*\*(?:&|$)/;

/** Throws `not_found` if the table is another one, and `row_refused` if it takes something that was not kept. */
function refuseIncomplete(target: Target, { oid, leftOut, requestTarget }: KeptRequest): void {
  if (target.oid !== oid) throw new Refused('not_found');
  const missing = target.intake.includes.find(
    (it) =>
      (it.what === 'header' && leftOut.has(it.header.toLowerCase())) ||
      (it.what === 'query' && maskedQuery.test(requestTarget)),
  );
  if (missing !== undefined) {
    const { message } = refusal('row_refused');
    throw new Refused('row_refused', `${message}: what column "${missing.column}" takes was not kept`);
  }
}
