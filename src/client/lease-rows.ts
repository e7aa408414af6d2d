/**
 * Marks of rows as done, many by one statement. Takes a row's id and attempt and a way to write marks; each promise settles as the statement with its mark
 * did. One statement runs at a time: what comes meanwhile goes with the next one of its attempt, which is nearly always the same number. If one of the rows is
 * at fault (code of the table refuses it), each is marked by itself. Holds what its callers wait for, and nothing else.
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

/** PostgreSQL's text of an array: its type is that of the column that it is compared with. */
export function arrayText(values: readonly unknown[]): string {
  return `{${values.map((it) => `"${String(it).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
