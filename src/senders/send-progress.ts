/** Progress of many requests, shown while they run: a bar on a terminal, otherwise a line for each tenth of the work. */
import type { CommandIo } from '../kit/terminal.ts';
import { progressBar } from './send-tally.ts';

/** The bar is drawn at most ten times a second. */
export class Progress {
  readonly #count: number;
  readonly #io: CommandIo;
  #shownAt = Number.NEGATIVE_INFINITY;
  #tenths = 0;

  constructor(count: number, io: CommandIo) {
    this.#count = count;
    this.#io = io;
  }

  show(done: number): void {
    const { terminal, elapsed, note } = this.#io;
    if (terminal) {
      const now = elapsed();
      if (done < this.#count && now - this.#shownAt < 100) return;
      this.#shownAt = now;
      note(`\r${progressBar(done, this.#count)}`);
      return;
    }
    const tenths = Math.floor((10 * done) / this.#count);
    if (tenths === this.#tenths) return;
    this.#tenths = tenths;
    note(`${done}/${this.#count}\n`);
  }

  end(): void {
    if (this.#io.terminal) this.#io.note('\n');
  }
}
