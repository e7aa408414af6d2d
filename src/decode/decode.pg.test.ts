/** What decode produces, read by the engine as commit reads it: json_to_recordset over the documents of the rows. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { documentsOf, typedTarget } from '../../test/support/documents.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { plainHead } from '../../test/support/rows.ts';
import type { Include } from '../types/target.ts';
import type { Rows } from '../types/rows.ts';
import { decodeRequest } from './decode-slices.ts';
import { anyCharacter } from '../../test/support/characters.ts';

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Each row as PostgreSQL's own text of its columns. */
async function read(client: Client, rows: Rows): Promise<(string | null)[][]> {
  const { columns } = rows.target.shape;
  const list = columns.map(({ name, type }) => `${quoted(name)} ${type}`).join(', ');
  const texts = columns.map(({ name }, i) => `r.${quoted(name)}::text as c${i}`).join(', ');
  const result = await client.query<(string | null)[]>({
    text: `select ${texts} from rows from (json_to_recordset($1::json) as (${list})) with ordinality as r order by r.ordinality`,
    values: [`[${documentsOf(rows).join(',')}]`],
    rowMode: 'array',
  });
  return result.rows;
}

const request = (body: string | Buffer, rawHeaders: readonly string[] = []) => ({
  ...plainHead,
  body: Buffer.from(body),
  rawHeaders,
  arrivedAtMs: 1_700_000_000_123,
});

async function utcClient(t: TestContext): Promise<Client> {
  const client = await (await testDatabase(t)).connect();
  await client.query("set timezone = 'UTC'");
  return client;
}

test('a number in a timestamp column becomes the moment that it names, in every unit', async (t) => {
  const client = await utcClient(t);
  // Neither decides what a moment is.
  await client.query("set timezone = 'America/New_York'");
  await client.query("set datestyle = 'German, DMY'");
  const target = typedTarget({ plain: 'timestamp', zoned: 'timestamptz' });
  const units = [
    [0n, 10n ** 11n, 6],
    [10n ** 11n, 10n ** 14n, 3],
    [10n ** 14n, 10n ** 17n, 0],
    [10n ** 17n, 9n * 10n ** 18n, -3],
  ] as const;
  const seed = Math.floor(Math.random() * 2 ** 30);
  for (const [from, below, places] of units) {
    const numbers = fc.sample(fc.bigInt({ min: from, max: below - 1n }), { numRuns: 300, seed });
    const texts = numbers.map((n, i) => (i % 3 === 0 ? -n : n).toString());
    const body = Buffer.from(texts.map((n) => `{"plain":${n},"zoned":${n}}`).join('\n'));
    const rows = decodeRequest({ ...target, intake: { ...target.intake, batched: true } }, request(body));
    const { rows: found } = await client.query<{ plain: string; zoned: string }>(
      `select (extract(epoch from plain) * 1000000)::numeric(30)::text as plain,
              (extract(epoch from zoned) * 1000000)::numeric(30)::text as zoned
         from json_to_recordset($1::json) as (plain timestamp, zoned timestamptz)`,
      [`[${documentsOf(rows).join(',')}]`],
    );
    const { rows: wanted } = await client.query<{ micros: string }>(
      `select round(n::numeric * 10::numeric ^ $2::int)::numeric(30)::text as micros from unnest($1::text[]) as n`,
      [texts, places],
    );
    texts.forEach((n, i) => {
      // Halves of a microsecond are rounded to even here, away from zero by numeric: neither is a test of the other.
      if (places < 0 && n.endsWith('500')) return;
      assert.equal(found[i]?.plain, wanted[i]?.micros, `${n}, seed ${seed}`);
      assert.equal(found[i]?.zoned, wanted[i]?.micros, `${n}, seed ${seed}`);
    });
  }
});

