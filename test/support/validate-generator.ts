/** Random typed VALIDATE expressions and random requests for them, for the differential test. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { type CheckRequest } from '../../src/types/request.ts';
import { type Case } from './validate-postgres.ts';
import { anyCharacter } from './characters.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

interface Material {
  /** Texts at the limits of the functions: numbers, dates, JSON, encodings, blanks, wide characters. */
  readonly texts: readonly string[];
  /** SQL by type, with a placeholder {type} for an expression of that type; {n} is a small number. */
  readonly templates: Readonly<Record<Kind, readonly string[]>>;
}

const file = new URL('../../../test/corpus/validate-generator.json', import.meta.url);
const { texts, templates } = JSON.parse(readFileSync(file, 'utf8')) as Material;

const anyText = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...texts) },
  {
    weight: 1,
    arbitrary: fc.string({ unit: anyCharacter, maxLength: 12 }).map((text) => text.replaceAll('\0', '')),
  },
  { weight: 1, arbitrary: fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String) },
  { weight: 1, arbitrary: fc.double({ noNaN: true }).map(String) },
);

type Kind =
  | 'text'
  | 'bytea'
  | 'jsonb'
  | 'bool'
  | 'int4'
  | 'int8'
  | 'numeric'
  | 'float8'
  | 'timestamptz'
  | 'list';
type Texts = fc.Arbitrary<string>;

const sized = fc.constantFrom('0', '1', '2', '3', '5', '-1', '-2', '100');

/** `template` with each {kind} replaced. */
function form(tie: (kind: Kind) => Texts, template: string): Texts {
  const parts = template.split(/\{(\w+)\}/);
  const holes = parts.filter((_, i) => i % 2 === 1).map((hole) => (hole === 'n' ? sized : tie(hole as Kind)));
  return fc
    .tuple(...holes)
    .map((filled) => parts.map((part, i) => (i % 2 === 0 ? part : filled[(i - 1) / 2])).join(''));
}

const leaves: Readonly<Record<Kind, Texts>> = {
  text: fc.oneof(
    fc.constantFrom(
      "(headers->>'a')",
      "(headers->>'b')",
      "(headers->>'missing')",
      's',
      'k',
      'method',
      'path',
      'url',
      "(query->>'q')",
      'NULL',
    ),
    anyText.map(quoted),
  ),
  bytea: fc.oneof(
    fc.constantFrom('data', 'data', "'\\x00ff'::bytea", "convert_to(s, 'UTF8')", 'NULL::bytea'),
    fc.constantFrom("'abc'::bytea", "''::bytea"),
  ),
  jsonb: fc.constantFrom(
    "convert_from(data, 'UTF8')::jsonb",
    'headers',
    'query',
    "(headers->'a')",
    '\'{"a":[1,{"b":"c"}]}\'::jsonb',
    'NULL::jsonb',
    's::jsonb',
    "(headers->>'b')::jsonb",
  ),
  bool: fc.constantFrom(
    'true',
    'false',
    'NULL::boolean',
    "(headers->>'a')::boolean",
    "(headers->>'a' IS NULL)",
  ),
  int4: fc.constantFrom('0', '1', '-3', '7', '2147483647', 'NULL::int', "(headers->>'b')::int", 'length(s)'),
  int8: fc.constantFrom(
    "'5'::bigint",
    '9223372036854775807',
    "(headers->>'a')::bigint",
    "(headers->>'b')::bigint",
    'crc32(data)',
    'NULL::bigint',
  ),
  numeric: fc.constantFrom(
    '1.5',
    '0.10',
    '-123.456',
    '1e10',
    'extract(epoch from now())',
    "(headers->>'a')::numeric",
    "(headers->>'b')::numeric",
    'NULL::numeric',
    '0.0',
  ),
  float8: fc.constantFrom(
    "'1.5'::float8",
    "'0.1'::float8",
    "'1e300'::float8",
    "'NaN'::float8",
    "'-0'::float8",
    "(headers->>'a')::float8",
    'NULL::float8',
  ),
  timestamptz: fc.constantFrom(
    'now()',
    "'2024-01-01'::timestamptz",
    "(headers->>'a')::timestamptz",
    'to_timestamp(1700000000.5)',
    'NULL::timestamptz',
  ),
  list: fc.constantFrom(
    "string_to_array(headers->>'a', ',')",
    "string_to_array(s, '')",
    "string_to_array(headers->>'b', NULL)",
    "'{a,NULL,abc}'::text[]",
    "(headers->>'b')::text[]",
    'NULL::text[]',
    "ARRAY['a', s, headers->>'a']",
  ),
};

const kinds = Object.keys(templates) as Kind[];

const tied = fc.letrec<Record<Kind, string>>(
  (tie) =>
    Object.fromEntries(
      kinds.map((kind) => [
        kind,
        fc.oneof(
          { maxDepth: 3, withCrossShrink: true },
          leaves[kind],
          ...templates[kind].map((template) => form((hole) => tie(hole) as Texts, template)),
        ),
      ]),
    ) as Record<Kind, Texts>,
);

/** An expression of any type but interval, in SQL. */
export const expressions: Texts = fc.oneof(...kinds.map((kind) => tied[kind]));

function caseOf(
  a: string | null,
  b: string | null,
  s: string,
  k: string,
  body: Buffer,
  q: string,
  nowMs: number,
): Case {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (a !== null) headers['a'] = a;
  if (b !== null) headers['b'] = b;
  const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [
    name.toUpperCase(),
    Buffer.from(value, 'utf8').toString('latin1'),
  ]);
  const request: CheckRequest = {
    method: 'POST',
    target: `/hook?q=${encodeURIComponent(q)}`,
    rawHeaders,
    arrivedAtMs: nowMs,
    body,
  };
  const seen = { headers, query: { q }, path: '/hook', url: `https://x.example${request.target}` };
  return {
    request,
    secrets: new Map([
      ['s', s],
      ['k', k],
    ]),
    publicUrl: 'https://x.example/',
    seen,
  };
}

const wellFormed = anyText.filter((text) => !/[\ud800-\udfff]/.test(text) || encodeURIComponentWorks(text));

function encodeURIComponentWorks(text: string): boolean {
  try {
    return encodeURIComponent(text) !== '';
  } catch {
    return false;
  }
}

const bodies = fc.oneof(
  { weight: 4, arbitrary: wellFormed.map((text) => Buffer.from(text, 'utf8')) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)) },
);

const header = fc.option(wellFormed, { nil: null, freq: 8 });

export const cases: fc.Arbitrary<Case> = fc
  .tuple(
    header,
    header,
    wellFormed,
    wellFormed,
    bodies,
    wellFormed,
    fc.integer({ min: 0, max: 4_000_000_000_000 }),
  )
  .map((parts) => caseOf(...parts));
