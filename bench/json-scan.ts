/**
 * The JSON scanner compared with JSON.parse on bodies cut from real GitHub deliveries. Prints µs per body as a table.
 */
import { isUtf8 } from 'node:buffer';
import { createRequire } from 'node:module';
import { scanJson } from '../src/decode/json-scan.ts';
import { table } from './report.ts';

const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as { examples: unknown[] }[];

/** As many whole deliveries as fit the size; the smallest body is part of one. */
function body(bytes: number): Buffer {
  if (bytes < 1_000)
    return Buffer.from(JSON.stringify({ action: 'opened', number: 1347, title: 'x'.repeat(bytes - 60) }));
  const all = examples.flatMap((event) => event.examples);
  const fitting: unknown[] = [];
  let size = 0;
  for (const delivery of all) {
    const length = JSON.stringify(delivery).length;
    if (size + length > bytes * 1.2) continue;
    fitting.push(delivery);
    size += length;
  }
  return Buffer.from(JSON.stringify(fitting));
}

function microseconds(run: () => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 15; round++) {
    const start = performance.now();
    let times = 0;
    while (performance.now() - start < 40) {
      for (let i = 0; i < 10; i++) run();
      times += 10;
    }
    best = Math.min(best, ((performance.now() - start) * 1_000) / times);
  }
  return best;
}

const lines: string[][] = [];
for (const size of [200, 8_000, 20_000, 200_000]) {
  const bytes = body(size);
  const scan = microseconds(() => scanJson(bytes, { depthMax: 512 }));
  const utf8 = microseconds(() => isUtf8(bytes));
  const parse = microseconds(() => JSON.parse(bytes.toString()) as unknown);
  const latin = microseconds(() => JSON.parse(bytes.toString('latin1')) as unknown);
  const times = [scan, utf8, parse, latin].map((us) => us.toFixed(2));
  lines.push([String(bytes.length), ...times, `**${(scan / parse).toFixed(2)}**`]);
}
const head = [
  'body, B',
  'scan, µs',
  'of it isUtf8',
  'JSON.parse of UTF-8',
  'of Latin-1',
  'scan / JSON.parse',
];
console.log(table(head, lines));
