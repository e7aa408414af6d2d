/**
 * Presents the outcomes of all listener processes as one source. Takes batches as they come, passes them to the
 * watchers; asks the processes to report only while somebody watches. A later watcher starts with what arrived while an
 * earlier one was watching.
 */
import { byArrival } from '../../console/request-filter.ts';
import { limits } from '../../config/limits.ts';
import type { Recall, TailBatch, TailLine, TailSource } from '../../observe/tail.ts';

export class JoinedTail implements TailSource {
  readonly #ask: (on: boolean) => void;
  readonly #watchers = new Set<(batch: TailBatch) => void>();
  #recent: TailLine[] = [];

  readonly #recall: (of: Recall) => Promise<readonly TailLine[]>;

  /** `recall`: from all processes, in any order. */
  constructor(ask: (on: boolean) => void, recall: (of: Recall) => Promise<readonly TailLine[]>) {
    this.#ask = ask;
    this.#recall = recall;
  }

  async recall(of: Recall): Promise<readonly TailLine[]> {
    const lines = [...(await this.#recall(of))].sort(byArrival);
    return lines.slice(0, of.max);
  }

  get watched(): boolean {
    return this.#watchers.size > 0;
  }

  add(batch: TailBatch): void {
    if (!this.watched) return;
    this.#recent = [...this.#recent, ...batch.lines].slice(-limits.tailRecentMax);
    for (const told of this.#watchers) told(batch);
  }

  watch(told: (batch: TailBatch) => void): () => void {
    const first = !this.watched;
    this.#watchers.add(told);
    if (first) this.#ask(true);
    else told({ lines: this.#recent.toSorted((a, b) => a.atMs - b.atMs), skipped: 0 });
    return () => {
      if (!this.#watchers.delete(told) || this.watched) return;
      this.#recent = [];
      this.#ask(false);
    };
  }
}
