import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { documentsOf, typedTarget } from '../../test/support/documents.ts';
import { plainHead, targetOf } from '../../test/support/rows.ts';
import type { Intake, Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { formObject } from '../validate/form.ts';
import { decodeRequest } from './decode-slices.ts';
import { scanJson } from './json-scan.ts';

const request = (body: string | Buffer, rawHeaders: readonly string[] = []) => ({
  ...plainHead,
  body: Buffer.from(body),
  rawHeaders,
  arrivedAtMs: 1_700_000_000_123,
});
const urlencoded = ['content-type', 'application/x-www-form-urlencoded'];
const withIntake = (target: Target, intake: Partial<Intake>): Target => ({
  ...target,
  intake: { ...target.intake, ...intake },
});
const refusedWith = (code: string, message: string) => (error: unknown) =>
  error instanceof Refused && error.refusal.code === code && error.message === message;
const json = (rows: ReturnType<typeof decodeRequest>) =>
  documentsOf(rows).map((text) => JSON.parse(text) as unknown);

const typed = typedTarget({ id: 'int4', at: 'timestamptz' });
const document = targetOf();
const wrapped = targetOf({ shape: { writeMode: 'upsert', key: [{ name: 'data', generated: null }] } });

test('a form that a table of JSON gets is called a form, and broken JSON that a client calls one is not', () => {
  const said = (target: Target, body: string, type: string) => {
    try {
      decodeRequest(target, request(body, ['content-type', type]));
    } catch (error) {
      return (error as Error).message;
    }
    return null;
  };
  const form = /: it is a form: .* application\/json, .* format = 'form'$/;
  const parts = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n';
  for (const target of [typed, document, wrapped]) {
    assert.match(said(target, 'payload=%7B%22a%22%3A1%7D', 'application/x-www-form-urlencoded') ?? '', form);
    assert.match(said(target, parts, 'multipart/form-data; boundary=x') ?? '', form);
    assert.match(
      said(target, '{"a=":', 'application/x-www-form-urlencoded') ?? '',
      /in the middle at byte 6$/,
    );
    assert.match(said(target, 'a=1', 'text/plain') ?? '', /unexpected character at byte 0$/);
    assert.equal(said(target, '{"id":1}', 'application/x-www-form-urlencoded'), null);
  }
});

test('a document goes unchanged into its column, with the INCLUDE columns beside it', () => {
  const target = withIntake(wrapped, {
    includes: [
      { what: 'header', header: 'webhook-id', column: 'the "id"' },
      { what: 'headers', column: 'h' },
      { what: 'timestamp', column: 'at' },
    ],
    hiddenHeaders: new Set(['authorization']),
  });
  const rows = decodeRequest(
    target,
    request(' {"n" : 1.0}\r\n', [
      'Webhook-ID',
      'a',
      'X-Y',
      'Ã©',
      'authorization',
      'k',
      'x-y',
      '\xff',
      'webhook-id',
      'b',
    ]),
  );
  assert.deepEqual(documentsOf(rows), [
    '{"data":{"n" : 1.0},"the \\"id\\"":"a, b","h":{"webhook-id":"a, b","x-y":"é, ÿ"},"at":"2023-11-14T22:13:20.123Z"}',
  ]);
  assert.equal(rows.bytes, rows.documents.bytes.length);
  const bare = decodeRequest(withIntake(target, { hiddenHeaders: null }), request('[]'));
  assert.deepEqual(documentsOf(bare), [
    '{"data":[],"the \\"id\\"":null,"h":{},"at":"2023-11-14T22:13:20.123Z"}',
  ]);
  assert.throws(
    () => decodeRequest(target, request('{"n":}')),
    refusedWith('body_not_json', 'failed to parse request body: unexpected character at byte 5'),
  );
});

test("INCLUDE BODY has the bytes of a batch's line or of a form, beside method, path, query and remote address", () => {
  const includes = (['method', 'path', 'query', 'remote address', 'body'] as const).map((what) => ({
    what,
    column: what,
  }));
  const target = withIntake(wrapped, { includes });
  const of = (of: Target, body: string | Buffer, head = {}) =>
    json(decodeRequest(of, { ...request(body), ...head }));
  const hex = (text: string) => `\\x${Buffer.from(text).toString('hex')}`;
  const rest = { method: 'POST', path: '/webhook/dev/public/t', query: null, 'remote address': '192.0.2.1' };
  assert.deepEqual(of(target, ' {"n":1.0}\r\n'), [{ data: { n: 1 }, ...rest, body: hex(' {"n":1.0}\r\n') }]);
  const head = { method: 'PUT', target: '/a%20b?x=1&y=?\xc3\xa9', remoteAddress: '::ffff:192.0.2.7' };
  assert.deepEqual(of(target, '0', head), [
    {
      data: 0,
      method: 'PUT',
      path: '/a%20b',
      query: 'x=1&y=?é',
      'remote address': '192.0.2.7',
      body: hex('0'),
    },
  ]);
  assert.deepEqual(of(target, '0', { target: '/a?', remoteAddress: 'fe80::1%eth0' }), [
    { ...rest, data: 0, path: '/a', query: '', 'remote address': 'fe80::1', body: hex('0') },
  ]);
  assert.deepEqual(of(target, '0', { remoteAddress: '' }), [
    { ...rest, data: 0, 'remote address': null, body: hex('0') },
  ]);
  const form = withIntake(target, { format: 'form' });
  assert.deepEqual(of(form, 'a=1+2'), [{ data: { a: '1 2' }, ...rest, body: hex('a=1+2') }]);
  const batch = withIntake(target, { batched: true });
  assert.deepEqual(of(batch, '{"n":1}\r\n\n[ 2 ] \n'), [
    { data: { n: 1 }, ...rest, body: hex('{"n":1}') },
    { data: [2], ...rest, body: hex('[ 2 ]') },
  ]);
  const large = Buffer.from(JSON.stringify('x'.repeat(200_000)));
  assert.equal((of(target, large)[0] as { body: string }).body, `\\x${large.toString('hex')}`);
  // Only an owner who writes into the catalog by hand has two.
  const twice = withIntake(typed, { includes: [...includes, { what: 'body', column: 'again' }] });
  assert.deepEqual(of(twice, '{"id":1,"body":"mine"}'), [
    { id: 1, ...rest, body: hex('{"id":1,"body":"mine"}'), again: null },
  ]);
});

test('a row of a typed table has to be one JSON object, and is not copied if nothing is to be changed', () => {
  const plain = typedTarget({ id: 'int4' });
  const body = request(' {"id": 1, "x": [1.0]}\n');
  assert.equal(decodeRequest(plain, body).documents.bytes, body.body);
  assert.deepEqual(documentsOf(decodeRequest(typed, request('{"at":"2020-01-01","id":1e0 } '))), [
    '{"at":"2020-01-01","id":1 }',
  ]);
  for (const [body, reason] of [
    ['[{}]', 'it is not a JSON object'],
    ['"{}"', 'it is not a JSON object'],
    ['{"id":1', 'it ends in the middle at byte 7'],
    ['', 'it is empty'],
  ] as const) {
    assert.throws(
      () => decodeRequest(typed, request(body)),
      refusedWith('payload_undecodable', `failed to decode webhook JSON payload: ${reason}`),
    );
  }
});

test('option headers apply to typed tables only', () => {
  const headers = ['x-rw-webhook-encode', 'csv'];
  assert.throws(
    () => decodeRequest(typed, request('{}', headers)),
    refusedWith('invalid_option', 'unsupported webhook payload encoding `csv`'),
  );
  assert.equal(decodeRequest(document, request('{}', headers)).count, 1);
});

test('a batch has one document a line, and tolerates blank lines, CRLF and a missing last line end', () => {
  const target = withIntake(document, { batched: true });
  const rows = decodeRequest(target, request('{"a":1}\r\n\n \t\r\n[2] \n"ü"'));
  assert.deepEqual(documentsOf(rows), ['{"a":1}', '[2]', '"ü"']);
  assert.deepEqual([...(rows.lines ?? [])], [1, 4, 5]);
  assert.equal(decodeRequest(target, request('1\n2\n')).lines, null);
  assert.deepEqual([...(decodeRequest(target, request('\n1\n2\n')).lines ?? [])], [2, 3]);
  for (const empty of ['', '\n', ' \r\n\n']) {
    const none = decodeRequest(target, request(empty));
    assert.equal(none.count, 0);
    assert.equal(none.documents.spans?.length, 0);
  }
});

test('a malformed line of a batch refuses the batch with the line number', () => {
  const batch = { batched: true };
  const cases: [Target, string | Buffer, string, string][] = [
    [
      document,
      '1\n\n{"a"}\n',
      'body_not_json',
      'line 3: failed to parse request body: unexpected character at byte 4',
    ],
    [
      document,
      '1\n{"a":\n1}',
      'body_not_json',
      'line 2: failed to parse request body: it ends in the middle at byte 5',
    ],
    [
      typed,
      '{}\r\n7',
      'payload_undecodable',
      'line 2: failed to decode webhook JSON payload: it is not a JSON object',
    ],
    [
      typed,
      Buffer.from([0x7b, 0x7d, 10, 0x22, 0xff, 0x22]),
      'payload_undecodable',
      'line 2: failed to decode webhook JSON payload: it is not valid UTF-8',
    ],
  ];
  for (const [target, body, code, message] of cases)
    assert.throws(() => decodeRequest(withIntake(target, batch), request(body)), refusedWith(code, message));
});

test('a batch decodes as its lines do one by one', () => {
  const includes = [{ what: 'header', header: 'id', column: 'key' }] as const;
  const target = withIntake(typed, { includes });
  const line = fc
    .tuple(
      fc.constantFrom('', ' ', '\t'),
      fc.dictionary(fc.constantFrom('id', 'at', 'x', 'key'), fc.jsonValue()),
      fc.constantFrom('', '\r'),
    )
    .map(([before, object, after]) => `${before}${JSON.stringify({ id: 1, ...object })}${after}`);
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ weight: 5, arbitrary: line }, fc.constant(' '))),
      fc.boolean(),
      (lines, ends) => {
        const body = lines.join('\n') + (ends ? '\n' : '');
        const rows = decodeRequest(withIntake(target, { batched: true }), request(body, ['ID', 'q']));
        const wanted = lines.filter((text) => text.trim() !== '');
        assert.deepEqual(
          documentsOf(rows),
          wanted.flatMap((text) => documentsOf(decodeRequest(target, request(text, ['id', 'q'])))),
        );
        const numbers = lines.flatMap((text, i) => (text.trim() === '' ? [] : [i + 1]));
        assert.deepEqual([...(rows.lines ?? wanted.map((_, i) => i + 1))], numbers);
      },
    ),
    { numRuns: 500 },
  );
});

