/**
 * What happens to a refused request whose owner asks for another attempt: the stages of ingest.ts again, with the body and
 * the headers that were kept and the original time of arrival, but without the check, because the table's owner may write to it; and,
 * if it was kept because of its delivery's id, as another delivery. So is what was fetched from a sender's log (reconcile/), which nobody has signed.
 * Takes a KeptRequest; returns an Outcome, and never rejects with Refused. Touches nothing itself.
 */
import type { KeptRequest, RetryRejected } from '../types/journal.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { derived } from '../types/table-options.ts';
import type { TableName } from '../observe/observations.ts';
import { Ingest } from './ingest.ts';
import type { Stages } from './request-progress.ts';
import type { DirectPipeline, Pipeline } from './pipeline.ts';
import { refusal, Refused } from '../errors/refusals.ts';

type RetryWay = Pick<DirectPipeline, keyof Pipeline>;

/** What is refused again is not kept again. */
export function createRetry(
  way: RetryWay,
  { catalog, clock }: Pick<Stages, 'catalog' | 'clock'>,
): RetryRejected {
  return async (request) => {
    const { database, schema, table, method, requestTarget, rawHeaders, arrivedAtMs, body } = request;
    const { remoteAddress, traceparent } = request;
    const ingest = new Ingest({ catalog, clock, way: new Again(way, request) });
    const arrival = { method, target: requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent };
    try {
      const outcome = await ingest.submit(
        { ...arrival, body: () => Promise.resolve(body) },
        { target: () => {} },
        { database, schema, table },
      );
      if ('target' in outcome) throw new Error('what was kept is stored, and asks nothing');
      if (outcome.kind === 'spooled' || outcome.kind === 'kept apart')
        throw new Error('a retry is never kept elsewhere');
      return outcome;
    } catch (error) {
      if (error instanceof Refused) return aborted(error);
      throw error;
    }
  };
}

/** The way of one request that was kept. */
class Again implements Pipeline {
  readonly #way: RetryWay;
  readonly #request: KeptRequest;
  #found: Target | null = null;

  constructor(way: RetryWay, request: KeptRequest) {
    this.#way = way;
    this.#request = request;
  }

  async find(name: TableName): Promise<Target> {
    this.#found = await this.#way.find(name);
    return unchecked(this.#found, this.#request);
  }

  isStill(_: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.#found !== null && this.#way.isStill(this.#found, sinceMs);
  }

  admit(target: Target, bytes: number): void {
    this.#way.admit(target, bytes);
  }

  submit(rows: Rows): Promise<Outcome> {
    if (this.#request.fetched === true) return this.#way.submit(byIdAlone(rows));
    return this.#way.submit(this.#request.apart ? apart(rows) : rows);
  }
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

function aborted({ refusal: why }: Refused): Outcome {
  return { kind: 'aborted', refusal: why };
}

/** A value of the query that reject/redact.ts masked, because no column takes it. */
export const maskedQuery = /[?&](?:[^&=]*=)?\*\*\*(?:&|$)/;

/** The table without its check; an unusable table stays unusable. */
function unchecked(target: Target, { oid, leftOut, requestTarget }: KeptRequest): Target {
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
  return target.check === 'unusable' ? target : { ...target, check: null };
}
