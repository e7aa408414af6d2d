import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { loadModule, scanSync } from 'libpg-query';
import { Scanner, splitStatements } from './scanner.ts';
import type { SqlToken } from './scanner.ts';

/** Parts that begin, end or hide something, a blank between each two. */
const visible = String.raw`' " $ ; ( ) [ ] , . : + - * / % < > = ! @ # & | ~ ? ^ '' "" $$ $a$ $1 -- /* */ \ \' \\ E' e' U&' U&"
  a E U n1 _x$ 1 0 12.5 1e5 .. :: 'a' select BEGIN /*;*/ /*/**/ ->> <= 0x1F 1_000`;
const crumbs = [
  ...visible.split(/\s+/),
  ' ',
  '\n',
  '\t',
  '\r',
  '\f',
  '-- x\n',
  '\xc3\xa9',
  "'a' \n 'b'",
  "'a' -- c\n'b'",
  "E'\\''\n'\\''",
];
const soup = (parts: readonly string[]): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...parts), { maxLength: 14 }).map((it) => it.join(''));

/** The tokens whose borders both sides name alike; numbers and operators are cut differently, and decide nothing. */
const compared = new Set([
  'word',
  'quoted',
  'unicode-quoted',
  'string',
  'escape-string',
  'unicode-string',
  'dollar-string',
  'param',
]);
const signs = '()[];,';

function ours(text: string): string[] {
  const scanner = new Scanner(text, true);
  const found: string[] = [];
  for (let token = scanner.next(); token !== null; token = scanner.next()) {
    const raw = text.slice(token.start, token.end);
    if (compared.has(token.kind) || (raw.length === 1 && signs.includes(raw)))
      found.push(`${token.start}-${token.end}`);
  }
  return found;
}

/**
 * libpg-query's scanner is PostgreSQL's with one change: it gives comments as tokens, so that a comment between the
 * parts of a literal ends the literal. PostgreSQL itself continues it (literal.pg.test.ts asks it).
 */
const commentInLiteral = /'\s*--/;

function theirs(text: string): string[] | null {
  if (commentInLiteral.test(text)) return null;
  try {
    const utf8 = Buffer.from(text, 'latin1').toString('utf8');
    return scanSync(utf8)
      .tokens.filter(({ text: raw, tokenName }) => {
        if (tokenName === 'SQL_COMMENT' || tokenName === 'C_COMMENT') return false;
        return (
          /^[A-Za-z_\x80-\uffff'"]/.test(raw) || /^\$./.test(raw) || (raw.length === 1 && signs.includes(raw))
        );
      })
      .map(({ start, end }) => `${start}-${end}`);
  } catch {
    // What PostgreSQL's scanner refuses has no tokens to compare with.
    return null;
  }
}

function compare(text: fc.Arbitrary<string>, borders: (all: string[], text: string) => string[]): void {
  let texts = 0;
  fc.assert(
    fc.property(text, (text) => {
      const expected = theirs(text);
      if (expected === null) return;
      texts++;
      assert.deepEqual(borders(ours(text), text), borders(expected, text), JSON.stringify(text));
    }),
    { numRuns: 20_000 },
  );
  assert.ok(texts > 3_000, `only ${texts} texts could be compared`);
}

test("the SQL scanner splits random text as PostgreSQL's own scanner does", async () => {
  await loadModule();
  // A bit string is one token there and two here.
  compare(
    soup(crumbs).filter((text) => !/[bx]'/i.test(text)),
    (all) => all,
  );
});

test('the SQL scanner finds semicolons and parentheses among bit strings as PostgreSQL does', async () => {
  await loadModule();
  compare(soup([...crumbs, "B'", "X'", "N'"]), (all, text) =>
    all.filter((it) => '();'.includes(text[parseInt(it)] ?? '')),
  );
});

function tokens(text: string, standardConformingStrings = true): [SqlToken['kind'], string][] {
  const scanner = new Scanner(text, standardConformingStrings);
  const found: [SqlToken['kind'], string][] = [];
  for (let token = scanner.next(); token !== null; token = scanner.next()) {
    found.push([token.kind, text.slice(token.start, token.end)]);
  }
  return found;
}

test('the SQL scanner reads backslashes as escapes if standard_conforming_strings is off', () => {
  assert.deepEqual(tokens("'a\\';' b", false), [
    ['string', "'a\\';'"],
    ['word', 'b'],
  ]);
  assert.deepEqual(tokens("'a\\';' b"), [
    ['string', "'a\\'"],
    ['symbol', ';'],
    ['broken', "' b"],
  ]);
});

test('an unterminated SQL token reaches to the end of the text', () => {
  for (const text of ["'a ; b", '"a ; b', '$x$ ; $$', '/* ; /* */', "E'\\'", "U&'a", "'a'\n'b"]) {
    assert.deepEqual(tokens(text), [['broken', text]]);
  }
});

test('the SQL scanner takes linear time for text that invites backtracking', () => {
  const n = 200_000;
  for (const text of [
    `'a'${' '.repeat(n)}`,
    `'a'\n${'-- '.repeat(n)}`,
    `'a'${'\n'.repeat(n)}x`,
    '/*'.repeat(n),
    `E'${'\\'.repeat(n)}`,
    '+/**/'.repeat(n / 4),
    '-/**/'.repeat(n / 4),
  ]) {
    const started = performance.now();
    tokens(text);
    assert.ok(performance.now() - started < 1_000, text.slice(0, 10));
  }
});

const split = (text: string): string[] =>
  splitStatements(text, true).map((it) => text.slice(it.start, it.end));

const strings: [string, string[]][] = [
  ['', []],
  [' ; ;; -- nothing\n;/* ; */', []],
  ['select 1; select 2', ['select 1', 'select 2']],
  [`select ';'';', ";" ; select E'\\';' ;`, [`select ';'';', ";"`, `select E'\\';'`]],
  ['do $$ begin; end; $$; select $a$ ; $$ ; $a$', ['do $$ begin; end; $$', 'select $a$ ; $$ ; $a$']],
  ['select 1 /* ; /* ; */ ; */ ; -- ; \nselect 2', ['select 1', 'select 2']],
  [
    'create rule r as on insert to t do also (select 1; select 2); select 3',
    ['create rule r as on insert to t do also (select 1; select 2)', 'select 3'],
  ],
  [
    'create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end; select 3',
    [
      'create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end',
      'select 3',
    ],
  ],
  [
    'create procedure p() begin atomic; end; begin; commit',
    ['create procedure p() begin atomic; end', 'begin', 'commit'],
  ],
  // An END of a transaction, and a CASE outside of a body, count for nothing.
  [
    'begin; select case when true then 1 end; end; select 1',
    ['begin', 'select case when true then 1 end', 'end', 'select 1'],
  ],
  ['select ); select 2', ['select )', 'select 2']],
];

for (const [text, statements] of strings) {
  test(`the SQL scanner splits the statements of ${JSON.stringify(text)}`, () =>
    assert.deepEqual(split(text), statements));
}

test('the SQL scanner ends statements at semicolons outside comments', () => {
  assert.deepEqual(
    splitStatements('select 1 /* ; */ ; select 2', true).map((it) => it.semicolon),
    [17, null],
  );
});
