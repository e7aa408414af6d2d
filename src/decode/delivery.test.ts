import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDeliveryId } from '../tables/delivery-id.ts';
import { Refused } from '../tables/refusals.ts';
import { deliveryOf } from './delivery.ts';

function idOf(
  place: string,
  body: string,
  rawHeaders: readonly string[] = [],
  format: 'json' | 'form' | 'text' = 'json',
): string | null {
  const parts = parseDeliveryId(place);
  assert(parts !== null, place);
  try {
    const dedupe = { parts, headers: new Set<string>(), windowS: 60, shown: place };
    return deliveryOf(dedupe, format, { body: Buffer.from(body), rawHeaders });
  } catch (error) {
    assert(error instanceof Refused);
    assert.equal(error.message, `the request has no delivery id: ${place}`);
    return null;
  }
}

test('an id is the same wherever the document has been written anew', () => {
  const id = idOf('$.event.id', '{"event":{"id":"x"}}');
  assert.match(id ?? '', /^[0-9a-f]{32}$/);
  for (const body of [
    ' { "b" : [ {"id":"y"} ], "event" : { "a":{"id":1}, "id" : "x" } } ',
    '{"event":{"\\u0069d":"\\u0078"}}',
    '{"event":{"id":"other"},"event":{"id":"another","id":"x"}}',
  ])
    assert.equal(idOf('$.event.id', body), id, body);
  assert.equal(idOf('header:x-id', '', ['X-Other', 'y', 'X-ID', 'x', 'x-id', 'z']), id);
  assert.equal(idOf('$.id', 'a=1&id=y&i%64=%78', [], 'form'), id);
});

test('numbers, places in lists, and several values', () => {
  assert.equal(idOf('$[1].n', '[0,{"n":12345678901234567890}]'), idOf('$.n', '{"n":"12345678901234567890"}'));
  assert.notEqual(idOf('$.a, $.b', '{"a":"1","b":"23"}'), idOf('$.a, $.b', '{"a":"12","b":"3"}'));
  assert.notEqual(idOf('$.a, $.b', '{"a":"1","b":"2"}'), idOf('$.a, $.b', '{"a":"2","b":"1"}'));
});

test('an id that is missing, empty or no text refuses the request', () => {
  for (const body of ['{}', '[]', '1', '{"id":null}', '{"id":""}', '{"id":{}}', '{"id":[1]}', '{"id":true}'])
    assert.equal(idOf('$.id', body), null, body);
  assert.equal(idOf('$[1]', '[1]'), null);
  assert.equal(idOf('$[0].a', '["a"]'), null);
  assert.equal(idOf('$.a, $.b', '{"a":1}'), null);
  assert.equal(idOf('header:x-id', '{}', ['x-id', '']), null);
  assert.equal(idOf('$.a.b', 'a=1', [], 'form'), null);
  assert.equal(idOf('$.id', '{"id":1}', [], 'text'), null);
});
