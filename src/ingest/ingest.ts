/**
 * What happens to a webhook request, as one sentence. Each stage may refuse (it throws Refused) and only then;
 * the answer belongs to the last one, which knows that the row is committed.
 *
 *   route → find the table → admit → read the body → VALIDATE → decode → the lane's receipt
 *
 * Only a table with ANSWER … WHEN looks for questions beside it (handshake.ts): UNCHECKED ones before VALIDATE, the others behind.
 * Takes an Arrival; gives an Outcome, or says that it is on the disk (spooling.ts), or throws Refused with the codes of those
 * stages. Touches nothing itself.
 */
import type {
  Arrival,
  CheckRequest,
  DecodeRequest,
  HeaderReader,
  Outcome,
  RejectedRequest,
  Rows,
  Spooled,
  Target,
} from '../tables/flow.ts';
import type { Asked, Handshakes } from './handshake.ts';
import type { Sns } from './sns.ts';
import { freeBuffer, freeMade } from '../kit/free-buffer.ts';
import type { TableName } from '../tables/observations.ts';
import { Refused, refusals } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';

export interface IngestDeps {
  /** The table that a request target names; throws `malformed_path`, `not_found`. */
  route(target: string): TableName;
  /** The table as the catalog knows it now; throws `not_found`, `engine_unavailable`. */
  find(name: TableName): Target | Promise<Target>;
  /** Throws `lane_full`, `draining`, before the body is read. */
  admit(target: Target, announcedBytes: number): void;
  /** Throws `body_not_json`; what has many rows is decoded a part at a time. */
  decode(target: Target, request: DecodeRequest): Rows | Promise<Rows>;
  /** `arrival`, `body`: what the rows were made of, for where that is kept instead (spooling.ts). */
  submit(rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled>;
  /** Reads the catalog again, because the engine says that a table is not what it was. */
  refresh(table: Pick<Target, 'database' | 'oid'>): Promise<void>;
  /** Told of every request to a table that was refused, before its sender is. Never throws, takes no time. */
  rejected?(request: RejectedRequest): void;
  /** Told of what a request to an inspected table held, once it is stored; gives by what it is known. Never throws. */
  hold?(target: Target, arrival: Arrival, body: Buffer): string;
  /** Certificates and confirmations of SNS; absent: it is off. */
  readonly sns?: Pick<Sns, 'certify' | 'stored'>;
  /** Answers the questions of senders; absent: no table has ANSWER. */
  readonly handshakes?: Handshakes;
}

/** Rejects with Refused, answered from refusals.ts, or with a bug, answered 500 with a request id. */
export type Ingest = (arrival: Arrival, hooks: IngestHooks) => Promise<Outcome | Asked | Spooled>;

export interface IngestHooks {
  /** Told which table the request is for, as soon as that is known. */
  target(table: TableName & Pick<Target, 'answers'>): void;
}

/** How often one request follows a table that is being changed under it. */
const changedAttemptsMax = 3;

export function createIngest(deps: IngestDeps): Ingest {
  return async (arrival, hooks) => {
    const name = deps.route(arrival.target);
    const got: Got = { target: null, body: null, authenticated: false, submitted: false };
    try {
      for (let attempt = 1; ; attempt++) {
        const found = deps.find(name);
        const late = found instanceof Promise ? await findLate(found, name, deps, arrival, got) : null;
        if (late !== null && 'kind' in late) return late;
        const target = late ?? (found as Target);
        got.target = target;
        hooks.target(target);
        deps.admit(target, arrival.announcedBytes ?? 0);
        const reading = got.body ?? arrival.body();
        const body = (got.body = reading instanceof Promise ? await reading : reading);
        const request = new ReceivedRequest(arrival, body);
        got.authenticated = false;
        const first = asks(target, deps, request, 'unchecked');
        if (first !== null) return first;
        const before = needsMore(target) ? await more(target, deps, request) : null;
        if (before === 'again' && attempt < changedAttemptsMax) continue;
        if (before !== null && before !== 'again') return before;
        authenticate(target, request);
        got.authenticated = true;
        const second = asks(target, deps, request, 'checked');
        if (second !== null) return second;
        const decoded = deps.decode(target, request);
        const rows = decoded instanceof Promise ? await decoded : decoded;
        // A batch of no lines: there is nothing to wait for.
        if (rows.count === 0) return { kind: 'committed', rows: 0 };
        got.submitted = true;
        const outcome = await deps.submit(rows, arrival, body);
        if (outcome.kind === 'committed' || outcome.kind === 'spooled') {
          // The engine, or the disk, has all of it, so nothing of it waits to be written any more.
          if (deps.sns !== undefined && confirms(target) && outcome.kind === 'committed')
            deps.sns.stored(target, body);
          const held = target.inspected === true ? deps.hold?.(target, arrival, body) : undefined;
          freeMade(rows.documents.bytes, body);
          return held === undefined ? outcome : { ...outcome, held };
        }
        if (!wasChanged(outcome) || attempt === changedAttemptsMax) {
          const answer = named(outcome, rows);
          if (answer.kind === 'aborted') tellRejected(deps, arrival, got, answer.refusal);
          return answer;
        }
        await deps.refresh(target);
      }
    } catch (error) {
      const asked = error instanceof Refused ? await asksMeanwhile(error, deps, arrival, got) : null;
      if (asked !== null) return asked;
      if (error instanceof Refused) tellRejected(deps, arrival, got, error.refusal);
      if (got.body !== null && !got.submitted) freeBuffer(got.body);
      throw error;
    }
  };
}

/** A request whose body has come. Its headers are made into strings by whoever looks at them, and not before. */
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
}