test('the answer timeout of a request grows with its size, to about half a minute for a million rows', () => {
  assert.equal(decodeRequest(document, request('1')).ackTimeoutMs, limits.ackDeadlineMs);
  const large = decodeRequest(document, request(JSON.stringify('x'.repeat(16 * 2 ** 20))));
  assert.ok(
    large.ackTimeoutMs >= limits.ackDeadlineMs + 16 * limits.largeMiBPatienceMs,
    `${large.ackTimeoutMs}`,
  );
  const million = decodeRequest(withIntake(document, { batched: true }), request('1\n'.repeat(1_000_000)));
  assert.equal(million.count, 1_000_000);
  assert.ok(million.ackTimeoutMs > 25_000 && million.ackTimeoutMs < 35_000, `${million.ackTimeoutMs}`);
  assert.ok(million.bytes >= 2_000_000 + 8_000_000);
});

test('the INCLUDE columns of a batch are bounded together', () => {
  const target = withIntake(typed, { batched: true, includes: [{ what: 'headers', column: 'h' }] });
  const body = request('{}\n'.repeat(400_000), ['x', 'y'.repeat(1_000)]);
  assert.throws(
    () => decodeRequest(target, body),
    (error) => error instanceof Refused && error.refusal.code === 'body_too_large',
  );
});

