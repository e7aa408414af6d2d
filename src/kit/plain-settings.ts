/**
 * The settings that decide how PostgreSQL writes a value as text, reads it again, and what a statement's own text means. A database or a role
 * may have others (ALTER DATABASE … SET, ALTER ROLE … SET): transactions of Headgate's own set these, so that a value is the same everywhere.
 * What clients send for a column is read under the database's settings, as in any other session. Pure.
 */
import { quoteLiteral } from './sql-text.ts';

/** How values are written. A value that is written so is read the same under any settings. */
const outputs: Readonly<Record<string, string>> = {
  DateStyle: 'ISO, YMD',
  TimeZone: 'UTC',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  lc_monetary: 'C',
  xmlbinary: 'base64',
};

/** How values and statements are read. */
const inputs: Readonly<Record<string, string>> = {
  array_nulls: 'on',
  xmloption: 'content',
  quote_all_identifiers: 'off',
  transform_null_equals: 'off',
  search_path: 'pg_catalog, pg_temp',
};
const strings: Readonly<Record<string, string>> = { standard_conforming_strings: 'on' };

function setting(settings: Readonly<Record<string, string>>, local: boolean): string {
  const calls = Object.entries(settings).map(
    ([name, value]) => `pg_catalog.set_config('${name}', ${quoteLiteral(value)}, ${local})`,
  );
  return `select ${calls.join(', ')}`;
}

/** A statement that sets all of them until the end of the transaction: a pooler may lend the session to others. */
export const plainTransaction = setting({ ...outputs, ...inputs, ...strings }, true);

/**
 * The same for a transaction in which expressions are printed that other sessions read: whether a backslash in a literal is one is a
 * setting of the database, which PostgreSQL prints a literal by, and which code of the database's tables relies on.
 */
export const plainPrinting = setting({ ...outputs, ...inputs }, true);

/** The same for as long as the session lasts, or until RESET. */
export const plainSession = setting({ ...outputs, ...inputs, ...strings }, false);

/** A condition that is true and, before the first row is read, sets how the rows of its own statement are written. */
export const writtenPlainly = `(${setting(outputs, true).replace('select ', 'select pg_catalog.concat(')})) is not null`;

/**
 * For statements of clients: how results are written, and the arrays among parameters, which Headgate writes, are read, as far as it changes
 * nothing else. The order of day and month in what is read, the time zone and the style of intervals stay the database's.
 */
export const madeReadable = setting(
  {
    DateStyle: 'ISO',
    bytea_output: 'hex',
    extra_float_digits: '1',
    array_nulls: 'on',
    quote_all_identifiers: 'off',
  },
  false,
);

/** Whether the session has them already. */
export const isReadable = `select pg_catalog.starts_with(pg_catalog.current_setting('DateStyle'), 'ISO')
  and pg_catalog.texteq(pg_catalog.current_setting('bytea_output'), 'hex')
  and pg_catalog.int4ge(pg_catalog.current_setting('extra_float_digits')::pg_catalog.int4, 1)
  and pg_catalog.current_setting('array_nulls')::pg_catalog.bool
  and not pg_catalog.current_setting('quote_all_identifiers')::pg_catalog.bool as plain`;