/** How far a request has come. */
interface Got {
  target: Target | null;
  body: Buffer | null;
  authenticated: boolean;
  /** Its rows may be on their way to the engine. */
  submitted: boolean;
}

/** The table, or, while that cannot be known, the answer to a question that it was known to answer. */
async function findLate(
  finding: Promise<Target>,
  name: TableName,
  { handshakes }: IngestDeps,
  arrival: Arrival,
  got: Got,
): Promise<Target | Asked> {
  const last = handshakes?.lastKnown(name);
  if (handshakes === undefined || last?.answers?.asksByPost !== true) return finding;
  // Waited for below, unless nobody needs it any more.
  finding.catch(() => undefined);
  const read = async () => (got.body ??= await arrival.body());
  return (await handshakes.meanwhile(last, arrival, read)) ?? finding;
}

/** Costs a table that answers no questions by POST one comparison. */
function asks(
  target: Target,
  { handshakes }: IngestDeps,
  request: ReceivedRequest,
  which: 'unchecked' | 'checked',
): Asked | null {
  const { answers } = target;
  if (answers?.asksByPost !== true || handshakes === undefined || answers[which].length === 0) return null;
  const asked = handshakes.posted(target, answers, request, request.remoteAddress, which);
  if (asked !== null) freeBuffer(request.body);
  return asked;
}

/** Few tables: a URL of a message may have to be opened once it is stored. */
const confirms = ({ sns, eventGrid }: Target) => sns !== undefined || eventGrid !== undefined;

/** Few tables: their secret may come with this request, or its certificate may have to be fetched. */
function needsMore({ answers, sns }: Target): boolean {
  return answers?.learns === true || sns !== undefined;
}

/** `again`: the table has another certificate now than the one that this message was not signed with. */
async function more(
  target: Target,
  deps: IngestDeps,
  request: ReceivedRequest,
): Promise<Asked | 'again' | null> {
  const { answers, check, sns } = target;
  if (answers?.learns === true) {
    const asked = (await deps.handshakes?.learning(target, request, request.remoteAddress)) ?? null;
    if (asked !== null) return asked;
  }
  if (sns === undefined || (typeof check === 'function' && check(request))) return null;
  if ((await deps.sns?.certify(target, request.body)) !== true) return null;
  await deps.refresh(target);
  return 'again';
}

/** A question needs no room in a lane: whether there is some is not asked of it. */
async function asksMeanwhile(
  { refusal: { code } }: Refused,
  { handshakes }: IngestDeps,
  arrival: Arrival,
  got: Got,
): Promise<Asked | null> {
  if (got.body !== null || got.target === null || refusals[code].status < 500) return null;
  const read = async () => (got.body ??= await arrival.body());
  return (await handshakes?.meanwhile(got.target, arrival, read)) ?? null;
}

function tellRejected(deps: IngestDeps, arrival: Arrival, got: Got, refusal: Refusal): void {
  const { target, body, authenticated } = got;
  if (target === null || deps.rejected === undefined) return;
  const { method, target: requestTarget, rawHeaders, arrivedAtMs, remoteAddress } = arrival;
  const request = { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress, body };
  deps.rejected({ ...request, target, refusal, door: 'http', authenticated });
}

/** Before anything looks into the body: a stranger learns nothing about how it would be read. */
function authenticate(target: Target, request: ReceivedRequest): void {
  const { check } = target;
  if (check === null) return;
  if (check === 'unusable') throw new Refused('table_unusable');
  if (!check(request)) throw new Refused('signature_failed');
}

/** A batch's sender is told on which line of its body the row at fault stands. */
function named(outcome: Outcome, rows: Rows): Outcome {
  if (outcome.kind !== 'aborted' || outcome.row === undefined || !rows.target.intake.batched) return outcome;
  const line = rows.lines?.[outcome.row] ?? outcome.row + 1;
  const { code, message } = outcome.refusal;
  return { ...outcome, refusal: { code, message: `line ${line}: ${message}` } };
}

function wasChanged(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && outcome.refusal.code === 'table_changed';
}