test('a form is decoded to an object of strings, with the meaning of form() in VALIDATE', () => {
  const form = withIntake(document, { format: 'form' });
  const slack =
    'token=x&command=%2Fweather&text=94070+%26+more&response_url=https%3A%2F%2Fhooks.slack.com%2F1&a&a=2&=e&&%';
  assert.deepEqual(json(decodeRequest(form, request(slack))), [
    {
      token: 'x',
      command: '/weather',
      text: '94070 & more',
      response_url: 'https://hooks.slack.com/1',
      a: '2',
      '': 'e',
      '%': '',
    },
  ]);
  const part = fc.string({
    unit: fc.constantFrom('a', 'b', '&', '=', '+', '%', '%41', '%c3%a9', 'ü', '"', '\\', '😀'),
  });
  fc.assert(
    fc.property(part, (body) => {
      let wanted: Record<string, string | object>;
      try {
        wanted = formObject(Buffer.from(body));
      } catch {
        assert.throws(() => decodeRequest(form, request(body, urlencoded)), Refused);
        return;
      }
      assert.deepEqual(json(decodeRequest(form, request(body, urlencoded))), [{ ...wanted }]);
    }),
    { numRuns: 1_000 },
  );
  const typedForm = withIntake(typed, { format: 'form', includes: [{ what: 'timestamp', column: 'at' }] });
  assert.deepEqual(documentsOf(decodeRequest(typedForm, request('id=7&at=x'))), [
    '{"id":"7","at":"x","at":"2023-11-14T22:13:20.123Z"}',
  ]);
  for (const [body, reason] of [
    ['a=%ff', 'it is not valid UTF-8'],
    ['a%00=1', 'a NUL character cannot be stored'],
    ['a=\0', 'a NUL character cannot be stored'],
  ] as const) {
    assert.throws(
      () => decodeRequest(form, request(body, urlencoded)),
      refusedWith('body_not_json', `failed to parse request body: ${reason}`),
    );
  }
});

