/**
 * The option `version` of a webhook table: which values of a row say how new it is, as text and as parts. Takes either, gives the other;
 * null for a text that is none. Pure.
 *
 *   updated_at                          a column
 *   header:x-version                    the column that INCLUDE fills from this header
 *   $.object.updated_at::timestamptz    a value of the document, or of a JSONB column ($.column.member), with the type it is compared as
 *   updated_at, sequence                several: the first decides, and the next one where it is equal
 *
 * Also `version_equal` and `version_window`, which go with it.
 */
import { limits } from '../config/limits.ts';
import { parseWindow, printPath, stepsOf } from './delivery-id.ts';

/** What values are compared as. */
export type NewestType = 'numeric' | 'timestamptz' | 'text' | 'pg_lsn';

export type NewestPlace =
  | { readonly column: string }
  | { readonly header: string }
  | { readonly path: readonly (string | number)[]; readonly type: NewestType };

export interface NewestOption {
  readonly places: readonly NewestPlace[];
  /** A row of the same version replaces the row that is there. */
  readonly replacesEqual: boolean;
  /** How long a deleted row's version is remembered, in seconds. */
  readonly windowS: number;
}

const place =
  /\s*(?:header:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|\$((?:\.[A-Za-z_][\w-]*|\."(?:[^"\\]|\\.)*"|\[\d{1,6}\])+)::(numeric|timestamptz|text|pg_lsn)|([\p{L}_][\p{L}\p{N}_$]*)|"((?:[^"]|"")+)")\s*(?:,|$)/uy;

/** null: the text is none. */
export function parseNewest(text: string): readonly NewestPlace[] | null {
  if (text.length > limits.deliveryIdTextCharsMax || /,\s*$/.test(text)) return null;
  const places: NewestPlace[] = [];
  place.lastIndex = 0;
  while (place.lastIndex < text.length) {
    const found = place.exec(text);
    if (found === null || places.length === limits.deliveryIdPartsMax) return null;
    const [, header, path, type, bare, quoted] = found;
    if (header !== undefined) places.push({ header: header.toLowerCase() });
    else if (path !== undefined) {
      const steps = stepsOf(path);
      if (steps === null || type === undefined) return null;
      places.push({ path: steps, type: type as NewestType });
    } else places.push({ column: bare ?? quoted?.replaceAll('""', '"') ?? '' });
  }
  return places.length === 0 ? null : places;
}

export function printNewest(places: readonly NewestPlace[]): string {
  return places.map(printPlace).join(', ');
}

export function printPlace(it: NewestPlace): string {
  if ('header' in it) return `header:${it.header}`;
  if ('path' in it) return `${printPath(it.path)}::${it.type}`;
  return /^[\p{L}_][\p{L}\p{N}_$]*$/u.test(it.column) ? it.column : `"${it.column.replaceAll('"', '""')}"`;
}

/** `version_window` in seconds; null: the text is none, or beyond the bounds. */
export function parseNewestWindow(text: string): number | null {
  return parseWindow(text, limits.dedupeWindowMinS, limits.versionWindowMaxS);
}

/** Of a table's options as they stand in the catalog; null: the last writer wins. Throws where they cannot be read. */
export function newestOf(options: Readonly<Record<string, unknown>>): NewestOption | null {
  const { version, version_equal: equal = 'stale', version_window: window } = options;
  if (version === undefined || version === 'off') return null;
  const places = typeof version === 'string' ? parseNewest(version) : null;
  const windowS =
    window === undefined
      ? limits.dedupeWindowS
      : typeof window === 'string'
        ? parseNewestWindow(window)
        : null;
  if (places === null || windowS === null || (equal !== 'stale' && equal !== 'replace'))
    throw new Error('its option version, version_equal or version_window cannot be read');
  return { places, replacesEqual: equal === 'replace', windowS };
}
