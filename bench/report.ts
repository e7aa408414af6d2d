/** What the benchmarks share: turns, medians, tables. */
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { median } from './processes.ts';

export interface Effort {
  /** Counted rounds; one more before them warms up. */
  readonly rounds: number;
  /** How long each load lasts, in s. */
  readonly seconds: number;
}

export interface Bench {
  /** Also the name of its place in docs/benchmarks.md. */
  readonly name: string;
  /** Gives Markdown. */
  run(effort: Effort): Promise<string>;
}

/** Runs the candidates one after the other, round by round, so that a noisy moment meets all of them. */
export async function inTurns<K extends string, R extends { readonly perSecond: number }>(
  rounds: number,
  label: string,
  candidates: { readonly [key in K]: () => Promise<R> },
): Promise<readonly { readonly [key in K]: R }[]> {
  const counted: { [key in K]: R }[] = [];
  for (let round = 0; round <= rounds; round++) {
    const results: Partial<{ [key in K]: R }> = {};
    for (const [name, run] of Object.entries(candidates) as [K, () => Promise<R>][])
      results[name] = await run();
    const told = (Object.entries(results) as [K, R][]).map(
      ([name, r]) => `${name} ${r.perSecond.toFixed(0)}/s`,
    );
    console.error(`${label}${round === 0 ? ' (warm-up)' : ''}: ${told.join(', ')}`);
    if (round > 0) counted.push(results as { [key in K]: R });
  }
  return counted;
}

/** `**median** (min–max)` */
export function spread(values: readonly number[], digits = 2): string {
  const range = `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`;
  return `**${median(values).toFixed(digits)}** (${range})`;
}

export function table(
  head: readonly string[],
  lines: readonly (readonly (string | number)[])[],
  left = 0,
): string {
  const row = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, i) => (i < left ? '---' : '--:'));
  return [row(head), row(rule), ...lines.map(row)].join('\n');
}

export function machine(): string {
  const cores = `${availableParallelism()} cores (${cpus()[0]?.model.trim()})`;
  return `${cores}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Linux ${release()}, Node ${process.versions.node}`;
}
