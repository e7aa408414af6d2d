/**
 * Statements of a lease for many rows at one time: when rows are claimed, marks of rows as done, effects. A mark takes a row's id and attempt, and a way to write
 * marks; each promise settles as the statement with its mark did. `Marks` writes at once, one statement at a time: what comes meanwhile goes with the next one
 * of its attempt, which is nearly always the same number. `MarksWithClaims` lets them wait for the next claim, so that one statement does both. If one of the rows is
 * at fault (code of the table refuses it), each is marked by itself. `Effects` executes one statement for several rows in one transaction.
 * Holds what its callers wait for, and when the last claim was.
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

interface Mark {
  readonly id: unknown;
  readonly attempt: number;
  readonly settle: (written: Promise<void> | void) => void;
}

export class MarksWithClaims {
  readonly #marks: Marks;
  readonly #added: () => void;
  #waiting: Mark[] = [];
  #ended = false;

  /** `marks`: for marks that do not go with a claim; `added`: called when one begins to wait. */
  constructor(marks: Marks, added: () => void) {
    this.#marks = marks;
    this.#added = added;
  }

  get areWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  add(id: unknown, attempt: number): Promise<void> {
    if (this.#ended) return this.#marks.add(id, attempt);
    return new Promise((settle) => {
      this.#waiting.push({ id, attempt, settle });
      this.#added();
    });
  }

  /**
   * Claims, and marks what waits. `both`: one statement for the claim and for marks of one attempt; `isOfRow`: whether the claim may succeed without them after
   * such an error. Rejects as the claim does; marks whose statement has failed are written by themselves.
   */
  async claim<Rows>(
    alone: () => Promise<Rows>,
    both: (ids: readonly unknown[], attempt: number) => Promise<Rows>,
    isOfRow: (error: unknown) => boolean,
  ): Promise<Rows> {
    const waiting = this.#waiting.splice(0);
    const attempt = waiting[0]?.attempt;
    if (attempt === undefined) return alone();
    const together = waiting.filter((mark) => mark.attempt === attempt);
    this.#byThemselves(waiting.filter((mark) => mark.attempt !== attempt));
    try {
      const rows = await both(
        together.map(({ id }) => id),
        attempt,
      );
      for (const { settle } of together) settle();
      return rows;
    } catch (error) {
      this.#byThemselves(together);
      if (!isOfRow(error)) throw error;
      return alone();
    }
  }

  /** There is no other claim. */
  end(): void {
    this.#ended = true;
    this.#byThemselves(this.#waiting.splice(0));
  }

  #byThemselves(marks: readonly Mark[]): void {
    for (const { id, attempt, settle } of marks) settle(this.#marks.add(id, attempt));
  }
}

/** Executes a statement once with each set of parameters, in one transaction. */
export type Execute = (statement: string, sets: readonly (readonly unknown[])[]) => Promise<unknown>;

interface WaitingEffect {
  readonly params: readonly unknown[];
  readonly settle: (executed: Promise<unknown> | void) => void;
}

interface OfStatement {
  readonly waiting: WaitingEffect[];
  transactions: number;
}

/** A transaction that takes longer, in ms, is followed by smaller ones, of which several run at one time; one that takes a quarter of it, by larger ones. */
const slowMs = 50;

/**
 * Effects of rows, each in the transaction of its row's mark. What has the same statement goes together, in one transaction at a time, as long as that succeeds and
 * is fast; if it fails, each is executed by itself. Transactions of several rows hold their locks for longer, and two may wait for each other: the fewer of
 * these, the more rows go together again.
 */
export class Effects {
  readonly #execute: Execute;
  readonly #rowsMax: number;
  readonly #statements = new Map<string, OfStatement>();
  #together: number;

  /** `rowsMax`: at one time. */
  constructor(execute: Execute, rowsMax: number) {
    this.#execute = execute;
    this.#rowsMax = rowsMax;
    this.#together = rowsMax;
  }

  /** Settles as the transaction with it did. */
  add(statement: string, params: readonly unknown[]): Promise<unknown> {
    const known = this.#statements.get(statement);
    const of = known ?? { waiting: [], transactions: 0 };
    this.#statements.set(statement, of);
    return new Promise((settle) => {
      of.waiting.push({ params, settle });
      // After those of the handlers that end now.
      void Promise.resolve().then(() => this.#begin(statement, of));
    });
  }

  #begin(statement: string, of: OfStatement): void {
    while (of.waiting.length > 0 && of.transactions * this.#together < this.#rowsMax) {
      of.transactions += 1;
      void this.#run(statement, of.waiting.splice(0, this.#together)).then(() => {
        of.transactions -= 1;
        this.#begin(statement, of);
        if (of.transactions === 0) this.#statements.delete(statement);
      });
    }
  }

  /** Never rejects. */
  async #run(statement: string, effects: readonly WaitingEffect[]): Promise<void> {
    const beganMs = performance.now();
    try {
      await this.#execute(
        statement,
        effects.map(({ params }) => params),
      );
      for (const { settle } of effects) settle();
      const tookMs = performance.now() - beganMs;
      if (tookMs > slowMs) this.#together = this.#less(effects.length);
      else if (tookMs < slowMs / 4) this.#together = Math.min(this.#rowsMax, 2 * this.#together);
    } catch (error) {
      this.#together = this.#less(effects.length);
      const isOne = effects.length === 1;
      const each = effects.map(({ params, settle }) => {
        const executed = isOne ? Promise.reject(error) : this.#execute(statement, [params]);
        settle(executed);
        return executed;
      });
      await Promise.allSettled(each);
    }
  }

  #less(rows: number): number {
    return Math.max(1, Math.floor(Math.min(rows, this.#together) / 2));
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

/** A pause that another event may end. */
export class Pause {
  #end: (() => void) | null = null;

  /** `ms` Infinity: until it is ended. */
  async wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#end = resolve;
      if (ms < Infinity) timer = setTimeout(resolve, ms);
      signal?.addEventListener('abort', this.end, { once: true });
      if (signal?.aborted === true) resolve();
    });
    this.#end = null;
    clearTimeout(timer);
    signal?.removeEventListener('abort', this.end);
  }

  readonly end = (): void => this.#end?.();
}

/** PostgreSQL's text of an array: its type is that of the column that it is compared with. */
export function arrayText(values: readonly unknown[]): string {
  return `{${values.map((it) => `"${String(it).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
