/**
 * What POST /v1/events and /v1/sql answer otherwise than events-api does (risingwavelabs/events-api at a7065f9, version 0.1.4), and why. Played
 * against both by `npm run test:events-api`; docs/operating/events-api.md shows the same lines.
 */

export interface Played {
  readonly path: 'events' | 'sql';
  /** `?name=` of events; `T` stands for the table. */
  readonly query?: string;
  readonly body: string;
  /** What is different, and why; absent: nothing is, neither status nor rows. */
  readonly decided?: { readonly theirs: number; readonly ours: number; readonly why: string };
}

const columns =
  'id BIGINT, s STRING, n NUMERIC, f DOUBLE PRECISION, b BOOLEAN, ts TIMESTAMP, tz TIMESTAMPTZ, doc JSONB, list INT[], texts VARCHAR[], raw BYTEA';
export const createTable = `CREATE TABLE T (${columns})`;

const blamed =
  'what the sender did wrong is 422 with a sentence, a code and the line, and not 500 with a request id';

export const played: readonly Played[] = [
  {
    path: 'events',
    body: '{"id": 1, "s": "x", "n": 1.5, "f": 0.1, "b": true, "ts": "2024-01-15 10:30:00", "tz": "2024-01-15T10:30:00Z"}',
  },
  { path: 'events', body: '{"id": 2}\n{"id": 3}' },
  { path: 'events', body: '{"id": 4}\n\n{"id": 5}\n' },
  { path: 'events', body: '  {"id": 6}  ' },
  { path: 'events', query: 'public.T', body: '{"id": 7}' },
  { path: 'events', body: '{"id": null}' },
  { path: 'events', body: '{}' },
  { path: 'events', body: '{"id": "12"}' },
  { path: 'events', body: '{"id": 8, "unknown": 1}' },
  { path: 'events', body: '{"n": "12345678901234567890.123"}' },
  { path: 'events', body: '{"doc": {"a": 1}}' },
  { path: 'events', body: '{"doc": 5}' },
  { path: 'events', body: '{"list": [1, 2]}' },
  { path: 'events', body: '{"texts": ["a,b", "c\\"d"]}' },
  { path: 'events', body: '{"raw": "\\\\x00ff"}' },
  { path: 'events', body: '{"s": 5}' },
  { path: 'events', body: '{"s": {"a": 1}}' },
  { path: 'events', body: '{"b": "true"}' },
  {
    path: 'events',
    body: '{"id": 9007199254740993}',
    decided: {
      theirs: 200,
      ours: 200,
      why: 'no digit is lost: events-api stores 9007199254740992, because it reads every number as a double',
    },
  },
  {
    path: 'events',
    body: '{"n": 12345678901234567890.123}',
    decided: { theirs: 200, ours: 200, why: 'the same of a NUMERIC' },
  },
  {
    path: 'events',
    body: '{"list": [1, null]}',
    decided: { theirs: 200, ours: 200, why: 'NULL stays NULL in an array: events-api stores 0' },
  },
  {
    path: 'events',
    body: '{"s": true}',
    decided: { theirs: 200, ours: 200, why: '`true` as a text is `true`: events-api stores `t`' },
  },
  {
    path: 'events',
    body: '{"doc": [1, 2]}',
    decided: { theirs: 500, ours: 200, why: 'an array is a JSONB document' },
  },
  { path: 'events', body: '{"doc": "text"}', decided: { theirs: 500, ours: 200, why: 'so is a string' } },
  {
    path: 'events',
    body: '{\n"id": 20\n}',
    decided: { theirs: 500, ours: 200, why: 'one object may stand on several lines' },
  },
  {
    path: 'events',
    body: '{"ts": 1700000000}',
    decided: { theirs: 500, ours: 200, why: 'a number is a moment in a column of time' },
  },
  {
    path: 'events',
    body: '{"id": 21.0}',
    decided: {
      theirs: 200,
      ours: 422,
      why: '`21.0` is no whole number; events-api reads every number as a double, and prints it as 21',
    },
  },
  {
    path: 'events',
    body: '{"unknown": 1}',
    decided: {
      theirs: 200,
      ours: 422,
      why: 'an object of unknown keys only would be a row of NULLs, and is nearly always the wrong table',
    },
  },
  {
    path: 'events',
    body: '{"ID": 22}',
    decided: { theirs: 200, ours: 422, why: 'the same; the answer says that the names differ in case' },
  },
  { path: 'events', body: '[{"id": 23}]', decided: { theirs: 500, ours: 422, why: blamed } },
  { path: 'events', body: '', decided: { theirs: 500, ours: 422, why: 'the same' } },
  { path: 'events', body: 'not json', decided: { theirs: 500, ours: 422, why: 'the same' } },
  {
    path: 'events',
    body: '{"id": "x"}',
    decided: {
      theirs: 500,
      ours: 422,
      why: 'the same; other requests that came together are stored, those of events-api fail with it',
    },
  },
  {
    path: 'events',
    body: '{"id": 24}\n{"id": "x"}\n{"id": 25}',
    decided: { theirs: 500, ours: 422, why: 'the same: nothing of the request is stored by either' },
  },
  {
    path: 'events',
    query: 'nowhere',
    body: '{"id": 26}',
    decided: {
      theirs: 500,
      ours: 404,
      why: 'a table that is not there is 404; one that was just made is found at once, by events-api within a second',
    },
  },
  {
    path: 'events',
    query: '',
    body: '{"id": 27}',
    decided: { theirs: 500, ours: 400, why: 'a request without `name` is 400' },
  },
  {
    path: 'events',
    query: '"T"',
    body: '{"id": 28}',
    decided: {
      theirs: 500,
      ours: 200,
      why: 'names are read as SQL reads them: in quotes, and in any case without',
    },
  },
  {
    path: 'events',
    query: 'T&x=1',
    body: '{"id": 29}',
    decided: { theirs: 200, ours: 400, why: 'an unknown parameter may be a misspelt one' },
  },
  { path: 'sql', body: 'SELECT 1 AS a' },
  { path: 'sql', body: 'INSERT INTO T (id) VALUES (40)' },
  {
    path: 'sql',
    body: 'SELECT nonsense',
    decided: {
      theirs: 200,
      ours: 400,
      why: 'an error of the SQL is 400 with its SQLSTATE. Both have it in `error`; clients of events-api that look at that alone work',
    },
  },
  {
    path: 'sql',
    body: '',
    decided: { theirs: 500, ours: 400, why: blamed.replace('422', '400').replace(' and the line', '') },
  },
  {
    path: 'sql',
    body: 'BEGIN; INSERT INTO T (id) VALUES (41)',
    decided: {
      theirs: 200,
      ours: 400,
      why: 'a transaction that is left open is rolled back, and said: that of events-api stays open in its pool',
    },
  },
];

