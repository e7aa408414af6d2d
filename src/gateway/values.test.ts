import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { arrayText, arrayTextToJson } from '../kit/array-text.ts';
import type { ArrayValue } from '../kit/array-text.ts';
import { arrayItems, objectMembers } from '../kit/json-values.ts';
import { needsTypes, paramText, parseSqlRequest } from './sql-request.ts';
import { anyCharacter } from '../../test/support/characters.ts';

const blanks = fc.constantFrom('', ' ', '\n', '\t\r\n ');

test('the gateway finds members and items of every JSON text as they were written', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      blanks,
      fc.constantFrom(0, 2),
      (value, blank, indent) => {
        const text = blank + JSON.stringify(value, null, indent) + blank;
        const members = [...objectMembers(text)].map(([name, raw]) => [name, JSON.parse(raw) as unknown]);
        assert.deepEqual(members, Object.entries(JSON.parse(text) as object));
      },
    ),
  );
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), blanks, fc.constantFrom(0, 2), (value, blank, indent) => {
      const text = blank + JSON.stringify(value, null, indent);
      assert.deepEqual(
        arrayItems(text).map((raw) => JSON.parse(raw) as unknown),
        JSON.parse(text),
      );
    }),
  );
  assert.deepEqual(arrayItems('[12345678901234567890, 1.10 ,"a\\"],"]'), [
    '12345678901234567890',
    '1.10',
    '"a\\"],"',
  ]);
  assert.equal(objectMembers('{"a":1,"a":2}').get('a'), '2');
});

test("array values of the gateway round-trip through PostgreSQL's array text", () => {
  const { value } = fc.letrec<{ value: ArrayValue }>((tie) => ({
    value: fc.array(
      fc.oneof(
        { maxDepth: 3 },
        fc.string({ unit: anyCharacter }),
        fc.constant(null),
        fc.constant('NULL'),
        tie('value'),
      ),
    ),
  }));
  fc.assert(
    fc.property(value, (array) => {
      assert.deepEqual(
        JSON.parse(arrayTextToJson(arrayText(array), ',', (text) => JSON.stringify(text)) ?? ''),
        array,
      );
    }),
  );
});

test('the gateway prints arrays as PostgreSQL prints them', () => {
  const json = (text: string, delimiter = ',') =>
    arrayTextToJson(text, delimiter, (it) => JSON.stringify(it));
  assert.equal(json('{}'), '[]');
  assert.equal(json('{a,NULL,"NULL","",null}'), '["a",null,"NULL","",null]');
  assert.equal(json('{{1,2},{3,4}}'), '[["1","2"],["3","4"]]');
  assert.equal(json('[0:1]={a,b}'), '["a","b"]');
  assert.equal(json('[1:1][-2:-1]={{a,b}}'), '[["a","b"]]');
  assert.equal(json('{(1,1),(0,0);(2,2),(1,1)}', ';'), '["(1,1),(0,0)","(2,2),(1,1)"]');
  assert.equal(json(String.raw`{"a\"b\\c","{x}"}`), String.raw`["a\"b\\c","{x}"]`);
  for (const broken of ['', '{', '{a', 'a', '{"a}', '{a}x', '{a}{b}'])
    assert.equal(json(broken), null, broken);
});

const request = (text: string) => parseSqlRequest(Buffer.from(text));

test('a /v1/sql body is SQL or its JSON form, whatever its Content-Type says', () => {
  assert.deepEqual(request('SELECT 1').params, null);
  assert.equal(request(' \n{"sql":"SELECT 1"}').sql.toString(), 'SELECT 1');
  assert.deepEqual(request('{"sql":"SELECT $1","params":[12345678901234567890,null,"x"]}').params, [
    ['12345678901234567890', 'null', '"x"'],
  ]);
  assert.deepEqual(request('{"sql":"SELECT $1","each":[[1],[null],["x"]]}').params, [
    ['1'],
    ['null'],
    ['"x"'],
  ]);
  assert.deepEqual(request('{"sql":"SELECT 1","each":[[],[]]}').params, [[], []]);
  for (const [body, why] of [
    ['', /holds no SQL/],
    ['  \n ', /holds no SQL/],
    ['SELECT\0', /zero byte/],
    ['{"sql":1}', /JSON form/],
    ['{"sql":" "}', /holds no SQL/],
    ['{"sql":"a\\u0000b"}', /zero byte/],
    ['{"sql":"x","parms":[]}', /members sql, params and each/],
    ['{"sql":"x","each":[]}', /each is an array of 1 to 1000 arrays/],
    ['{"sql":"x","each":[1]}', /each is an array of/],
    ['{"sql":"x","each":[[1],null]}', /each is an array of/],
    ['{"sql":"x","each":{}}', /each is an array of/],
    [`{"sql":"x","each":[${'[],'.repeat(1_000)}[]]}`, /each is an array of/],
    ['{"sql":"x","each":[[1]],"params":[1]}', /params or each/],
    ['{"sql":"x","params":{}}', /params is an array/],
    ['{"sql":"x","params":1}', /params is an array/],
    ['{"sql":"x"', /begins like JSON/],
    ['{', /begins like JSON/],
    ['{}', /JSON form/],
  ] as const) {
    assert.throws(() => request(body), why, body);
  }
  assert.throws(() => parseSqlRequest(Buffer.from([0x53, 0xff])), /not valid UTF-8/);
  assert.throws(() => request(`{"sql":"x","params":[${'1,'.repeat(65_535)}1]}`), /at most 65535 parameters/);
});

test("SQL parameters keep their digits, and a JSON array becomes what its parameter's type is", () => {
  assert.equal(paramText('12345678901234567890', 20), '12345678901234567890');
  assert.equal(paramText('null', 25), null);
  assert.equal(paramText('"a\\nb"', 25), 'a\nb');
  assert.equal(paramText('{"a":1.10}', 3802), '{"a":1.10}');
  assert.equal(paramText('[1,"a",null]', 3802), '[1,"a",null]');
  assert.equal(paramText('[1,"a\\"",null,[true]]', 1009), String.raw`{"1","a\"",NULL,{"true"}}`);
  assert.throws(() => paramText('"\\u0000"', 25), /u0000/);
  assert.throws(() => paramText(`${'['.repeat(7)}${']'.repeat(7)}`, 1009), /dimensions/);
  assert.equal(needsTypes(['1', '"[x]"']), false);
  assert.equal(needsTypes(['1', '[1]']), true);
});
