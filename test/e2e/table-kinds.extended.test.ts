/**
 * Kinds of primary keys beside kinds of constraints, in tables of columns and of documents: each document is stored or refused as PostgreSQL does it by an INSERT into
 * a table of the same columns, one at a time, all at once, through the events gateway, and as lines of one request.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { sampleOf } from '../support/sample.ts';

/** The declaration of the key for each form of table; `named`: documents fill it. */
interface Key {
  readonly columns: string;
  readonly document: string;
  readonly named?: boolean;
}

const same = (of: string): Key => ({ columns: of, document: of });

const keys: Readonly<Record<string, Key>> = {
  none: same(''),
  named: {
    columns: 'k INT PRIMARY KEY, ',
    document: `k INT GENERATED ALWAYS AS ((data ->> 'k')::int) STORED PRIMARY KEY, `,
    named: true,
  },
  serial: same('id BIGSERIAL PRIMARY KEY, '),
  identity: same('id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, '),
  random: same('id UUID PRIMARY KEY DEFAULT gen_random_uuid(), '),
  moment: same('at TIMESTAMPTZ PRIMARY KEY DEFAULT clock_timestamp(), '),
};

const forms = {
  columns: 'ext TEXT, n INT',
  document: `data JSONB, ext TEXT GENERATED ALWAYS AS (data ->> 'ext') STORED, n INT GENERATED ALWAYS AS ((data ->> 'n')::int) STORED`,
} as const;

/** Statements after CREATE TABLE. */
const constraints: Readonly<Record<string, (table: string) => string>> = {
  unique: (table) => `ALTER TABLE ${table} ADD UNIQUE (ext)`,
  deferred: (table) => `ALTER TABLE ${table} ADD UNIQUE (ext) DEFERRABLE INITIALLY DEFERRED`,
  expression: (table) => `CREATE UNIQUE INDEX ON ${table} (lower(ext))`,
  partial: (table) => `CREATE UNIQUE INDEX ON ${table} (ext) WHERE n = 1`,
  exclude: (table) => `ALTER TABLE ${table} ADD EXCLUDE USING btree (ext WITH =)`,
  check: (table) => `ALTER TABLE ${table} ADD CHECK (ext <> 'bad')`,
  filled: (table) => `ALTER TABLE ${table} ALTER ext SET NOT NULL`,
  foreign: (table) => `ALTER TABLE ${table} ADD FOREIGN KEY (n) REFERENCES parent`,
  raised: (table) => `CREATE TRIGGER guard BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION guard()`,
  audited: (table) =>
    `CREATE TRIGGER audit AFTER INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION audit('${table}')`,
};

const documents = [
  { k: 1, ext: 'a', n: 1 },
  { k: 2, ext: 'a', n: 1 },
  { k: 3, ext: 'bad', n: 1 },
  { k: 4, ext: null, n: 2 },
  { k: 5, ext: 'b', n: 99 },
  { k: 6, ext: 'c', n: 'x' },
  { k: 7, ext: 'd', n: 2 },
  { k: 7, ext: 'e', n: 2 },
] as const;

interface Case {
  readonly name: string;
  readonly form: keyof typeof forms;
  readonly key: Key;
  readonly constraint: string;
}

const cases: readonly Case[] = Object.entries(keys).flatMap(([of, key]) =>
  (['columns', 'document'] as const).flatMap((form) =>
    Object.keys(constraints).map((constraint) => ({
      name: `${form}_${of}_${constraint}`,
      form,
      key,
      constraint,
    })),
  ),
);

/** Ways into a table, whose name ends with it. A twin is the table in which PostgreSQL alone says what it takes. */
const ways = ['each', 'together', 'events', 'lines'] as const;

const textOf = ({ k, ...rest }: (typeof documents)[number], { key }: Case): string =>
  JSON.stringify(key.named === true ? { k, ...rest } : rest);

async function make(client: Client, { name, form, key, constraint }: Case): Promise<void> {
  const columns = `(${key[form]}${forms[form]})`;
  const more = constraints[constraint];
  assert(more !== undefined);
  const made = ways.flatMap((way) => {
    const batched = way === 'lines' ? ', is_batched = true' : '';
    const made = [
      `CREATE TABLE ${name}_${way} ${columns} WITH (connector = 'webhook'${form === 'document' ? `, document = 'data'` : ''}${batched})`,
      more(`${name}_${way}`),
    ];
    const twin = `twin_${name}_${way}`;
    return way === 'each' || way === 'lines'
      ? [...made, `CREATE TABLE ${twin} ${columns}`, more(twin)]
      : made;
  });
  await client.query(made.join(';'));
}

