/** Compares the JSON scanner with PostgreSQL's jsonb on generated documents and broken ones. */
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { scanJson } from '../../src/decode/json-scan.ts';

const blank = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n', '  ');
const digits = fc.stringMatching(/^[0-9]{1,6}$/);
const zeros = fc
  .constantFrom(1, 4, 131_066, 131_067, 131_068, 131_071, 131_072, 16_380, 16_383, 16_384)
  .map((n) => '0'.repeat(n));
const exponent = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -40, max: 40 }) },
  { weight: 3, arbitrary: fc.integer({ min: 131_060, max: 131_080 }) },
  { weight: 3, arbitrary: fc.integer({ min: -16_390, max: -16_370 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(99_999_999_999, 1_073_741_822, -1_073_741_822, 1_073_741_824, -2e9, 4e18),
  },
);
const number = fc
  .tuple(
    fc.constantFrom('', '', '-'),
    fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom('0', '1', '10', '9999', '12345678901234567890') },
      { weight: 4, arbitrary: digits.map((d) => `1${d}`) },
      { weight: 1, arbitrary: zeros.map((z) => `1${z}`) },
    ),
    fc.oneof(
      { weight: 8, arbitrary: fc.constant('') },
      { weight: 6, arbitrary: digits.map((d) => `.${d}`) },
      { weight: 1, arbitrary: zeros.map((z) => `.${z}`) },
      { weight: 1, arbitrary: zeros.map((z) => `.${z}7`) },
    ),
    fc.oneof(
      { weight: 5, arbitrary: fc.constant('') },
      {
        weight: 3,
        arbitrary: fc
          .tuple(fc.constantFrom('e', 'E', 'e+'), exponent)
          .map(([e, n]) => (n < 0 ? `e${n}` : `${e}${n}`)),
      },
    ),
  )
  .map((parts) => parts.join(''));
const escape = fc.oneof(
  fc.constantFrom('\\n', '\\"', '\\\\', '\\/', '\\b', '\\f', '\\r', '\\t', '\\u0000', '\\u0001', '\\u00e9'),
  fc.constantFrom(
    '\\ud83d',
    '\\udc00',
    '\\ud83d\\ude00',
    '\\uD800\\uDFFF',
    '\\udbff\\udc00',
    '\\ud7ff',
    '\\ue000',
  ),
  fc.constantFrom('\\x', '\\u12', '\\u123g', '\\U0041', '\\u', '\\\\u0000', '\\\\\\u0000'),
);
const text = fc
  .array(
    fc.oneof(
      { weight: 8, arbitrary: fc.string({ maxLength: 6 }).map((s) => s.replaceAll(/["\\]/g, '_')) },
      { weight: 3, arbitrary: escape },
      { weight: 2, arbitrary: fc.constantFrom('é', '😀', '\u2028', '\u007f', '\ufeff', '\uffff', '{', ']') },
      { weight: 1, arbitrary: fc.constantFrom('\u0000', '\u001f', '\n', '\t') },
    ),
    { maxLength: 4 },
  )
  .map((parts) => `"${parts.join('')}"`);

const { document } = fc.letrec<{ document: string }>((tie) => ({
  document: fc.oneof(
    { maxDepth: 5, depthSize: 'small' },
    fc.constantFrom('true', 'false', 'null', '0', '""', '[]', '{}'),
    number,
    text,
    fc
      .array(fc.tuple(blank, tie('document'), blank), { maxLength: 4 })
      .map((items) => `[${items.map((i) => i.join('')).join(',')}]`),
    fc
      .array(fc.tuple(blank, text, blank, tie('document'), blank), { maxLength: 4 })
      .map((items) => `{${items.map(([a, k, b, v, c]) => `${a}${k}${b}:${v}${c}`).join(',')}}`),
  ),
}));

const scrap = fc.oneof(
  fc.constantFrom(
    ...'{}[]:,"\\ \n0123456789.eE+-tfnu/'.split(''),
    'true',
    '\\u',
    'nul',
    '//',
    "'",
    '\u00a0',
    '\ufeff',
  ),
  fc.integer({ min: 0, max: 255 }).map((byte) => Buffer.of(byte)),
  fc
    .constantFrom('c0 80', 'ed a0 80', 'f4 90 80 80', 'e2 82', 'ff', 'f0 9f 98 80')
    .map((hex) => Buffer.from(hex.replaceAll(' ', ''), 'hex')),
);

interface Edit {
  readonly at: number;
  readonly drop: number;
  readonly put: Buffer;
}
const edit: fc.Arbitrary<Edit> = fc
  .tuple(fc.nat(1_000_000), fc.constantFrom(0, 0, 1, 1, 2, 5), scrap)
  .map(([at, drop, put]) => ({ at, drop, put: Buffer.from(put) }));

function mutate(bytes: Buffer, { at, drop, put }: Edit): Buffer {
  const start = at % (bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, start), put, bytes.subarray(start + drop)]);
}

const input = fc
  .tuple(
    blank,
    document,
    blank,
    fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, fc.array(edit, { maxLength: 2 })),
  )
  .map(([before, doc, after, edits]) => edits.reduce(mutate, Buffer.from(before + doc + after, 'utf8')));

export interface DifferentialResult {
  readonly accepted: number;
  readonly refused: number;
  /** Inputs, in hex, on which the results differ. */
  readonly mismatches: readonly string[];
}

/** The server's answer is that of jsonb's input function on the bytes as UTF-8, which a binary COPY of jsonb runs too. */
export async function prepareDifferential(client: Client): Promise<void> {
  await client.query(`create function pg_temp.accepts(document bytea) returns boolean language plpgsql as $$
    begin
      perform convert_from(document, 'UTF8')::jsonb;
      return true;
    exception when others then
      return false;
    end $$`);
}

export async function compare(client: Client, documents: readonly Buffer[]): Promise<DifferentialResult> {
  const hex = documents.map((document) => document.toString('hex'));
  const { rows } = await client.query<{ accepted: boolean }>(
    `select pg_temp.accepts(decode(document, 'hex')) as accepted
       from unnest($1::text[]) with ordinality as input(document, position) order by position`,
    [hex],
  );
  const accepted = rows.filter((row) => row.accepted).length;
  const mismatches = hex.filter(
    (_, i) => rows[i]?.accepted !== (scanJson(documents[i] ?? Buffer.of(), { depthMax: 512 }) === null),
  );
  return { accepted, refused: rows.length - accepted, mismatches };
}

export async function runDifferential(
  client: Client,
  count: number,
  seed: number,
): Promise<DifferentialResult> {
  const batchSize = 1_000;
  let accepted = 0;
  let refused = 0;
  const mismatches: string[] = [];
  for (let done = 0; done < count; done += batchSize) {
    const documents = fc.sample(input, { numRuns: batchSize, seed: seed + done });
    const result = await compare(client, documents);
    accepted += result.accepted;
    refused += result.refused;
    mismatches.push(...result.mismatches);
  }
  return { accepted, refused, mismatches };
}
