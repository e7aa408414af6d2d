/** Common parts of the benchmarks: turns, medians, tables. */
import { spawnSync } from 'node:child_process';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import type { Reached } from './goals.ts';
import { source } from './processes.ts';
import { median } from './statistics.ts';

export interface Effort {
  /** Counted rounds; one more before them warms up. */
  readonly rounds: number;
  /** How long each load lasts, in s. */
  readonly seconds: number;
}

/** The results of a benchmark, if they are more than Markdown. */
export interface Findings {
  readonly text: string;
  /** Results for the goals of goals.ts. */
  readonly reached?: Reached;
}

export interface Bench {
  /** Also the name of its section in the page. */
  readonly name: string;
  /** Returns Markdown. */
  run(effort: Effort): Promise<string | Findings>;
}

/**
 * Runs the candidates one after the other, round by round and every other round backwards, so that a disturbance affects all of them.
 */
export async function inTurns<K extends string, R extends { readonly perSecond: number }>(
  rounds: number,
  label: string,
  candidates: { readonly [key in K]: () => Promise<R> },
): Promise<readonly { readonly [key in K]: R }[]> {
  const counted: { [key in K]: R }[] = [];
  for (let round = 0; round <= rounds; round++) {
    const results: Partial<{ [key in K]: R }> = {};
    const order = Object.entries(candidates) as [K, () => Promise<R>][];
    for (const [name, run] of round % 2 === 0 ? order : order.toReversed()) results[name] = await run();
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

/** The measured commit, and whether the working copy has other changes. */
const commit = (() => {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: source('..'), encoding: 'utf8' }).stdout;
  const hash = git('rev-parse', '--short', 'HEAD')?.trim() ?? '';
  if (hash === '') return 'no commit';
  return `commit ${hash}${git('status', '--porcelain', '--untracked-files=no').trim() === '' ? '' : ' with changes'}`;
})();

/** Which program, and when: for a section below a page's heading. */
export function stamp(): string {
  return `${commit}, ${new Date().toISOString().slice(0, 10)}`;
}

export function machine(): string {
  const cores = `${availableParallelism()} cores (${cpus()[0]?.model.trim()})`;
  return `${cores}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Linux ${release()}, Node ${process.versions.node}; ${stamp()}`;
}

/** The first line of a program's version output; also says if it is missing. */
export function versionOf(command: string, ...args: string[]): string {
  const { stdout, status } = spawnSync(command, args, { encoding: 'utf8' });
  return status === 0 ? (stdout.split('\n')[0] ?? '').trim() : 'not there';
}
