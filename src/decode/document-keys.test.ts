import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { limits } from '../config/limits.ts';
import { scanJson } from './json-scan.ts';
import { DocumentKeys } from './document-keys.ts';

const counted = (keys: DocumentKeys, document: string): readonly number[] => {
  assert.equal(scanJson(Buffer.from(document), { depthMax: 512, keys }), null);
  return [keys.known, keys.unknown];
};

/** A key, each of its UTF-16 units as it is or as an escape. */
function written(key: string, escapes: readonly boolean[]): string {
  const units = JSON.stringify(key).slice(1, -1);
  // What needs an escape has one already.
  if (units !== key) return `"${units}"`;
  const escaped = Array.from({ length: key.length }, (_, i) =>
    escapes[i] === true || /\p{Cs}/u.test(key[i] ?? '')
      ? `\\u${key.charCodeAt(i).toString(16).padStart(4, '0')}`
      : key[i],
  );
  return `"${escaped.join('')}"`;
}

test('document keys are recognised by their characters, in any escape and order', () => {
  const names = ['id', 'Id', 'a\\b', 'a"b', 'größe', '', '😀', 'tab\t'];
  const key = fc.constantFrom(...names, 'other', 'a\b', 'ID', 'a\\\\b');
  const document = fc.array(fc.tuple(key, fc.array(fc.boolean(), { maxLength: 6 })), { maxLength: 12 });
  const keys = new DocumentKeys(names, false);
  fc.assert(
    fc.property(document, (members) => {
      const text = `{${members.map(([name, escapes]) => `${written(name, escapes)}:{"id":1}`).join(',')}}`;
      const known = members.filter(([name]) => names.includes(name)).length;
      assert.deepEqual(counted(keys, text), [known, members.length - known], text);
    }),
  );
});

test('document keys are those of the outermost object, and a bounded number of unknown keys is remembered', () => {
  const keys = new DocumentKeys(['id'], false);
  assert.deepEqual(counted(keys, '[{"id":1}]'), [0, 0]);
  assert.deepEqual(counted(keys, '"id"'), [0, 0]);
  const many = Array.from({ length: 1_000 }, (_, i) => `"k${i}":"id"`).join(',');
  for (let i = 0; i < 3; i++) assert.deepEqual(counted(keys, `{${many},"id":{"x":1}}`), [1, 1_000]);
  assert.equal(keys.remembered.length, limits.ignoredKeysMax);
  assert.equal(keys.remembered[1], 'k1');
  assert.deepEqual(counted(keys, `{"${'x'.repeat(1_000_000)}":1}`), [0, 1]);
});

test('100,000 documents without a known column take less than 2 s in a table of 1,600 columns', () => {
  const keys = new DocumentKeys(
    Array.from({ length: 1_600 }, (_, i) => `column_${i}`),
    false,
  );
  const document = Buffer.from('{"x":1}');
  const started = performance.now();
  for (let i = 0; i < 100_000; i++) {
    scanJson(document, { depthMax: 8, keys });
    assert.equal(keys.problem(document, 0, false)?.code, 'no_column_matched');
  }
  assert.ok(performance.now() - started < 2_000);
});
