/**
 * `npm run bench [-- NAME …] [-- --write]`: everything runs on this machine side by side, in turns, and what counts are
 * ratios. `--write` puts the results into docs/benchmarks.md. BENCH_SECONDS and BENCH_ROUNDS say how long.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { events } from './events.ts';
import { batches } from './batches.ts';
import type { Bench } from './report.ts';
import { tableShapes } from './shapes.ts';
import { attacks } from './attacks.ts';
import { listeners } from './listeners.ts';
import { overload } from './overload.ts';
import { singleEvents } from './single-events.ts';

const benches: readonly Bench[] = [singleEvents, tableShapes, batches, events, listeners, overload, attacks];
const effort = {
  seconds: Number(process.env['BENCH_SECONDS'] ?? 5),
  rounds: Number(process.env['BENCH_ROUNDS'] ?? 3),
};

const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = names.find((name) => !benches.some((bench) => bench.name === name));
if (unknown !== undefined)
  throw new Error(`no benchmark ${unknown}; there are ${benches.map((bench) => bench.name).join(', ')}`);

for (const bench of benches) {
  if (names.length > 0 && !names.includes(bench.name)) continue;
  const text = await bench.run(effort);
  process.stdout.write(`## ${bench.name}\n\n${text}\n\n`);
  if (process.argv.includes('--write')) await put(bench.name, text);
}

/** Between the comments that mark its place. */
async function put(name: string, text: string): Promise<void> {
  const path = name === 'overload' || name === 'attacks' ? 'docs/reliability.md' : 'docs/benchmarks.md';
  const before = await readFile(path, 'utf8');
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const [from, to] = [before.indexOf(start), before.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${path} has no place for ${name}`);
  await writeFile(path, `${before.slice(0, from + start.length)}\n${text}\n${before.slice(to)}`);
}
