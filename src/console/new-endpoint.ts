/**
 * The statements of the wizard: a table with its secret in one transaction, so that a failure leaves neither; whether its names are free; and
 * how far the endpoint has come, so that an interrupted wizard goes on. Takes what was chosen, returns SQL. Pure.
 */
import { expressionOf } from './custom-hmac.ts';
import type { HmacForm } from './custom-hmac.ts';
import { identifier, literal, qualified, textOf } from './quote.ts';
import { createSecret } from './statements.ts';
import type { TableRef } from './statements.ts';

/** `learned`: the sender brings it with its first question, within ten minutes. */
export type NewSecret =
  | { readonly kind: 'new'; readonly name: string; readonly value: string }
  | { readonly kind: 'learned'; readonly name: string }
  | { readonly kind: 'existing'; readonly schema: string; readonly name: string };

export interface NewEndpoint {
  readonly table: string;
  /** null: anybody may write. */
  readonly check:
    | { readonly kind: 'sender'; readonly id: string }
    | { readonly kind: 'hmac'; readonly form: HmacForm }
    | null;
  readonly secret: NewSecret;
  /** A second one, for the sender's question. */
  readonly answer: { readonly name: string; readonly value: string } | null;
  /** Columns for the event's name and the delivery's id, and INCLUDE clauses for them, as SQL. */
  readonly columns: readonly string[];
  readonly includes: readonly string[];
  readonly format: 'json' | 'form' | 'text';
  /** A repeated delivery is stored once, by the id that the sender is known to send. */
  readonly once: boolean;
  /** Requests are kept on the disk while the database is away. */
  readonly spool: boolean;
  readonly arrival: boolean;
  /** All headers and the raw body, with which a request can be sent again. */
  readonly whole: boolean;
}

const bytesMax = 63;
const encoder = new TextEncoder();

/** Cut so that all of it is a name; PostgreSQL would cut it silently. */
export function nameWith(name: string, ending: string): string {
  let start = name;
  while (encoder.encode(`${start}${ending}`).length > bytesMax)
    start = Array.from(start).slice(0, -1).join('');
  return `${start}${ending}`;
}

/** Why no table can have this name; null: one can. */
export function problemOfName(name: string): string | null {
  if (name === '') return 'A table needs a name.';
  const { length } = encoder.encode(name);
  if (length > bytesMax) return `The name has ${length} bytes; PostgreSQL allows ${bytesMax}.`;
  return name.includes('\0') ? 'A name holds no zero byte.' : null;
}

function checkOf({ check, secret, answer }: NewEndpoint): readonly string[] {
  if (check === null) return [];
  const name = secret.kind === 'existing' ? qualified(secret.schema, secret.name) : identifier(secret.name);
  if (check.kind === 'sender') {
    const second = answer === null ? '' : ` ANSWER SECRET ${identifier(answer.name)}`;
    return [`  VALIDATE SECRET ${name} USING ${identifier(check.id)}${second}`];
  }
  const expression = expressionOf(check.form, identifier(secret.name)).replaceAll('\n', '\n  ');
  return [`  VALIDATE SECRET ${name} AS\n  ${expression}`];
}

function createTable(it: NewEndpoint): string {
  const includes = [
    ...it.includes,
    ...(it.arrival ? ['INCLUDE TIMESTAMP AS received_at'] : []),
    ...(it.whole ? ['INCLUDE HEADERS AS headers', 'INCLUDE BODY AS raw'] : []),
  ];
  const columns = [it.format === 'text' ? 'data TEXT' : 'data JSONB', ...it.columns];
  const options = [
    "connector = 'webhook'",
    ...(it.format === 'json' ? [] : [`format = '${it.format}'`]),
    ...(it.once ? ["dedupe = 'sender'"] : []),
    ...(it.spool ? ["spool = 'fallback'"] : []),
  ];
  return [
    `CREATE TABLE ${identifier(it.table)} ${columns.length === 1 ? `(${columns.join('')})` : `(\n  ${columns.join(',\n  ')}\n)`}`,
    ...includes.map((include) => `  ${include}`),
    `  WITH (${options.join(', ')})`,
    ...checkOf(it),
  ].join('\n');
}

