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
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
  transform_null_equals: 'off',
  search_path: 'pg_catalog, pg_temp',
};

function setting(settings: Readonly<Record<string, string>>, local: boolean): string {
  const calls = Object.entries(settings).map(
    ([name, value]) => `pg_catalog.set_config('${name}', ${quoteLiteral(value)}, ${local})`,
  );
  return `select ${calls.join(', ')}`;
}

/** A statement that sets all of them until the end of the transaction: a pooler may lend the session to others. */
export const plainTransaction = setting({ ...outputs, ...inputs }, true);

/** The same for as long as the session lasts, or until RESET. */
export const plainSession = setting({ ...outputs, ...inputs }, false);

/** A condition that is true and, before the first row is read, sets how the rows of its own statement are written. */
export const writtenPlainly = `(${setting(outputs, true).replace('select ', 'select pg_catalog.concat(')})) is not null`;

/**
 * For statements of clients: how results are written, as far as it changes nothing else. The order of day and month in what is read, the time zone
 * and the style of intervals stay the database's.
 */
export const madeReadable = setting(
  { DateStyle: 'ISO', bytea_output: 'hex', extra_float_digits: '1' },
  false,
);

/** Whether the session's results are written so already. */
export const isReadable = `select pg_catalog.starts_with(pg_catalog.current_setting('DateStyle'), 'ISO')
  and pg_catalog.texteq(pg_catalog.current_setting('bytea_output'), 'hex')
  and pg_catalog.int4ge(pg_catalog.current_setting('extra_float_digits')::pg_catalog.int4, 1) as plain`;
