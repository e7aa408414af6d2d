import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCompare, parseDeliveryId } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import { Refused } from '../errors/refusals.ts';
import { deliveryOf, together } from './delivery.ts';
import type { DeliveryDigest } from './delivery.ts';

const idOf = (...given: Parameters<typeof readDelivery>) => readDelivery(...given)?.delivery ?? null;

function readDelivery(
  place: string,
  body: string,
  rawHeaders: readonly string[] = [],
  format: 'json' | 'form' | 'text' = 'json',
  compare?: Dedupe['compare'],
): DeliveryDigest | null {
  const parts = parseDeliveryId(place);
  assert(parts !== null, place);
  try {
    const dedupe = { parts, headers: new Set<string>(), windowS: 60, shown: place };
    const all = compare === undefined ? dedupe : { ...dedupe, compare };
    return deliveryOf(all, format, { body: Buffer.from(body), rawHeaders });
  } catch (error) {
    assert(error instanceof Refused);
    assert.equal(error.message, `the request has no delivery id: ${place}`);
    return null;
  }
}

test('a delivery id is the same in a reformatted document', () => {
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

test('a delivery id can be a number, a list element or several values', () => {
  assert.equal(idOf('$[1].n', '[0,{"n":12345678901234567890}]'), idOf('$.n', '{"n":"12345678901234567890"}'));
  assert.notEqual(idOf('$.a, $.b', '{"a":"1","b":"23"}'), idOf('$.a, $.b', '{"a":"12","b":"3"}'));
  assert.notEqual(idOf('$.a, $.b', '{"a":"1","b":"2"}'), idOf('$.a, $.b', '{"a":"2","b":"1"}'));
});

test('a missing, empty or non-text delivery id refuses the request', () => {
  for (const body of ['{}', '[]', '1', '{"id":null}', '{"id":""}', '{"id":{}}', '{"id":[1]}', '{"id":true}'])
    assert.equal(idOf('$.id', body), null, body);
  assert.equal(idOf('$[1]', '[1]'), null);
  assert.equal(idOf('$[0].a', '["a"]'), null);
  assert.equal(idOf('$.a, $.b', '{"a":1}'), null);
  assert.equal(idOf('header:x-id', '{}', ['x-id', '']), null);
  assert.equal(idOf('$.a.b', 'a=1', [], 'form'), null);
  assert.equal(idOf('$.id', '{"id":1}', [], 'text'), null);
});

test('the content digest of a delivery covers its body, the named places, or nothing', () => {
  const contentOf = (
    compare: string,
    body: string,
    headers: readonly string[] = [],
    format: 'json' | 'form' = 'json',
  ) => {
    const parsed = parseCompare(compare);
    assert(parsed !== null, compare);
    return readDelivery('$.id', body, headers, format, parsed)?.content;
  };
  // As sha256sum prints it, the first half.
  assert.equal(contentOf('body', '{"id":1}'), '037c9214eef74cc3887f3a4f085b4e17');
  assert.notEqual(contentOf('body', '{"id":1}'), contentOf('body', '{"id":1} '));
  assert.equal(contentOf('id', '{"id":1}'), undefined);
  const stripe = (pending: number, amount: number) =>
    `{"id":"evt_1","pending_webhooks":${pending},"type":"paid","data":{"object":{"amount":${amount}}}}`;
  assert.equal(contentOf('$.type, $.data', stripe(2, 5)), contentOf('$.type, $.data', stripe(1, 5)));
  assert.notEqual(contentOf('$.type, $.data', stripe(2, 5)), contentOf('$.type, $.data', stripe(2, 6)));
  assert.notEqual(contentOf('$.a', '{"id":1}'), contentOf('$.a', '{"id":1,"a":""}'));
  assert.equal(contentOf('$.a', 'id=1&a=x&b=1', [], 'form'), contentOf('$.a', 'id=1&b=2&a=x', [], 'form'));
  assert.notEqual(
    contentOf('header:x-topic', '{"id":1}', ['X-Topic', 'a']),
    contentOf('header:x-topic', '{"id":1}', ['X-Topic', 'b']),
  );
  const [one, two] = ['{"id":1}', '{"id":1,"n":2}'].map((body) => readDelivery('$.id', body));
  assert(one !== null && one !== undefined && two !== null && two !== undefined);
  assert.deepEqual(together([one]), one);
  assert.equal(together([one, two]).delivery, together([two, one]).delivery);
  assert.notEqual(together([one, two]).content, together([two, one]).content);
});
