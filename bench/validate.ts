/**
 * The GitHub expression as a closure, compared with the same check written by hand with node:crypto: the times of one
 * request as a ratio, from one run. `node dist/bench/validate.js`.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type CheckRequest } from '../src/tables/flow.ts';
import { loadParser, parseExpression } from '../src/validate/expression.ts';
import { table } from './report.ts';
import { median } from './statistics.ts';

export interface ValidateFigures {
  readonly bodyBytes: number;
  readonly bareUs: number;
  readonly closureUs: number;
  readonly ratio: number;
}

const secret = "It's a Secret to Everybody";
const text =
  "secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))";

function requestOf(body: Buffer): CheckRequest {
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  return {
    method: 'POST',
    target: '/webhook/dev/public/github',
    // The headers of a GitHub delivery.
    rawHeaders: [
      ['Host', 'hooks.example.com'],
      ['User-Agent', 'GitHub-Hookshot/044aadd'],
      ['Content-Length', String(body.length)],
      ['Accept', '*/*'],
      ['Content-Type', 'application/json'],
      ['X-GitHub-Delivery', '72d3162e-cc78-11e3-81ab-4c9367dc0958'],
      ['X-GitHub-Event', 'issues'],
      ['X-GitHub-Hook-ID', '292430182'],
      ['X-GitHub-Hook-Installation-Target-ID', '79929171'],
      ['X-GitHub-Hook-Installation-Target-Type', 'repository'],
      ['X-Hub-Signature', 'sha1=7d38cdd689735b008b3c702edd92eea23791c5f6'],
      ['X-Hub-Signature-256', signature],
    ].flat(),
    arrivedAtMs: 1_700_000_000_000,
    body,
  };
}

/** The usual hand-written check: the header, the digest as text, a comparison in constant time. */
function bare(request: CheckRequest): boolean {
  const given = Buffer.from(request.rawHeaders[23] ?? '');
  const wanted = Buffer.from(`sha256=${createHmac('sha256', secret).update(request.body).digest('hex')}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** Microseconds per call, over `rounds` calls. */
function timeUs(check: (request: CheckRequest) => boolean, request: CheckRequest, rounds: number): number {
  const start = process.hrtime.bigint();
  for (let i = 0; i < rounds; i++) if (!check(request)) throw new Error('the benchmark request was refused');
  return Number(process.hrtime.bigint() - start) / 1000 / rounds;
}

/** Alternates both, so that disturbances affect both; medians of many short runs. */
async function benchValidate(bodyBytes: number, runs = 41, rounds = 4000): Promise<ValidateFigures> {
  await loadParser();
  const check = parseExpression(text, { secrets: ['s'] }).compile({
    secrets: new Map([['s', secret]]),
    publicUrl: null,
  });
  const request = requestOf(Buffer.from(JSON.stringify({ text: 'x'.repeat(Math.max(bodyBytes - 11, 0)) })));
  const bareRuns: number[] = [];
  const closureRuns: number[] = [];
  for (let run = 0; run < runs; run++) {
    bareRuns.push(timeUs(bare, request, rounds));
    closureRuns.push(timeUs(check, request, rounds));
  }
  const [bareUs, closureUs] = [median(bareRuns), median(closureRuns)];
  return { bodyBytes: request.body.length, bareUs, closureUs, ratio: closureUs / bareUs };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lines: string[][] = [];
  for (const bytes of [200, 1_000, 10_000]) {
    const { bodyBytes, bareUs, closureUs, ratio } = await benchValidate(bytes);
    lines.push([String(bodyBytes), bareUs.toFixed(2), closureUs.toFixed(2), `**${ratio.toFixed(2)}**`]);
  }
  console.log(table(['body, B', 'by hand, µs', 'closure, µs', 'ratio'], lines));
}