/** What all answers have otherwise. */
const always: readonly string[] = [
  '`/v1/events` answers `{"rows": 3}` as JSON, events-api `OK` as text; both with 200.',
  '`/v1/sql` has `rows: []` where nothing comes back, events-api `null`; `rowsAffected` counts rows, there it is 0; `command`, `results` of several statements and `notices` are ours alone, `isHidden` and `isPrimaryKey` of a column, which are always false, are theirs.',
  'Of several statements the last one is told (and all in `results`), by events-api the first. A second column of one name is called `a_2`, there it takes the place of the first.',
  'Columns have the names of their types: events-api knows eleven and calls the others `unknown_OID(…)`.',
  '`/v1/healthz` asks for the database, that of events-api for nothing.',
];

/** As docs/operating/events-api.md has them. */
export function differencesTable(): string {
  const shown = (text: string): string =>
    text === '' ? 'nothing' : `\`${text.replaceAll('\n', '↵').replaceAll('|', '\\|')}\``;
  const lines = played.flatMap(({ path, query, body, decided }) =>
    decided === undefined
      ? []
      : [
          `| ${path === 'sql' ? '`/v1/sql`' : `\`/v1/events${query === '' ? '' : `?name=${query ?? 'T'}`}\``} | ${shown(body)} | ${decided.theirs} | ${decided.ours} | ${decided.why} |`,
        ],
  );
  return [
    '| request | body | events-api | Headgate | why |',
    '| --- | --- | --: | --: | --- |',
    ...lines,
    '',
    ...always.map((it) => `- ${it}`),
  ].join('\n');
}
