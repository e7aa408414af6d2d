import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { limits } from '../config/limits.ts';
import { type FormField, formFields } from './form.ts';
import { FormProblem, openingBoundary, partsOf } from './multipart.ts';

const bounds = {
  fieldsMax: limits.formFieldsMax,
  headBytesMax: limits.formPartHeadBytesMax,
  sliceBytes: limits.decodeSliceBytes,
};

/** Name and text, or name, file name, type and bytes in hex. */
function ours(body: Buffer, sliceBytes = bounds.sliceBytes): string[][] {
  return [...formFields(body, null, { ...bounds, sliceBytes })]
    .filter((field): field is FormField => field !== null)
    .map(([name, value]) =>
      typeof value === 'string'
        ? [name, value]
        : [name, value.name, value.type, value.content.toString('hex')],
    );
}

/** As Node reads it, which follows the Fetch standard. */
async function nodes(body: Buffer, type: string): Promise<string[][]> {
  const form = await new Response(body, { headers: { 'content-type': type } }).formData();
  const all: string[][] = [];
  for (const [name, value] of form) {
    if (typeof value === 'string') all.push([name, value]);
    else all.push([name, value.name, value.type, Buffer.from(await value.arrayBuffer()).toString('hex')]);
  }
  return all;
}

const name = fc.string({ unit: fc.constantFrom('a', 'Z', '"', '\n', '%', 'é', '😀', ' ', ';', '=') });
// Node 20 writes a file with an empty name as a field.
const fileName = name.filter((text) => text !== '');
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.string({ unit: fc.constantFrom('\r\n', '--', '-', '\n', 'x') }).map((text) => Buffer.from(text)),
);

test("the multipart parser reads Node's forms as Node does, wherever chunks are split", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ name, text: name, file: fc.option(fc.record({ name: fileName, bytes })) }), {
        maxLength: 6,
      }),
      fc.integer({ min: 1, max: 200 }),
      async (fields, sliceBytes) => {
        const form = new FormData();
        for (const { name: field, text, file } of fields) {
          if (file === null) form.append(field, text);
          else form.append(field, new Blob([new Uint8Array(file.bytes)], { type: 'image/png' }), file.name);
        }
        const sent = new Response(form);
        const type = sent.headers.get('content-type') ?? '';
        const body = Buffer.from(await sent.arrayBuffer());
        assert.deepEqual(ours(body, sliceBytes), await nodes(body, type));
      },
    ),
    { numRuns: 300 },
  );
});

const crlf = (...lines: readonly string[]) => Buffer.from(lines.join('\r\n'));

test('the multipart parser reads RFC 5987 names, escaped quotes, base64 and part charsets', () => {
  const body = crlf(
    '--b', "Content-Disposition: form-data; name=\"f\"; filename*=utf-8''na%C3%AFve.txt", 'Content-Type: text/plain',
    'Content-Transfer-Encoding: base64', '', 'aMOp', '--b',
    'content-disposition: form-data; name="say \\"hi\\""', '', 'C:\\x', '--b',
    'Content-Disposition: form-data; name=plain', '', '', '--b--', 'epilogue',
  ); // prettier-ignore
  assert.deepEqual(ours(body), [
    ['f', 'naïve.txt', 'text/plain', Buffer.from('hé').toString('hex')],
    ['say "hi"', 'C:\\x'],
    ['plain', ''],
  ]);
  const latin = Buffer.concat([
    crlf(
      '--b',
      'Content-Disposition: form-data; name="a"',
      'Content-Type: text/plain; charset=windows-1252',
      '',
      '',
    ),
    Buffer.from([0x80]),
    crlf('', '--b--', ''),
  ]);
  assert.deepEqual(ours(latin), [['a', '€']]);
});

test('the multipart parser refuses truncated, unnamed and too many parts', () => {
  const part = 'Content-Disposition: form-data; name="a"';
  for (const body of [
    crlf('--b', part, '', 'x'),
    crlf('--b', part, '', 'x', '--bx'),
    crlf('--b', '', 'x', '--b--'),
    crlf('--b', 'Content-Disposition: attachment; name="a"', '', 'x', '--b--'),
    crlf('--b', part, part, '', 'x', '--b--'),
    crlf('--b', 'x'.repeat(limits.formPartHeadBytesMax), part, '', 'x', '--b--'),
  ])
    assert.throws(() => ours(body), FormProblem);
  const many = Buffer.from(`--b\r\n${`${part}\r\n\r\nx\r\n--b\r\n`.repeat(bounds.fieldsMax + 1)}`);
  assert.throws(() => ours(many), /at most 10000 fields/);
});

test('the multipart parser takes a time in proportion to the size of a body that resembles its boundary', () => {
  const body = Buffer.from(
    `--${'-'.repeat(68)}\r\n${'x: y\r\n'.repeat(9)}\r\n${'\r\n--'.padEnd(71, '-').repeat(60_000)}`,
  );
  const boundary = openingBoundary(body) ?? '';
  let pauses = 0;
  assert.throws(() => {
    for (const part of partsOf(body, boundary, bounds)) if (part === null) pauses++;
  }, FormProblem);
  assert.ok(pauses >= Math.floor(body.length / bounds.sliceBytes) - 1, `${pauses}`);
});