test('a number with a fraction or exponent becomes the exact timestamp, up to the range limits', async (t) => {
  const client = await utcClient(t);
  const target = typedTarget({ at: 'timestamptz' });
  const moments: [number: string, text: string][] = [
    ['0', '1970-01-01 00:00:00+00'],
    ['-0', '1970-01-01 00:00:00+00'],
    ['1700000000', '2023-11-14 22:13:20+00'],
    ['1700000000.5', '2023-11-14 22:13:20.5+00'],
    ['1700000000.1234565', '2023-11-14 22:13:20.123456+00'],
    ['1700000000.1234575', '2023-11-14 22:13:20.123458+00'],
    ['1700000000.12345650001', '2023-11-14 22:13:20.123457+00'],
    ['1.7e9', '2023-11-14 22:13:20+00'],
    ['17E+8', '2023-11-14 22:13:20+00'],
    ['1700000000123', '2023-11-14 22:13:20.123+00'],
    ['1700000000123456', '2023-11-14 22:13:20.123456+00'],
    ['1700000000123456789', '2023-11-14 22:13:20.123457+00'],
    ['1700000000123456.789', '2023-11-14 22:13:20.123457+00'],
    ['-1', '1969-12-31 23:59:59+00'],
    ['-0.000001', '1969-12-31 23:59:59.999999+00'],
    ['-62135596801', '0001-12-31 23:59:59+00 BC'],
    ['-99999999999', '1200-02-15 14:13:21+00 BC'],
    ['99999999999', '5138-11-16 09:46:39+00'],
    ['1e-999', '1970-01-01 00:00:00+00'],
  ];
  for (const [number, text] of moments) {
    const rows = decodeRequest(target, request(`{"at":${number}}`));
    assert.deepEqual(await read(client, rows), [[text]], number);
  }
  const milli = ['x-rw-webhook-json-timestamptz-handling-mode', 'milli'];
  const far = decodeRequest(target, request('{"at":9224318015999999}', milli));
  assert.deepEqual(await read(client, far), [['294276-12-31 23:59:59.999+00']]);
  const oldest = decodeRequest(target, request('{"at":-210866803200000}', milli));
  assert.deepEqual(await read(client, oldest), [['4714-11-24 00:00:00+00 BC']]);
  for (const number of ['9224318016000000', '-210866803200001', '1e300', '99999999999999999999']) {
    const rows = decodeRequest(target, request(`{"at":${number}}`, milli));
    await assert.rejects(read(client, rows), /out of range|invalid input syntax/, number);
  }
});

/** Names and texts that a splice by hand would get wrong. */
const nasty = fc.oneof(
  fc.constantFrom(
    'a',
    'A',
    'a b',
    '"',
    '\\',
    "'",
    '\\u0061',
    '}',
    '{"',
    'ö',
    '😀',
    ',',
    '\n',
    '\t',
    'null',
    '__proto__',
    '$1',
  ),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }).filter((s) => !s.includes('\0')),
);

test('an INCLUDE column wins over a body member of the same name, and all other members keep their values', async (t) => {
  const client = await utcClient(t);
  const names = fc.uniqueArray(nasty, { minLength: 2, maxLength: 5, selector: (name) => name });
  const member = fc.tuple(fc.nat(9), nasty, fc.boolean());
  await fc.assert(
    fc.asyncProperty(names, fc.array(member, { maxLength: 8 }), nasty, async (columns, members, header) => {
      const [column = '', ...others] = columns;
      const includes: Include[] = [{ what: 'header', header: 'X-Id', column }];
      const types = Object.fromEntries(columns.map((name) => [name, 'text']));
      const target = typedTarget(types, { includes });
      // One that the body fills, without which the document would be of another table.
      const [filled = ''] = others;
      const more = members.map(([at, value, escaped]): [string, string, string] => {
        const name = columns[at % columns.length] ?? '';
        return [name, value, escaped ? escapeAll(name) : JSON.stringify(name)];
      });
      const written: [string, string, string][] = [[filled, '', JSON.stringify(filled)], ...more];
      const body = `{${written.map(([, value, key]) => ` ${key} : ${JSON.stringify(value)}`).join(',')} }\r\n`;
      const sent = Buffer.from(header.trim()).toString('latin1');
      const rows = decodeRequest(target, request(body, ['x-ID', sent]));
      const last = new Map(written.map(([name, value]) => [name, value]));
      assert.deepEqual(await read(client, rows), [
        // A name such as "0" comes first in an object.
        Object.keys(types).map((name) => (name === column ? header.trim() : (last.get(name) ?? null))),
      ]);
    }),
    { numRuns: 150 },
  );
});

/** Every character as `\uXXXX`. */
function escapeAll(text: string): string {
  const units = Array.from({ length: text.length }, (_, i) =>
    text.charCodeAt(i).toString(16).padStart(4, '0'),
  );
  return `"${units.map((unit) => `\\u${unit}`).join('')}"`;
}

const option = (name: string, value: string) => [`x-rw-webhook-json-${name}`, value];

