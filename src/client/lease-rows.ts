/**
 * Statements of a lease for many rows at one time: when rows are claimed, and marks of rows as done. A mark takes a row's id and attempt, and a way to write
 * marks; each promise settles as the statement with its mark did. One statement runs at a time: what comes meanwhile goes with the next one of its attempt,
 * which is nearly always the same number. If one of the rows is at fault (code of the table refuses it), each is marked by itself. Holds what its callers wait
 * for, and when the last claim was.
 */
export type WriteMarks = (ids: readonly unknown[], attempt: number) => Promise<unknown>;

/** By id, why it was not marked. */
type Failed = ReadonlyMap<unknown, Error>;

interface Waiting {
  readonly ids: unknown[];
  /** Never rejects. */
  readonly failed: Promise<Failed>;
}

export class Marks {
  readonly #write: WriteMarks;
  readonly #isOfRow: (error: unknown) => boolean;
  /** By attempt. */
  readonly #waiting = new Map<number, Waiting>();
  #last: Promise<unknown> = Promise.resolve();

  /** `isOfRow`: whether other rows of a statement that has failed so may be marked. */
  constructor(write: WriteMarks, isOfRow: (error: unknown) => boolean) {
    this.#write = write;
    this.#isOfRow = isOfRow;
  }

  async add(id: unknown, attempt: number): Promise<void> {
    const waiting = this.#waiting.get(attempt) ?? this.#begin(attempt);
    waiting.ids.push(id);
    const why = (await waiting.failed).get(id);
    if (why !== undefined) throw why;
  }

  #begin(attempt: number): Waiting {
    const ids: unknown[] = [];
    const failed = this.#last.then(() => {
      this.#waiting.delete(attempt);
      return this.#mark(ids, attempt);
    });
    const waiting = { ids, failed };
    this.#waiting.set(attempt, waiting);
    this.#last = failed;
    return waiting;
  }

  async #mark(ids: readonly unknown[], attempt: number): Promise<Failed> {
    try {
      await this.#write(ids, attempt);
      return new Map();
    } catch (error) {
      const why = error instanceof Error ? error : new Error(String(error));
      if (ids.length === 1 || !this.#isOfRow(error)) return new Map(ids.map((id) => [id, why]));
      const failed = new Map<unknown, Error>();
      for (const id of ids)
        for (const [at, whyNot] of await this.#mark([id], attempt)) failed.set(at, whyNot);
      return failed;
    }
  }
}

/** When rows are claimed: a claim of one row costs as much as one of many. */
export class ClaimPace {
  readonly #most: number;
  readonly #everyMs: number;
  #claimedMs = -Infinity;
  #isShort = false;

  /** `most`: rows at one time; `everyMs`: between two claims, unless the last one got all that it asked for and this one is for half of them. */
  constructor(most: number, everyMs: number) {
    this.#most = most;
    this.#everyMs = everyMs;
  }

  /** For how long it is too early for a claim of so many rows, in ms; 0 or less: it is not. */
  earlyMs(count: number): number {
    const isFew = this.#isShort || count < this.#most / 2;
    return isFew ? this.#claimedMs + this.#everyMs - performance.now() : 0;
  }

  async claim<Row>(count: number, claim: () => Promise<readonly Row[]>): Promise<readonly Row[]> {
    this.#claimedMs = performance.now();
    const rows = await claim();
    this.#isShort = rows.length < count;
    return rows;
  }
}

/** PostgreSQL's text of an array: its type is that of the column that it is compared with. */
export function arrayText(values: readonly unknown[]): string {
  return `{${values.map((it) => `"${String(it).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
