/** Work that goes on in the background of each database that is served, until the database is let go of. */
export abstract class DatabaseLoop {
  readonly #running = new Map<string, { readonly closing: AbortController; readonly ended: Promise<void> }>();
  #closed = false;

  /** Works until `signal` is aborted; never rejects. */
  protected abstract run(database: string, signal: AbortSignal): Promise<void>;

  /** From now on; the catalog exists. */
  serve(database: string): void {
    if (this.#closed || this.#running.has(database)) return;
    const closing = new AbortController();
    this.#running.set(database, { closing, ended: this.run(database, closing.signal) });
  }

  /** Closes the connection to a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const found = this.#running.get(database);
    this.#running.delete(database);
    found?.closing.abort();
    await found?.ended;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#running.keys()].map((database) => this.release(database)));
  }
}
