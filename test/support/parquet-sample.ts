/** A table with every type that has a Parquet type of its own, and some that are stored as text. */
export const typesTable = `CREATE TABLE types (
  yes boolean, small int2, middle int4, big int8, single float4, double float8,
  price numeric(9,2), amount numeric(18,6), wei numeric(38,0), any_number numeric, thousands numeric(5,-3),
  at timestamptz, local_at timestamp, day date, hour time, body bytea, doc jsonb, said json, id uuid, name text, short char(4),
  place inet, "odd ""name.é" text,
  bigs int8[], names text[], prices numeric(9,2)[], moments timestamptz[], docs jsonb[], ids uuid[], bodies bytea[]
)`;

const rows: readonly string[] = [
  `true, -32768, 2147483647, 9223372036854775807, 1.1, 0.1,
  1234567.89, 123456789012.123456, 12345678901234567890123456789012345678, 12345678901234567890.123456789012345678901234567890, 12000,
  '2026-01-31 12:34:56.123456+02', '1969-12-31 23:59:59.999999', '2026-02-28', '23:59:59.5', '\\x00ff10', '{"n": 12345678901234567890.10, "t": "é\\u2028"}',
  '{"b":1,  "a":1e400}', '0189e7c6-7d2a-7cc3-98c4-dc0c0c07398f', E'line\\nü😀', 'ab', '10.0.0.0/8', 'x',
  '{1,NULL,-9223372036854775808}', '{"a,b","\\"q\\"",NULL,"NULL",""}', '{0.10,NULL}', '{"2026-01-31 12:34:56.123456+02",NULL}', '{"{\\"n\\": 1.10}"}',
  '{0189e7c6-7d2a-7cc3-98c4-dc0c0c07398f}', '{"\\\\x00ff"}'`,
  `false, 32767, -2147483648, -9223372036854775808, 'NaN', '-Infinity',
  -0.01, -0.000001, -12345678901234567890123456789012345678, 'NaN', -12000,
  '1900-01-01 00:00:00.000001+00', '2100-01-01', '1900-03-01', '00:00', '', '[]', '"x"', '00000000-0000-0000-0000-000000000000', '', '', '::1', '',
  '{}', '{}', '{}', '{}', '{}', '{}', '{}'`,
  Array.from({ length: 30 }, () => 'NULL').join(),
];

export const typesRows = `INSERT INTO types VALUES ${rows.map((row) => `(${row})`).join()}`;
