/** The results of many requests: how many are done, by answer, and how long they took. Pure except for what it is given. */

import type { CommandIo } from '../kit/terminal.ts';

export class SendTally {
  readonly #total: number;
  readonly #ms: Float64Array;
  readonly #answers = new Map<string, number>();
  #done = 0;
  #failed = 0;

  constructor(total: number) {
    this.#total = total;
    this.#ms = new Float64Array(total);
  }

  get done(): number {
    return this.#done;
  }

  get allAccepted(): boolean {
    return this.#failed === 0 && this.#done === this.#total;
  }

  /** `answer`: the status, or why there was no answer. */
  add(answer: string, accepted: boolean, ms: number): void {
    this.#ms[this.#done++] = ms;
    if (!accepted) this.#failed++;
    this.#answers.set(answer, (this.#answers.get(answer) ?? 0) + 1);
  }

  summary(elapsedMs: number): string {
    const seconds = elapsedMs / 1000;
    const times = this.#ms.subarray(0, this.#done).toSorted();
    const width = Math.max(...[...this.#answers.keys()].map((answer) => answer.length), 0);
    const lines = [...this.#answers]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([answer, count]) => `${answer.padEnd(width)}  ${count}`);
    const rate = seconds > 0 ? ` (${Math.round(this.#done / seconds)}/s)` : '';
    return [
      `${this.#done} of ${this.#total} answered in ${seconds.toFixed(1)} s${rate}`,
      ...lines,
      ...(times.length === 0
        ? []
        : [`p50 ${inMs(quantile(times, 0.5))}  p99 ${inMs(quantile(times, 0.99))}`]),
      '',
    ].join('\n');
  }
}

/** The smallest value that is not exceeded by at least this part of all values. */
function quantile(sorted: Float64Array, part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
}

const inMs = (ms: number) => `${ms.toFixed(1)} ms`;

const barWidth = 30;

/** One line that a terminal redraws. */
export function progressBar(done: number, total: number): string {
  const full = Math.floor((barWidth * done) / total);
  return `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}] ${done}/${total}`;
}

/** Progress of many requests, shown while they run: a bar on a terminal, drawn at most ten times a second; otherwise a line for each tenth of the work. */
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
