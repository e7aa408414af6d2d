/** What decode makes, read by the engine as commit reads it: json_to_recordset over the documents of the rows. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { documentsOf, typedTarget } from '../../test/support/documents.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Include, Rows } from '../flow.ts';
import { decodeRequest } from './decode.ts';

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
  body: Buffer.from(body),
  rawHeaders,
  arrivedAtMs: 1_700_000_000_123,
});

async function utcClient(t: TestContext): Promise<Client> {
  const client = await (await testDatabase(t)).connect();
  await client.query("set timezone = 'UTC'");
  return client;
}

test('a number in a column of timestamps is the moment that it names, at every unit', async (t) => {
  const client = await utcClient(t);
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

test('fractions, exponents and the ends of the range', async (t) => {
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

test('INCLUDE columns win over members of any spelling, and all other members keep their values', async (t) => {
  const client = await utcClient(t);
  const names = fc.uniqueArray(nasty, { minLength: 2, maxLength: 5, selector: (name) => name });
  const member = fc.tuple(fc.nat(9), nasty, fc.boolean());
  await fc.assert(
    fc.asyncProperty(names, fc.array(member, { maxLength: 8 }), nasty, async (columns, members, header) => {
      const [column = '', ...others] = columns;
      const includes: Include[] = [{ what: 'header', header: 'X-Id', column }];
      const target = typedTarget(Object.fromEntries(columns.map((name) => [name, 'text'])), { includes });
      const written = members.map(([at, value, escaped]): [string, string, string] => {
        const name = columns[at % columns.length] ?? '';
        return [name, value, escaped ? escapeAll(name) : JSON.stringify(name)];
      });
      const body = `{${written.map(([, value, key]) => ` ${key} : ${JSON.stringify(value)}`).join(',')} }\r\n`;
      const sent = Buffer.from(header.trim()).toString('latin1');
      const rows = decodeRequest(target, request(body, ['x-ID', sent]));
      const last = new Map(written.map(([name, value]) => [name, value]));
      assert.deepEqual(await read(client, rows), [
        [header.trim(), ...others.map((name) => last.get(name) ?? null)],
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
