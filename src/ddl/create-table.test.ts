import { test } from 'node:test';
import { assertRefused } from '../../test/support/ddl-rooms.ts';

/** ¶ stands where the error points at. */
const refused: [string, string, RegExp][] = [
  ["CREATE TABLE t (data JSONB) WITH (connector = ¶'kafka')", '22023', /connector "kafka" is not known/],
  [
    "CREATE TABLE t (data JSONB) WITH (connector = 'webhook', ¶is_batch = true)",
    '22023',
    /unknown option "is_batch"/,
  ],
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook', ¶connector = 'webhook')", '42601', /twice/],
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook', is_batched = ¶3)", '22023', /true or false/],
  [
    "CREATE TABLE t (data JSONB) WITH (connector = 'webhook', format = 'form', is_batched = ¶true)",
    '0A000',
    /is_batched = true needs format = 'json'/,
  ],
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook', format = ¶xml)", '22023', /"xml" is not known/],
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook', on_type_error = ¶ignore)", '22023', /"ignore"/],
  [
    "CREATE TABLE t (a TEXT, b TEXT) WITH (connector = 'webhook', format = ¶'text')",
    '0A000',
    /exactly one column for the body, of type TEXT/,
  ],
  [
    "CREATE TABLE t (a TEXT, b JSONB) WITH (connector = 'webhook', document = ¶'c')",
    '42703',
    /no column "c"/,
  ],
  ["CREATE ¶TEMP TABLE t (data JSONB) WITH (connector = 'webhook')", '0A000', /temporary/],
  ["CREATE TABLE t ¶() WITH (connector = 'webhook')", '0A000', /a column that takes the body/],
  [
    "CREATE TABLE t ¶(id TEXT) INCLUDE HEADER 'x' AS id WITH (connector = 'webhook')",
    '0A000',
    /a column that takes the body/,
  ],
  [
    "CREATE TABLE t ¶(data JSONB GENERATED ALWAYS AS (null) STORED) WITH (connector = 'webhook')",
    '0A000',
    /a column that takes the body/,
  ],
  ["CREATE TABLE t (data ¶STRUCT<a INT>) WITH (connector = 'webhook')", '0A000', /STRUCT is not a type/],
  ["CREATE TABLE t (data ¶MAP(TEXT, TEXT)) WITH (connector = 'webhook')", '0A000', /MAP is not a type/],
  ["CREATE TABLE t (data JSONB,¶) WITH (connector = 'webhook')", '42601', /at or near "\)"/],
  [
    "CREATE TABLE t (data JSONB) INCLUDE HEADER 'x' AS id INCLUDE TIMESTAMP AS ¶id WITH (connector = 'webhook')",
    '42701',
    /more than once/,
  ],
  [
    "CREATE TABLE t (data JSONB) INCLUDE HEADER ¶'x y' AS id WITH (connector = 'webhook')",
    '22023',
    /not the name of a header/,
  ],
  [
    "CREATE TABLE t (data JSONB, id INT GENERATED ALWAYS AS IDENTITY) INCLUDE HEADER 'x' AS ¶id WITH (connector = 'webhook')",
    '428C9',
    /generated/,
  ],
  ["CREATE TABLE t (data JSONB) INCLUDE HEADER 'x' ¶id WITH (connector = 'webhook')", '42601', /"id"/],
  [
    "CREATE TABLE t (data JSONB) INCLUDE ¶COOKIE AS id WITH (connector = 'webhook')",
    '42601',
    /at or near "COOKIE"/,
  ],
  ...[
    '',
    '1 PB',
    '1001 TB',
    '1.5 GB',
    '0 days',
    '-1 day',
    '90',
    'days',
    '1 week',
    '1 day; DROP',
    '99999999999 rows',
    '36501 days',
  ].map((keep): [string, string, RegExp] => [
    `CREATE TABLE t (data JSONB) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook', keep = ¶'${keep}')`,
    '22023',
    /keep/,
  ]),
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook', inspect = ¶'everything')", '22023', /inspect/],
  [
    "CREATE TABLE t (data JSONB) WITH (connector = 'webhook', ¶keep = '1 day')",
    '0A000',
    /keep needs a column for the time of arrival/,
  ],
  ...[
    '¶shards = 4',
    "distribute = 'reference', ¶shards = 4",
    "distribute = 'OFF', ¶shards = 4",
    "distribute = 'id', shards = ¶0",
    "distribute = 'id', shards = ¶1025",
    "distribute = 'id', shards = ¶'many'",
    "distribute = ¶''",
  ].map((options): [string, string, RegExp] => [
    `CREATE TABLE t (id INT, n INT) WITH (connector = 'webhook', ${options})`,
    '22023',
    /shards|distribute/,
  ]),
  [
    "CREATE TABLE t (data JSONB) INCLUDE REMOTE ¶AS id WITH (connector = 'webhook')",
    '42601',
    /at or near "AS"/,
  ],
  [
    "CREATE TABLE t (data JSONB) INCLUDE BODY AS raw INCLUDE ¶BODY AS again WITH (connector = 'webhook')",
    '42701',
    /BODY is given more than once/,
  ],
  ["CREATE TABLE t (data JSONB) ¶PARTITION OF u WITH (connector = 'webhook')", '0A000', /PARTITION OF/],
  ["CREATE TABLE t (data JSONB) WITH (connector = 'webhook') ¶TABLESPACE x", '0A000', /TABLESPACE/],
  ["CREATE TABLE t ¶OF u WITH (connector = 'webhook')", '0A000', /OF/],
  [
    "CREATE TABLE t (data JSONB) ¶VALIDATE AS a = 'key' WITH (connector = 'webhook')",
    '42601',
    /at or near "VALIDATE"/,
  ],
];
for (const [marked, sqlstate, message] of refused) {
  test(`CREATE TABLE refuses: ${marked}`, () => assertRefused(marked, sqlstate, message));
}