/** All of it or nothing. */
export function createEndpoint(it: NewEndpoint): string {
  const { secret, answer } = it;
  const made = [
    ...(it.check === null || secret.kind === 'existing'
      ? []
      : [
          secret.kind === 'new'
            ? createSecret(secret.name, secret.value)
            : `CREATE SECRET ${identifier(secret.name)} WITH (backend = 'meta', learn = '10 minutes')`,
        ]),
    ...(answer === null ? [] : [createSecret(answer.name, answer.value)]),
    createTable(it),
  ];
  const all = made.length === 1 ? made : ['BEGIN', ...made, 'COMMIT'];
  return `${all.join(';\n')};`;
}

/** Where a statement of the role creates what has no schema in its name. */
export const currentSchema = 'SELECT pg_catalog.current_schema()';

/** Names of tables, indexes and secrets that begin so: none of them can be created again. */
export const takenNames = (schema: string, start: string): string => `SELECT c.relname AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND starts_with(c.relname::text, ${literal(start)})
UNION ALL
SELECT x.name FROM headgate.secret x WHERE x.schema_name = ${literal(schema)} AND starts_with(x.name, ${literal(start)})
LIMIT 1000`;

/** `start`, or with the first number that makes it and its secrets free. */
export function freeName(start: string, taken: ReadonlySet<string>): string {
  const isFree = (name: string): boolean =>
    [name, ...endings.map((ending) => nameWith(name, ending))].every((it) => !taken.has(it));
  for (let n = 1; n < 1_000; n++) {
    const name = n === 1 ? start : nameWith(start, `_${n}`);
    if (isFree(name)) return name;
  }
  return start;
}

export const [secretEnding, answerEnding] = ['_secret', '_answer_secret'] as const;
const endings = [secretEnding, answerEnding];

/** A row if the role has this endpoint: whether it is checked, its columns, and its secrets with what became of them. */
export const readMade = ({ schema, table }: TableRef): string => `SELECT w.expression IS NOT NULL AS checked,
  (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS names,
  (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', x.schema_name, 'name', x.name,
     'fresh', x.created_at = w.created_at AND x.altered_at IS NULL) ORDER BY x.name) FROM headgate.secret x
   WHERE x.id IN (
     SELECT b.secret_id FROM headgate.webhook_table_secret b WHERE b.relation::oid = c.oid
     UNION SELECT b.secret_id FROM headgate.webhook_answer_secret b WHERE b.relation::oid = c.oid)) AS secrets
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND headgate.owns_table(w.relation)`;

/** One row, wherever it is: cheap for any number of rows. Of a large document its beginning. */
export function readFirst({ schema, table }: TableRef, names: readonly string[]): string {
  const column = (name: string): string =>
    names.includes(name) ? textOf(`t.${identifier(name)}`) : 'NULL::text';
  return `SELECT pg_catalog."left"(${column('data')}, 65536) AS data, ${column('event')} AS event, ${column('received_at')} AS received_at
FROM ${qualified(schema, table)} t LIMIT 1`;
}

/** The newest refusal of a table, and the newest question that its sender has asked. */
export const readRefusal = ({
  schema,
  table,
}: TableRef): string => `SELECT q.id, q.status, q.code, q.reason, q.received_at
FROM headgate.rejected_requests q
WHERE q.schema_name = ${literal(schema)} AND q.table_name = ${literal(table)}
ORDER BY q.id DESC LIMIT 1`;
export const readQuestion = ({ schema, table }: TableRef): string => `SELECT h.status, h.outcome, h.asked_at
FROM headgate.handshakes h
WHERE h.schema_name = ${literal(schema)} AND h.table_name = ${literal(table)}
ORDER BY h.id DESC LIMIT 1`;

/** Only rows of exactly this body, so that a real delivery that arrives meanwhile stays. */
export const deleteTest = ({ schema, table }: TableRef, base64: string): string =>
  `DELETE FROM ${qualified(schema, table)} WHERE raw = pg_catalog.decode(${literal(base64)}, 'base64')`;