test('a text or bytes body goes into the column made for it, or as a string into the document', () => {
  const body = 'a "b"\n\\';
  const text = typedTarget({ n: 'int4', body: 'text', later: 'text' }, { format: 'text' });
  assert.deepEqual(json(decodeRequest(text, request(body))), [{ body }]);
  const bytes = typedTarget({ body: 'bytea' }, { format: 'bytes' });
  assert.deepEqual(json(decodeRequest(bytes, request(Buffer.from([0, 255, 10])))), [{ body: '\\x00ff0a' }]);
  assert.deepEqual(json(decodeRequest(withIntake(document, { format: 'text' }), request(body))), [body]);
  assert.deepEqual(json(decodeRequest(withIntake(wrapped, { format: 'text' }), request(''))), [{ data: '' }]);
  assert.throws(
    () => decodeRequest(text, request(Buffer.from([0xff]))),
    refusedWith('payload_undecodable', 'failed to decode webhook JSON payload: it is not valid UTF-8'),
  );
});

test("columns with Debezium's unavailable value are kept, unless a later member gives a value", () => {
  const target = typedTarget(
    { id: 'int4', a: 'text', b: 'jsonb' },
    { batched: true },
    { writeMode: 'upsert', key: [{ name: 'id', generated: null }] },
  );
  const none = '"__debezium_unavailable_value"';
  const body = `{"id":${none},"a":${none}}\n{"a":${none},"b":${none},"a":"x"}\n{"a":1}\n{"b":1,"b":${none},"\\u0061":${none}}`;
  const on = ['x-rw-webhook-json-handle-toast-columns', 'true'];
  const rows = decodeRequest(target, request(body, on));
  assert.deepEqual([...(rows.keeps ?? [])], [[0, ['a']], [1, ['b']], [3, ['a', 'b']]]); // prettier-ignore
  assert.equal(documentsOf(rows)[0], `{"id":${none},"a":null}`);
  assert.equal(decodeRequest(target, request(body)).keeps, null);
});

test('decoding any body gives rows that jsonb accepts, or a refusal', () => {
  const piece = fc.constantFrom(
    '{', '}', '[', ']', ',', ':', '"id"', '"at"', '"key"', '1700000000', '-0.5e3', '"__debezium_unavailable_value"',
    'null', 'true', ' ', '\n', '\r\n', '"\\u0061t"', '"', '\\', '{"id":1}', '{"at":1}', '{"at":1,"at":2}', '{}',
  ); // prettier-ignore
  const body = fc.oneof(
    fc.array(piece, { maxLength: 12 }).map((pieces) => Buffer.from(pieces.join(''))),
    fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  );
  const shape = { writeMode: 'upsert', key: [{ name: 'id', generated: null }] } as const;
  const headers = [
    'x-rw-webhook-json-handle-toast-columns',
    'true',
    'x-rw-webhook-json-bigint-unsigned-handling-mode',
    'precise',
  ];
  const intake = fc.record({
    format: fc.constantFrom('json', 'json', 'form', 'text', 'bytes'),
    batched: fc.boolean(),
    document: fc.constantFrom(null, 'id'),
    includes: fc.constantFrom([], [{ what: 'headers', column: 'key' } as const]),
    hiddenHeaders: fc.constant(null),
  });
  fc.assert(
    fc.property(body, intake, fc.boolean(), (bytes, intake, withOptions) => {
      const target = typedTarget({ id: 'int4', at: 'timestamptz', key: 'text' }, intake, shape);
      try {
        const rows = decodeRequest(target, request(bytes, withOptions ? headers : []));
        const documents = documentsOf(rows);
        assert.equal(documents.length, rows.count);
        for (const text of documents) {
          assert.equal(scanJson(Buffer.from(text), { depthMax: 513 }), null, text);
          assert.ok(text.trim().startsWith('{'), text);
        }
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        assert.ok(
          ['body_not_json', 'payload_undecodable', 'no_column_matched', 'body_not_form'].includes(
            error.refusal.code,
          ),
          error.refusal.code,
        );
      }
    }),
    { numRuns: 20_000 },
  );
});
