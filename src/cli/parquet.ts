/**
 * Rows as a Parquet file. Takes the columns of a query and its rows, as texts written by PostgreSQL; returns pieces of the file, of which
 * the last holds the metadata, so that a truncated file cannot be read. Each column has the Parquet type that holds all its digits: a NUMERIC
 * without a precision is text. Throws PlainError for a value that the type cannot represent (`infinity`, an array of arrays).
 */
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { SchemaElement } from 'hyparquet-writer';
import { arrayTextToJson } from '../kit/array-text.ts';
import { PlainError } from '../kit/plain-error.ts';
import { plain } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';

export interface ParquetColumn {
  readonly name: string;
  /** The type's oid, and its modifier, such as the precision in `numeric(10, 2)`. */
  readonly dataTypeID: number;
  readonly dataTypeModifier: number;
}

/** The values of a row, as PostgreSQL wrote them. */
export type Cells = readonly (string | null)[];

interface ParquetKind {
  readonly what: string;
  readonly element: Omit<SchemaElement, 'name'>;
  /** The minimum and maximum of each row group are written. */
  readonly ordered: boolean;
  /** undefined: the type cannot represent the value. */
  readonly value: (text: string) => unknown;
}

/** The array types among the given oids, with the oids of their elements. */
export const arraysOf = `SELECT oid::text AS "array", typelem::text AS element FROM pg_catalog.pg_type
WHERE typcategory = 'A' AND typarray = 0 AND oid = ANY ($1::oid[])`;

export class Parquet {
  readonly #columns: readonly {
    readonly name: string;
    readonly kind: ParquetKind;
    readonly values: unknown[];
  }[];
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;
  /** Of the row group being collected. */
  #rows = 0;
  #chars = 0;

  /** `elements`: element type by array type, as oids. */
  constructor(columns: readonly ParquetColumn[], elements: ReadonlyMap<number, number>) {
    if (columns.length === 0)
      throw new PlainError('the table has no columns: a Parquet file needs at least one');
    this.#columns = columns.map(({ name, dataTypeID, dataTypeModifier }) => {
      const element = elements.get(dataTypeID);
      const kind = kindOf(element ?? dataTypeID, dataTypeModifier);
      return { name, kind: element === undefined ? kind : listOf(kind), values: [] };
    });
    const schema: SchemaElement[] = [{ name: 'root', num_children: columns.length }];
    for (const { name, kind } of this.#columns) schema.push({ name, ...kind.element }, ...childrenOf(kind));
    this.#writer = new ParquetWriter({ writer: this.#bytes, schema, createdBy: 'headgate' });
  }

  add(rows: readonly Cells[]): Buffer {
    for (const row of rows) {
      for (const [i, { name, kind, values }] of this.#columns.entries()) {
        const text = row[i] ?? null;
        const value = text === null ? null : kind.value(text);
        if (value === undefined) throw noPlace(name, kind, text ?? '');
        values.push(value);
        this.#chars += text?.length ?? 0;
      }
      this.#rows += 1;
    }
    if (this.#rows >= limits.parquetGroupRowsMax || this.#chars >= limits.parquetGroupCharsMax) this.#write();
    return this.#piece();
  }

  end(): Buffer {
    this.#write();
    // Some readers recognise JSON only by this name. If it were set before the values are written, the writer would parse them and lose digits.
    this.#writer.schema = this.#writer.schema.map((element) =>
      element.logical_type?.type === 'JSON' ? { ...element, converted_type: 'JSON' } : element,
    );
    void this.#writer.finish();
    return this.#piece();
  }

  #write(): void {
    const columnData = this.#columns.map(({ name, kind, values }) => ({
      name,
      data: values,
      statistics: kind.ordered,
    }));
    void this.#writer.write({ columnData, rowGroupSize: Math.max(1, this.#rows) });
    for (const { values } of this.#columns) values.length = 0;
    this.#rows = this.#chars = 0;
  }

  #piece(): Buffer {
    const piece = Buffer.from(this.#bytes.getBytes());
    this.#bytes.index = 0;
    return piece;
  }
}

function noPlace(name: string, { what }: ParquetKind, text: string): PlainError {
  return new PlainError(
    `column ${plain(name)} contains ${plain(text.slice(0, 40))}, which Parquet's ${what} cannot represent: export a view in which it is text`,
  );
}

const repetition_type = 'OPTIONAL';

function scalar(
  what: string,
  element: Omit<SchemaElement, 'name' | 'repetition_type'>,
  value: ParquetKind['value'],
  ordered = true,
): ParquetKind {
  return { what, element: { repetition_type, ...element }, value, ordered };
}

const text = scalar(
  'string',
  { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  String,
);
const int32 = scalar('int32', { type: 'INT32' }, Number);
const json = scalar('JSON', { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } }, String, false);
const moment = (isAdjustedToUTC: boolean): ParquetKind =>
  scalar(
    'timestamp',
    { type: 'INT64', logical_type: { type: 'TIMESTAMP', isAdjustedToUTC, unit: 'MICROS' } },
    microsOf,
  );

