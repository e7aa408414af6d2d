/**
 * The options `version`, `version_equal` and `version_window`: which row is the newest. Takes their values, returns what the catalog stores.
 * Refuses (22023) with their position; whether the table has such columns is found out when PostgreSQL has it. Pure.
 */
import { parseNewest, parseNewestWindow, printNewest } from '../types/newest.ts';
import type { NewestPlace } from '../types/newest.ts';
import { StatementError } from './cursor.ts';
import type { Option } from './options.ts';

const hint =
  "The forms are: version = 'updated_at', 'header:x-version', '$.object.updated_at::timestamptz' (or ::numeric, ::text, ::pg_lsn), or 'off'; several, with commas between, are compared one after the other.";

export function versionValue({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'off') return 'off';
  const places = parseNewest(value);
  if (places === null)
    throw new StatementError('22023', `version "${value}" is no place in a row`, valueAt, { hint });
  return printNewest(places);
}

export function versionWindowValue({ value, valueAt }: Option): string {
  if (parseNewestWindow(value) !== null) return value.trim().toLowerCase();
  throw new StatementError('22023', `version_window "${value}" is not known`, valueAt, {
    hint: "For example '30 days' or '12 hours'; from one minute to 3650 days.",
  });
}

/** The same for headgate.refuse_unversioned(), which knows the table's columns; null: rows have no version, or the one of before. */
export function placesOf(version: string | undefined): readonly NewestPlace[] | null {
  return version === undefined || version === 'off' ? null : parseNewest(version);
}
