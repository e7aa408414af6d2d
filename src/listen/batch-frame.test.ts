import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Refused } from '../errors/refusals.ts';
import { readBatch } from './batch-frame.ts';

const ops = ['insert', 'upsert', 'update', 'delete'] as const;
const blank = fc.stringMatching(/^[ \n\r\t]{0,3}$/);

test('a batch frame yields the data of every item, whatever JSON it is', () => {
  const item = fc.record({
    op: fc.constantFrom(...ops),
    data: fc.json(),
    extra: fc.json(),
    first: fc.boolean(),
  });
  const id = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  fc.assert(
    fc.property(id, fc.array(item, { maxLength: 8 }), blank, blank, (id, items, a, b) => {
      const texts = items.map(({ op, data, extra, first }) => {
        const pair = [`${a}"op"${b}:${a}"${op}"`, `"data":${b}${data}${a}`];
        return `${b}{${(first ? pair : pair.toReversed()).join(',')},"x":${extra}${b}}`;
      });
      const frame = Buffer.from(
        `${a}{${b}"items":[${texts.join(`${a},`)}${b}],"dml_batch_id":${a}${id}${b}}${a}`,
      );
      const read = readBatch(frame);
      assert.equal(read.id, id);
      assert.equal(read.items, items.length);
      assert.equal(read.spans.length, items.length * 2);
      items.forEach(({ data, op }, i) => {
        assert.equal(frame.toString('utf8', read.spans[2 * i], read.spans[2 * i + 1]), data);
        assert.equal(read.deletes?.[i] ?? 0, op === 'delete' ? 1 : 0);
      });
    }),
  );
});

test('any bytes are a WebSocket batch frame or refused, and invalid JSON is accepted within data only', () => {
  const good =
    '{"dml_batch_id":12,"items":[{"op":"delete","data":{"a":[1,"}"]}},{"op":"insert","data":null}]}';
  const changed = fc
    .tuple(fc.nat(good.length), fc.nat(4), fc.stringMatching(/^[{}[\],:"\\a1 ]{0,3}$/))
    .map(([at, drop, text]) => good.slice(0, at) + text + good.slice(at + drop));
  fc.assert(
    fc.property(fc.oneof(changed, fc.string(), fc.json()), (text) => {
      const frame = Buffer.from(text);
      let read: ReturnType<typeof readBatch>;
      try {
        read = readBatch(frame);
      } catch (error) {
        assert.ok(error instanceof Refused);
        assert.match(error.message, /^malformed payload: /);
        return;
      }
      const { spans } = read;
      let outer = text;
      for (let i = spans.length - 2; i >= 0; i -= 2)
        outer = `${frame.subarray(0, spans[i]).toString()}0${Buffer.from(outer)
          .subarray(spans[i + 1])
          .toString()}`;
      if (!/"x|extra/.test(text)) assert.doesNotThrow(() => JSON.parse(outer) as unknown, outer);
    }),
    { numRuns: 2_000 },
  );
});

test('a large WebSocket batch frame is read in one pass', () => {
  const data = `{"text":"${'é"'.replace('"', '\\"').repeat(20)}","n":[1,2,{"a":null}]}`;
  const items = Array.from({ length: 20_000 }, (_, i) => `{"op":"${ops[i % 4]}","data":${data}}`);
  const read = readBatch(Buffer.from(`{"dml_batch_id":1,"items":[${items.join()}]}`));
  assert.equal(read.items, 20_000);
  assert.equal(read.deletes?.filter((it) => it === 1).length, 5_000);
});

test('long strings in a WebSocket batch frame end where JSON ends them, with any escapes', () => {
  const piece = fc.oneof(
    fc.constantFrom('\\', '"', '\\"', '\n', 'é'),
    fc.integer({ min: 1, max: 200 }).map((n) => 'x'.repeat(n)),
    fc.integer({ min: 1, max: 200 }).map((n) => '\\'.repeat(n)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
      const data = JSON.stringify(pieces.join(''));
      const bytes = Buffer.from(`{"dml_batch_id":1,"items":[{"op":"insert","data":${data}}]}`);
      const { items, spans } = readBatch(bytes);
      assert.equal(items, 1);
      assert.equal(bytes.subarray(spans[0], spans[1]).toString(), data);
      assert.throws(() => readBatch(bytes.subarray(0, (spans[1] ?? 0) - 1)), /it ends in the middle/);
    }),
    { numRuns: 2_000 },
  );
});
