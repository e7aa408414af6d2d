/**
 * Batches through decode: rows/s, MB/s, and memory. Each case runs in a process of its own: `node dist/bench/decode.js
 * [rows]`.
 */
import { execFileSync } from 'node:child_process';
import { decodeRequest } from '../src/decode/decode.ts';
import type { Target } from '../src/tables/flow.ts';
import { typedTarget } from '../test/support/documents.ts';
import { plainHead, targetOf } from '../test/support/rows.ts';

const columns = { id: 'int8', at: 'timestamptz', name: 'text', amount: 'numeric' };
const include = { includes: [{ what: 'header', header: 'x-id', column: 'event' }] } as const;

const cases: Readonly<Record<string, () => Target>> = {
  'one JSONB column': () => batched(targetOf()),
  'columns without conversions': () => batched(typedTarget({ id: 'int8', name: 'text', amount: 'numeric' })),
  'columns and one INCLUDE': () => batched(typedTarget({ id: 'int8', name: 'text', event: 'text' }, include)),
  'columns, one of them a moment as number': () => batched(typedTarget(columns)),
};

const batched = (target: Target): Target => ({ ...target, intake: { ...target.intake, batched: true } });

/** Lines of about this length, like those of applications. */
function body(rows: number, lineBytes: number): Buffer {
  const lines: Buffer[] = [];
  for (let i = 0; i < rows; i++) {
    const head =
      lineBytes < 60
        ? `{"id":${i},"amount":1.5`
        : `{"id":${i},"at":${1_700_000_000 + i},"amount":12.50,"name":"`;
    const end = lineBytes < 60 ? '}' : `${'n'.repeat(Math.max(0, lineBytes - head.length - 3))}"}`;
    lines.push(Buffer.from(`${head}${end}\n`));
  }
  return Buffer.concat(lines);
}

function run(name: string, rows: number, lineBytes: number): void {
  const target = cases[name]?.();
  if (target === undefined) throw new Error(`no case ${name}`);
  const request = { body: body(rows, lineBytes), rawHeaders: ['X-Id', 'evt_12345678'], ...plainHead };
  const before = process.resourceUsage().maxRSS;
  let best = Number.POSITIVE_INFINITY;
  let held = 0;
  let peak = 0;
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    const made = decodeRequest(target, request);
    best = Math.min(best, performance.now() - start);
    held = made.bytes - (made.documents.bytes === request.body ? request.body.length : 0);
    if (round === 0) peak = (process.resourceUsage().maxRSS - before) / 1024;
    if (made.count !== rows) throw new Error(`${made.count} rows of ${rows}`);
  }
  const megabyte = 1024 * 1024;
  console.log(
    `| ${name} | ${Math.round(request.body.length / rows)} | ${best.toFixed(0)} ms | ${(rows / best / 1000).toFixed(2)} M | ` +
      `${(request.body.length / megabyte / (best / 1000)).toFixed(0)} | ${(held / megabyte).toFixed(0)} | ${peak.toFixed(0)} |`,
  );
}

const [, , first = '1000000', rows, lineBytes] = process.argv;
if (rows !== undefined) {
  run(first, Number(rows), Number(lineBytes));
} else {
  console.log('| table | B a line | time | rows/s | MB/s | MB held beside the body | MB more at the peak |');
  console.log('| --- | --: | --: | --: | --: | --: | --: |');
  for (const name of Object.keys(cases)) {
    for (const length of [25, 100, 200]) {
      process.stdout.write(
        execFileSync(process.execPath, [import.meta.filename, name, first, String(length)]),
      );
    }
  }
}