/** As the documentation says that a row is stored: it replaces the one of its key. */
function insertInto(table: string, { form, key }: Case): string {
  const [columns, values] =
    form === 'document' ? ['data', '$1::jsonb'] : [`${key.named === true ? 'k, ' : ''}ext, n`, `r.*`];
  const from =
    form === 'document'
      ? ''
      : ` FROM jsonb_to_record($1) AS r (${key.named === true ? 'k INT, ' : ''}ext TEXT, n INT)`;
  const set = columns
    .split(', ')
    .map((column) => `${column} = excluded.${column}`)
    .join(', ');
  return `INSERT INTO ${table} (${columns}) SELECT ${values}${from}${key.named === true ? ` ON CONFLICT (k) DO UPDATE SET ${set}` : ''}`;
}

/** Whether PostgreSQL takes the row. */
async function takes(client: Client, sql: string, text: string): Promise<boolean> {
  try {
    await client.query(sql, [text]);
    return true;
  } catch (error) {
    assert.match(String((error as { code?: string }).code), /^(?:22|23|P0)/, String(error));
    return false;
  }
}

async function rowsOf(client: Client, table: string, { form }: Case): Promise<readonly string[]> {
  const row = form === 'document' ? 'data' : 'jsonb_build_array(ext, n)';
  const { rows } = await client.query<{ row: string }>(
    `SELECT (${row})::text AS row FROM ${table} ORDER BY 1`,
  );
  return rows.map((it) => it.row);
}

async function compare(headgate: Headgate, client: Client, it: Case): Promise<void> {
  const { name } = it;
  const texts = documents.map((document) => textOf(document, it));
  const post = async (way: (typeof ways)[number], body: string) =>
    headgate.post(`dev/public/${name}_${way}`, body);
  const expected: number[] = [];
  for (const text of texts)
    expected.push((await takes(client, insertInto(`twin_${name}_each`, it), text)) ? 200 : 422);

  const found: number[] = [];
  for (const text of texts) found.push((await post('each', text)).status);
  assert.deepEqual(found, expected, `${name}, each`);
  const rows = await rowsOf(client, `twin_${name}_each`, it);
  assert.deepEqual(await rowsOf(client, `${name}_each`, it), rows, `${name}, each`);

  // In which order they are stored is open; of the key 7 the last one stays.
  const some = texts.slice(0, 7);
  const together = await Promise.all(some.map(async (text) => (await post('together', text)).status));
  const stored = (statuses: readonly number[]): number => statuses.filter((status) => status === 200).length;
  assert.deepEqual(new Set(together), new Set(expected.slice(0, 7)), `${name}, together`);
  assert.equal(stored(together), stored(expected.slice(0, 7)), `${name}, together`);

  if (it.form === 'columns') {
    const url = `${headgate.gatewayUrl}/v1/events?name=${name}_events&database=dev${it.key.named === true ? '&on_conflict=update' : ''}`;
    const events: number[] = [];
    for (const body of texts) events.push((await asked(url, { method: 'POST', body })).status);
    const refusedAs = events.find((status) => status !== 200);
    assert(
      refusedAs === undefined || refusedAs === 400 || refusedAs === 422,
      `${name}, events: ${events.join()}`,
    );
    assert.deepEqual(
      events.map((status) => (status === 200 ? 200 : 422)),
      expected,
      `${name}, events`,
    );
    assert.deepEqual(await rowsOf(client, `${name}_events`, it), rows, `${name}, events`);
  }

  // All lines or none: PostgreSQL names the first that it refuses after those before it, or at COMMIT none.
  const lines = texts.filter((_, i) => documents[i]?.n !== 'x');
  let first = 0;
  await client.query('BEGIN');
  while (
    first < lines.length &&
    (await takes(client, insertInto(`twin_${name}_lines`, it), lines[first] ?? ''))
  )
    first += 1;
  await client.query('ROLLBACK');
  const { status, text } = await post('lines', lines.join('\n'));
  const said = /^line (\d+): /.exec((JSON.parse(text) as { error?: string }).error ?? '')?.[1];
  const isTaken = first === lines.length && it.constraint !== 'deferred';
  assert.equal(status, isTaken ? 200 : 422, `${name}, lines: ${text}`);
  // What runs after all rows of a COPY names none of them.
  const isAfter = it.constraint === 'foreign' || it.constraint === 'audited';
  const isNamed = first < lines.length && !(isAfter && it.form === 'document' && said === undefined);
  if (isNamed) assert.equal(said, String(first + 1), `${name}, lines: ${text}`);
  if (isTaken) return;
  assert.deepEqual(await rowsOf(client, `${name}_lines`, it), [], `${name}, lines`);
}

test(
  'documents are stored and refused as PostgreSQL does it, whatever the key and the constraint',
  { timeout: 600_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE parent (n INT PRIMARY KEY); INSERT INTO parent VALUES (1), (2);
      CREATE TABLE seen (place TEXT, ext TEXT, PRIMARY KEY (place, ext));
      CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.n = 1 AND TG_NARGS = 0 THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
      CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO seen VALUES (TG_ARGV[0], NEW.ext); RETURN NULL; END $$`);
    for (const it of sampleOf(cases, 20)) {
      await make(client, it);
      await compare(headgate, client, it);
    }
  },
);
