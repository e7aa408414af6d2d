/**
 * What a table looks like to a writer of rows. Takes what PostgreSQL's own catalog says of it (relations-sql.ts); returns a Shape and whose
 * session stores the rows, or says why rows cannot be written. Pure.
 */
import type { Code } from '../types/target.ts';
import type { Column, KeyColumn, Shape } from '../types/shape.ts';
import { loginStatements, ownerLoginPrefix } from '../engine/login-names.ts';
import type { CodeRow, ColumnRow, RelationRow } from './relations-sql.ts';

/** pg_type.oid */
export const typeOids = {
  bytea: 17,
  int8: 20,
  text: 25,
  oid: 26,
  json: 114,
  varchar: 1043,
  jsonb: 3802,
} as const;

export interface ShapeChoice {
  /** What to do with a key that already exists; null: replace the row if there is a key to find it by. */
  readonly writeMode: 'insert' | 'upsert' | 'ignore' | null;
  /** The column that takes the whole document; null: its keys fill the columns. */
  readonly document: string | null;
  /** Columns that are written in addition to the document. */
  readonly includes: readonly string[];
  /** Columns that no request fills; absent: none. */
  readonly private?: readonly string[];
  /** Whether columns of the key that a sequence fills are private, too: its next number may be one that a request has named. */
  readonly numbersRows?: boolean;
  readonly onTypeError: Shape['onTypeError'];
}

/** The shape, or in one line why rows cannot be written. */
export function toShape(row: RelationRow, choice: ShapeChoice): Shape | string {
  const { document, includes, onTypeError } = choice;
  const columns = row.columns.filter(
    (column) =>
      column.writable &&
      choice.private?.includes(column.name) !== true &&
      (includes.includes(column.name) ||
        (document === null
          ? !(choice.numbersRows === true && isNumbered(row, column))
          : column.name === document)),
  );
  if (columns.length === 0) return 'the table has no column that a row could fill';
  const key = keyOf(row, columns);
  if (typeof key === 'string') return key;
  const [only] = columns;
  const plain = choice.writeMode === null && document !== null && columns.length === 1 && key.length === 0;
  const appends = plain && only?.base === typeOids.jsonb ? 'documents' : 'insert';
  return {
    version: row.version,
    writeMode: choice.writeMode ?? (key.length > 0 ? 'upsert' : appends),
    columns: columns.map((column) => toColumn(column, document)),
    key,
    document,
    onTypeError,
    ...(key.length === 0 && row.key.length > 0 && { filledKey: row.key }),
    ...(row.distributed && { distributedByCitus: true }),
  };
}

/** Whether a sequence fills this column of the key, as headgate.is_numbered() has it. */
function isNumbered({ key }: RelationRow, { place, fallback }: ColumnRow): boolean {
  return key.includes(place) && fallback?.includes('nextval(') === true;
}

function toColumn({ name, type, base, fallback }: ColumnRow, document: string | null): Column {
  // A row of a document table always has its document.
  return { name, type, baseType: base, fallback: name === document ? null : fallback };
}

/** Also empty if the rows do not contain their key, as with an identity column: then each row is new. */
function keyOf(row: RelationRow, written: readonly ColumnRow[]): readonly KeyColumn[] | string {
  const places = new Set(written.map(({ place }) => place));
  const key: KeyColumn[] = [];
  for (const [i, place] of row.key.entries()) {
    const known = row.equalities[i];
    const equality = known === undefined ? {} : { equality: known };
    const column = row.columns.find((it) => it.place === place);
    if (column === undefined) return [];
    const { name, generated, reads } = column;
    if (places.has(place)) {
      key.push({ name, generated: null, ...equality });
      continue;
    }
    if (generated === null) return [];
    const unwritten = reads.find((it) => !places.has(it));
    if (unwritten !== undefined) {
      const other = row.columns.find((it) => it.place === unwritten)?.name ?? '';
      return `the primary key's column "${name}" is computed from "${other}", which no row fills`;
    }
    key.push({ name, generated, ...equality });
  }
  return key;
}

export interface CodeChoice {
  /** For a gateway, as a client of the database: whether its engine lets it have sessions of owners; null: as the database says. */
  readonly asClient?: { readonly logins: boolean | null };
  /** What the login of an owner has for a password, as PostgreSQL stores it; absent: not known here. */
  readonly verifier?: ((login: string) => string) | undefined;
}

/** Whose session stores rows of this relation, or in one line why none can. */
export function toCode(
  { schema_name, table_name, code }: RelationRow,
  choice: CodeChoice = {},
): Code | string {
  const { owner, owner_name: ownerName, writer, role, superuser, inert } = code;
  const of = { owner, ownerName, writer, inert, schemaTrusted: code.schema_trusted, functionsIn: null };
  const withCode = sessionForCode(code, choice);
  // A superuser's session stores rows of others in no case.
  if (inert && (code.apart || !superuser || ownerName === role))
    return { ...of, as: 'writer', deletesAs: withCode ?? 'writer' };
  const name = `"${schema_name}"."${table_name}"`;
  if (withCode === 'owner' && choice.asClient !== undefined && code.asks && !superuser)
    return `rows of ${name} run code of its owner "${ownerName}", in whose session the row-level security for role "${writer}" would not apply`;
  if (withCode !== null) return { ...of, as: withCode, deletesAs: withCode };
  const why = inert ? 'belong to role' : 'run code of its owner';
  if (choice.asClient?.logins === false)
    return `rows of ${name} ${why} "${ownerName}", which role "${role}" does not run: send them to a Headgate that serves the database, or log in as "${ownerName}"`;
  const login = `${ownerLoginPrefix}${owner}`;
  return `rows of ${name} ${why} "${ownerName}", for which role "${role}" cannot log in: let a superuser run ${loginStatements(login, ownerName, choice.verifier?.(login) ?? null)}`;
}

/** Whose session stores rows that run code; null: nobody's. */
function sessionForCode(code: CodeRow, { asClient }: CodeChoice): 'headgate' | 'owner' | null {
  // An owner who could act as Headgate's role anyway gains nothing in its session, if that has no more rights than any client.
  if (code.owner_name === code.role || (code.trusted && !code.superuser)) return 'headgate';
  return (asClient?.logins ?? code.loginable) ? 'owner' : null;
}