test('option headers define the units of times and timestamps and the form of large numbers', async (t) => {
  const client = await utcClient(t);
  await client.query("set timezone = 'Asia/Kolkata'");
  const types = {
    plain: 'timestamp', zoned: 'timestamptz', time: 'time', timetz: 'timetz',
    small: 'int2', int: 'int4', big: 'int8', numeric: 'numeric',
  }; // prettier-ignore
  const cases: [headers: string[], column: keyof typeof types, value: string, text: string | RegExp][] = [
    [option('timestamp-handling-mode', 'milli'), 'plain', '1712800800', '1970-01-20 19:46:40.8'],
    [option('timestamp-handling-mode', 'milli'), 'plain', '1712800800123', '2024-04-11 02:00:00.123'],
    [option('timestamp-handling-mode', 'milli'), 'zoned', '1712800800', '2024-04-11 07:30:00+05:30'],
    [option('timestamp-handling-mode', 'guess_number_unit'), 'plain', '1712800800', '2024-04-11 02:00:00'],
    [option('timestamptz-handling-mode', 'milli'), 'zoned', '0.5', '1970-01-01 05:30:00.0005+05:30'],
    [option('timestamptz-handling-mode', 'micro'), 'zoned', '1712800800123456', '2024-04-11 07:30:00.123456+05:30'],
    [option('timestamptz-handling-mode', 'micro'), 'zoned', '-1', '1970-01-01 05:29:59.999999+05:30'],
    [option('timestamptz-handling-mode', 'guess_number_unit'), 'zoned', '1712800800', '2024-04-11 07:30:00+05:30'],
    [option('timestamptz-handling-mode', 'utc_string'), 'zoned', '"2024-04-11T02:00:00Z"', '2024-04-11 07:30:00+05:30'],
    [option('timestamptz-handling-mode', 'utc_string'), 'zoned', '1712800800', /out of range|invalid input/],
    [option('timestamptz-handling-mode', 'utc_without_suffix'), 'zoned', '"2024-04-11 02:00:00.25"', '2024-04-11 07:30:00.25+05:30'],
    [option('timestamptz-handling-mode', 'utc_without_suffix'), 'zoned', '"2024-04-11T02:00"', '2024-04-11 07:30:00+05:30'],
    [option('timestamptz-handling-mode', 'utc_without_suffix'), 'zoned', '"2024-04-11"', '2024-04-11 05:30:00+05:30'],
    [option('timestamptz-handling-mode', 'utc_without_suffix'), 'zoned', '"2024-04-11 02:00:00+02"', '2024-04-11 05:30:00+05:30'],
    [option('timestamptz-handling-mode', 'utc_without_suffix'), 'zoned', '1712800800', /out of range|invalid input/],
    [[], 'zoned', '"2024-04-11 02:00:00"', '2024-04-11 02:00:00+05:30'],
    [option('time-handling-mode', 'milli'), 'time', '3723123', '01:02:03.123'],
    [option('time-handling-mode', 'micro'), 'time', '3723123456', '01:02:03.123456'],
    [option('time-handling-mode', 'milli'), 'time', '86400000', '24:00:00'],
    [option('time-handling-mode', 'milli'), 'time', '86400001', /out of range|invalid input/],
    [option('time-handling-mode', 'milli'), 'timetz', '3723123', '01:02:03.123+00'],
    [option('time-handling-mode', 'milli'), 'time', '"01:02"', '01:02:00'],
    [[], 'time', '102030', '10:20:30'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'int', '"AeJA"', '123456'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'small', '"/w=="', '-1'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'numeric', `"AP${String.raw`\/`.repeat(10)}"`, '18446744073709551615'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'numeric', '"AP//////////"', '18446744073709551615'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'big', '"AP//////////"', /out of range/],
    [option('bigint-unsigned-handling-mode', 'precise'), 'numeric', '"12.5"', '12.5'],
    [option('bigint-unsigned-handling-mode', 'precise'), 'numeric', '12', '12'],
    [option('bigint-unsigned-handling-mode', 'long'), 'int', '"1234"', '1234'],
  ]; // prettier-ignore
  for (const [headers, column, value, text] of cases) {
    const rows = decodeRequest(
      typedTarget({ [column]: types[column] }),
      request(`{"${column}":${value}}`, headers),
    );
    const name = `${headers.join(': ')} ${column} ${value}`;
    if (text instanceof RegExp) await assert.rejects(read(client, rows), text, name);
    else assert.deepEqual(await read(client, rows), [[text]], name);
  }
});

test('bodies as bytes, text and forms are decoded unchanged', async (t) => {
  const client = await utcClient(t);
  const anyText = fc.string({ unit: anyCharacter }).filter((s) => !s.includes('\0'));
  await fc.assert(
    fc.asyncProperty(fc.uint8Array(), anyText, anyText, async (bytes, text, name) => {
      const asBytes = typedTarget({ body: 'bytea' }, { format: 'bytes' });
      const raw = await read(client, decodeRequest(asBytes, request(Buffer.from(bytes))));
      assert.deepEqual(raw, [[`\\x${Buffer.from(bytes).toString('hex')}`]]);
      const asText = typedTarget({ body: 'text' }, { format: 'text' });
      assert.deepEqual(await read(client, decodeRequest(asText, request(text))), [[text]]);
      const column = Buffer.from(name).length < 60 && name !== '' ? name : 'n';
      const asForm = typedTarget({ [column]: 'text' }, { format: 'form' });
      const form = `${encodeURIComponent(column)}=&${new URLSearchParams([[column, text]]).toString()}`;
      assert.deepEqual(await read(client, decodeRequest(asForm, request(form))), [[text]]);
    }),
    { numRuns: 100 },
  );
});
