/**
 * Marks of rows as done, many by one statement. Takes a row's id and attempt and a way to write marks; each promise settles as the statement with its mark
 * did. One statement runs at a time: what comes meanwhile goes with the next one of its attempt, which is nearly always the same number. Holds what its callers
 * wait for, and nothing else.
 */
export type WriteMarks = (ids: readonly unknown[], attempt: number) => Promise<unknown>;

interface Waiting {
  readonly ids: unknown[];
  readonly written: Promise<void>;
}

export class Marks {
  readonly #write: WriteMarks;
  /** By attempt. */
  readonly #waiting = new Map<number, Waiting>();
  /** Settles with the last statement that is known; never rejects. */
  #last: Promise<void> = Promise.resolve();

  constructor(write: WriteMarks) {
    this.#write = write;
  }

  add(id: unknown, attempt: number): Promise<void> {
    const waiting = this.#waiting.get(attempt);
    if (waiting !== undefined) {
      waiting.ids.push(id);
      return waiting.written;
    }
    const ids = [id];
    const written = this.#last.then(async () => {
      this.#waiting.delete(attempt);
      await this.#write(ids, attempt);
    });
    this.#waiting.set(attempt, { ids, written });
    this.#last = written.catch(() => undefined);
    return written;
  }
}

/** PostgreSQL's text of an array: its type is that of the column that it is compared with. */
export function arrayText(values: readonly unknown[]): string {
  return `{${values.map((it) => `"${String(it).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
