/** Something that holds a resource: closing it twice is harmless, and a closed one stays closed. */
export interface Closable {
  close(): Promise<void>;
}

/**
 * Closes what was opened, last opened first. Every close runs, even if one before it failed;
 * the failures are thrown together at the end. Node 20 lacks `AsyncDisposableStack`.
 */
export class Closer implements Closable {
  #closers: { name: string; close: () => Promise<void> | void }[] = [];
  #closing: Promise<void> | null = null;
  /** The name of what is being closed now; null: nothing. */
  closing: string | null = null;

  add(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const failures: Error[] = [];
    for (let next = this.#closers.pop(); next !== undefined; next = this.#closers.pop()) {
      this.closing = next.name;
      try {
        await next.close();
      } catch (cause) {
        failures.push(new Error(`closing ${next.name} failed`, { cause }));
      }
    }
    this.closing = null;
    if (failures.length > 0) throw new AggregateError(failures, failures.map((f) => f.message).join('; '));
  }
}
