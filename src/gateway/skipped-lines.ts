/**
 * Lines that on_error=skip has left out: the first few in detail, all of them as a count. Takes lines, touches nothing.
 */
export class Skipped {
  readonly #listMax: number;
  readonly #lines: { readonly line: number; readonly error: string }[] = [];
  #count = 0;

  constructor(listMax: number) {
    this.#listMax = listMax;
  }

  get count(): number {
    return this.#count;
  }

  /** Sorted by line. */
  get lines(): readonly { readonly line: number; readonly error: string }[] {
    return this.#lines.toSorted((a, b) => a.line - b.line);
  }

  add(line: number, error: string): void {
    this.#count++;
    if (this.#lines.length < this.#listMax) this.#lines.push({ line, error });
  }

  /** Adds lines of which only the count is known. */
  addMore(count: number): void {
    this.#count += count;
  }
}