/** By the oids of PostgreSQL's pg_type.dat; all other types become text. */
const kinds: ReadonlyMap<number, ParquetKind> = new Map([
  [16, scalar('boolean', { type: 'BOOLEAN' }, (it) => it === 't')],
  [17, scalar('byte array', { type: 'BYTE_ARRAY' }, (it) => Buffer.from(it.slice(2), 'hex'), false)],
  [20, scalar('int64', { type: 'INT64' }, BigInt)],
  [21, int32],
  [23, int32],
  [114, json],
  [700, scalar('float', { type: 'FLOAT' }, Number)],
  [701, scalar('double', { type: 'DOUBLE' }, Number)],
  [1082, scalar('date', { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } }, daysOf)],
  [1114, moment(false)],
  [1184, moment(true)],
  [
    2950,
    scalar('UUID', { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16, logical_type: { type: 'UUID' } }, String),
  ],
  [3802, json],
]);

function kindOf(oid: number, modifier: number): ParquetKind {
  return (oid === 1700 ? decimalOf(modifier) : kinds.get(oid)) ?? text;
}

/** The precision that every reader accepts for a decimal, in digits. */
const precisionMax = 38;

/** undefined: no precision, a precision that readers do not accept, or a scale that is negative or above the precision. */
function decimalOf(modifier: number): ParquetKind | undefined {
  if (modifier < 4) return undefined;
  const precision = (modifier - 4) >> 16;
  // 11 bits, the first is the sign.
  const scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024;
  if (precision > precisionMax || scale < 0 || scale > precision) return undefined;
  const value = (it: string): bigint | undefined => {
    const [, whole = '', part = ''] = /^(-?\d+)(?:\.(\d+))?$/.exec(it) ?? [];
    return whole === '' ? undefined : BigInt(whole + part.padEnd(scale, '0'));
  };
  const size =
    precision <= 9
      ? ({ type: 'INT32' } as const)
      : precision <= 18
        ? ({ type: 'INT64' } as const)
        : ({ type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16 } as const);
  const decimal = { precision, scale };
  return scalar(
    'decimal',
    { ...size, ...decimal, converted_type: 'DECIMAL', logical_type: { type: 'DECIMAL', ...decimal } },
    value,
  );
}

type Nested = null | undefined | string | readonly Nested[];

function listOf(kind: ParquetKind): ParquetKind & { readonly of: ParquetKind } {
  return {
    what: 'list',
    of: kind,
    ordered: kind.ordered,
    element: { repetition_type, num_children: 1, converted_type: 'LIST', logical_type: { type: 'LIST' } },
    value: (it) => {
      const items = JSON.parse(
        arrayTextToJson(it, ',', (text) => JSON.stringify(text)) ?? '[[]]',
      ) as Nested[];
      const values = items.map((item) => (typeof item === 'string' ? kind.value(item) : (item ?? undefined)));
      return items.every((item, i) => item === null || (typeof item === 'string' && values[i] !== undefined))
        ? values
        : undefined;
    },
  };
}

function childrenOf(kind: ParquetKind | ReturnType<typeof listOf>): SchemaElement[] {
  if (!('of' in kind)) return [];
  return [
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', ...kind.of.element },
  ];
}

const dayMs = 86_400_000;

/** Since 1970. `2026-01-31`, `12026-01-31`, `0044-03-15 BC`; undefined: `infinity`. */
function daysOf(date: string): number | undefined {
  const [, years, month, day, bc] = /^(\d{4,})-(\d\d)-(\d\d)( BC)?$/.exec(date) ?? [];
  if (years === undefined) return undefined;
  const year = bc === undefined ? Number(years) : 1 - Number(years);
  // The calendar repeats every 400 years; Date covers fewer years than PostgreSQL.
  const cycles = Math.floor((year - 2_000) / 400);
  return Date.UTC(year - cycles * 400, Number(month) - 1, Number(day)) / dayMs + cycles * 146_097;
}

/** Since 1970. `2026-01-31 12:00:00.123456+00`; undefined: `infinity`, or after the year 294246. */
function microsOf(moment: string): bigint | undefined {
  const [, date = '', hours, minutes, seconds, part = '', bc = ''] =
    /^(\S+) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:\+00)?( BC)?$/.exec(moment) ?? [];
  const days = daysOf(date + bc);
  if (days === undefined) return undefined;
  const ofDay = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
  const micros = (BigInt(days) * 86_400n + BigInt(ofDay)) * 1_000_000n + BigInt(part.padEnd(6, '0'));
  // PostgreSQL counts from 2000, so its range ends 29 years later.
  return micros < 2n ** 63n ? micros : undefined;
}
