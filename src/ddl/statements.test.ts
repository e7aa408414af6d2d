import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitStatements } from './statements.ts';

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
  test(`statements are split in ${JSON.stringify(text)}`, () => assert.deepEqual(split(text), statements));
}

test('statements end at the real semicolon, not at those in comments', () => {
  assert.deepEqual(
    splitStatements('select 1 /* ; */ ; select 2', true).map((it) => it.semicolon),
    [17, null],
  );
});
