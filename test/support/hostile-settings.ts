/**
 * Databases whose settings change how PostgreSQL writes and reads values as text. A value that goes through text under one setting and back
 * under another, or whose zone is an abbreviation of several zones, is not what it was.
 */
import type { Client } from 'pg';
import { quoteIdentifier, quoteLiteral } from '../../src/kit/sql-text.ts';

type Settings = Readonly<Record<string, string>>;

/** For every one of these: names of another schema come first, and each value is written in the form that says least. */
const worst: Settings = {
  IntervalStyle: 'sql_standard',
  bytea_output: 'escape',
  extra_float_digits: '-15',
  array_nulls: 'off',
  standard_conforming_strings: 'off',
  escape_string_warning: 'off',
  backslash_quote: 'off',
  xmloption: 'document',
  xmlbinary: 'hex',
  quote_all_identifiers: 'on',
  transform_null_equals: 'on',
  default_transaction_isolation: 'serializable',
  search_path: 'hostile, pg_catalog, public',
};

export const hostileSettings: Readonly<Record<string, Settings>> = {
  kolkata: { DateStyle: 'SQL, DMY', TimeZone: 'Asia/Kolkata', ...worst },
  shanghai: { DateStyle: 'German', TimeZone: 'Asia/Shanghai', ...worst },
  newfoundland: { DateStyle: 'Postgres, DMY', TimeZone: '<+1230>-12:30', ...worst },
};

/** What a careless statement finds before PostgreSQL's own. Each says something else, and none fails. */
const hostileSchema = `create schema hostile; grant usage on schema hostile to public;
create function hostile.now() returns timestamptz language sql as $$ select timestamptz '2001-01-01' $$;
create function hostile.to_json(timestamptz) returns json language sql as $$ select json '"2001-01-01T00:00:00Z"' $$;
create function hostile.count(text) returns bigint language sql as $$ select 7::bigint $$;
create function hostile.encode(bytea, text) returns text language sql as $$ select ''::text $$;
create function hostile.coalesced(text, text) returns text language sql as $$ select ''::text $$;
create function hostile.pg_current_snapshot() returns pg_snapshot language sql as $$ select '1:1:'::pg_snapshot $$;
create function hostile.sooner(timestamptz, timestamptz) returns boolean language sql as $$ select true $$;
create operator hostile.< (leftarg = timestamptz, rightarg = timestamptz, function = hostile.sooner);
create operator hostile.> (leftarg = timestamptz, rightarg = timestamptz, function = hostile.sooner)`;

/** Makes `database` hostile for sessions that begin from now on. `role`: part of the settings are this role's. */
export async function makeHostile(
  client: Client,
  database: string,
  settings: Settings,
  role: string | null = null,
): Promise<void> {
  await client.query(hostileSchema);
  for (const [index, [name, value]] of Object.entries(settings).entries()) {
    const target =
      role !== null && index % 2 === 1
        ? `role ${quoteIdentifier(role)} in database ${quoteIdentifier(database)}`
        : `database ${quoteIdentifier(database)}`;
    const to = name === 'search_path' ? value : quoteLiteral(value);
    await client.query(`alter ${target} set ${name} = ${to}`);
  }
}
