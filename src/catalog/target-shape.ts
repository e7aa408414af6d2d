/**
 * Whether a webhook table still fits what it was created for: its columns as requests fill them, and which rows replace others. Pure: takes a row of the
 * catalog, returns the shape, or in one line why it does not fit.
 */
import type { Intake } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { newestOf } from '../types/table-options.ts';
import { toNewest } from '../relations/newest.ts';
import { toCode, toShape, typeOids } from '../relations/shape.ts';
import { formatOf } from './catalog-rows.ts';
import type { CatalogRow } from './catalog-rows.ts';

/** The types that a column for the whole body may have, by the body's format. */
const bodyTypes: { readonly [format in Intake['format']]: readonly number[] } = {
  json: [typeOids.jsonb, typeOids.json],
  form: [typeOids.jsonb, typeOids.json],
  text: [typeOids.text, typeOids.varchar],
  bytes: [typeOids.bytea],
};

/** null: the table fits what it was created for, as far as that does not depend on Headgate's settings. */
export function shapeProblem(row: CatalogRow): string | null {
  const shape = shapeOf(row);
  const code = toCode(row, {});
  return typeof shape === 'string' ? shape : typeof code === 'string' ? code : null;
}

/** A text: why the table does not fit. */
export function shapeOf(row: CatalogRow): Shape | string {
  if (row.takes_document) {
    const column = row.columns.find(({ name }) => name === row.document);
    if (column === undefined) return 'the column that takes the body is gone';
    const types = bodyTypes[formatOf(row.options)];
    if (!types.includes(column.base) || !column.writable)
      return `the column "${column.name}", which takes the body, is of type ${column.type}`;
  }
  const includes = row.includes.map(({ column }) => column);
  const shape = toShape(row, {
    writeMode: (row.target ?? null) === null ? null : 'insert',
    document: row.takes_document ? row.document : null,
    includes,
    private: row.private ?? [],
    onTypeError: row.options['on_type_error'] === 'null' ? 'null' : 'reject',
  });
  if (typeof shape === 'string') return shape;
  if (shape.columns.every(({ name }) => includes.includes(name)))
    return 'no column of the table takes the body any more';
  return collectProblem(row, shape) ?? newestShape(row, shape);
}

/** Which rows replace others, with the option `version`. */
function newestShape(row: CatalogRow, shape: Shape): Shape | string {
  let option: ReturnType<typeof newestOf>;
  try {
    option = newestOf(row.options);
  } catch (error) {
    return (error as Error).message;
  }
  if (option === null) return shape;
  const headerColumn = (name: string) =>
    row.includes.find(({ what, header }) => what === 'header' && header?.toLowerCase() === name)?.column;
  const document = row.takes_document ? row.document : null;
  const newest = toNewest(option, { row, shape, document, headerColumn });
  return typeof newest === 'string' ? newest : { ...shape, newest };
}

function collectProblem({ options, collect }: CatalogRow, shape: Shape): string | null {
  if (options['on_unknown'] !== 'collect') return null;
  if (collect === null) return 'the column that takes keys which are no columns is gone';
  const column = shape.columns.find(({ name }) => name === collect);
  const fits = column !== undefined && bodyTypes.json.includes(column.baseType);
  return fits ? null : `the column "${collect}", which takes keys that are no columns, is no JSONB any more`;
}

/** For a table whose requests are all answered 503. */
export function unusableShape(version: string): Shape {
  return { version, writeMode: 'insert', columns: [], key: [], document: null, onTypeError: 'reject' };
}
