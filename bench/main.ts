/**
 * `npm run bench [-- NAME …] [-- --write]`: everything runs on this machine, in turns, and the results that matter are
 * ratios. `--write` puts them into docs/benchmarks.md. BENCH_SECONDS and BENCH_ROUNDS set the duration. A benchmark that fails reports that in its section, and the others run.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { embeddedBin } from '../test/support/server.ts';
import { benches } from './benches.ts';
import { goals, goalTable, sectionOf, withSection } from './goals.ts';
import type { GoalName } from './goals.ts';
import { source } from './processes.ts';
import { machine, versionOf } from './report.ts';
import type { Bench, Findings } from './report.ts';

const benchmarks = 'docs/benchmarks.md';
const seconds = Number(process.env['BENCH_SECONDS'] ?? 4);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const write = process.argv.includes('--write');

const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = names.find((name) => !benches.some((bench) => bench.name === name));
if (unknown !== undefined)
  throw new Error(`no benchmark ${unknown}; there are ${benches.map((bench) => bench.name).join(', ')}`);

async function change(name: string, text: (before: string) => string): Promise<void> {
  const path = source(`../${benchmarks}`);
  const before = await readFile(path, 'utf8');
  const after = withSection(before, name, text(sectionOf(before, name)));
  if (after === null) throw new Error(`${benchmarks} has no place for ${name}`);
  await writeFile(path, after);
}

/** A benchmark that fails is NaN in each of its goals. */
async function run(bench: Bench): Promise<Findings & { readonly failed: boolean }> {
  const started = performance.now();
  try {
    const found = await bench.run({ rounds, seconds });
    return { ...(typeof found === 'string' ? { text: found } : found), failed: false };
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    console.error(error);
    const own = (Object.keys(goals) as GoalName[]).filter((name) => goals[name].section === bench.name);
    const reached = Object.fromEntries(own.map((name) => [name, Number.NaN]));
    return { text: `Failed in this run: ${said.split('\n')[0]}`, reached, failed: true };
  } finally {
    console.error(`${bench.name}: ${((performance.now() - started) / 1_000).toFixed(0)} s`);
  }
}

// Exits by `exit`, whose handlers end the started processes.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const head = `${machine()}; ${versionOf(`${embeddedBin}/postgres`, '--version')}`;
process.stdout.write(`${head}\n\n`);
// Written first: later writes change the working copy, but not what was measured.
if (write && names.length === 0) await change('run', () => head);
let failures = 0;
for (const bench of benches) {
  if (names.length > 0 && !names.includes(bench.name)) continue;
  const { text, reached = {}, failed } = await run(bench);
  if (failed) failures += 1;
  process.stdout.write(`## ${bench.name}\n\n${text}\n\n`);
  if (!write) continue;
  await change(bench.name, () => text);
  await change('goals', (before) => goalTable(reached, before));
}
if (failures > 0) process.exitCode = 1;
