/**
 * Options of a webhook table whose texts name places in a request: as text, and as parts. Takes either, gives the other; null for a text that is
 * none. Pure.
 *
 * `dedupe`: where the id stands that a delivery keeps when it is sent again. Also `dedupe_window` and `dedupe_compare`, which go with it.
 *
 *   header:x-github-delivery            the value of a header
 *   $.event.id   $.list[0]."a b"        a text or number of the body: a JSON document, or a form
 *   $.id, $.type                        several that are the id together
 *
 * `version`: which values of a row say how new it is. Also `version_equal` and `version_window`.
 *
 *   updated_at                          a column
 *   header:x-version                    the column that INCLUDE fills from this header
 *   $.object.updated_at::timestamptz    a value of the document, or of a JSONB column ($.column.member), with the type it is compared as
 *   updated_at, sequence                several: the first decides, and the next one where it is equal
 */
import { hash } from 'node:crypto';
import { limits } from '../config/limits.ts';

/** A place in a request: a header, in lower case, or a value of the body. */
export type DeliveryPart = { readonly header: string } | { readonly path: readonly (string | number)[] };

/** What tells a repeated delivery from a new one. */
export interface Dedupe {
  /** All of them together are the id; `headers` are the headers that it, or `compare`, names. */
  readonly parts: readonly DeliveryPart[];
  readonly headers: ReadonlySet<string>;
  /** How long an id is remembered, in seconds. */
  readonly windowS: number;
  /** The parts as text. */
  readonly shown: string;
  /** What a copy has in common with the delivery besides the id; absent: its whole body. */
  readonly compare?: 'id' | readonly DeliveryPart[];
}

const part =
  /\s*(?:header:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|\$((?:\.[A-Za-z_][\w-]*|\."(?:[^"\\]|\\.)*"|\[\d{1,6}\])+))\s*(?:,|$)/y;
const step = /\.([A-Za-z_][\w-]*)|\.("(?:[^"\\]|\\.)*")|\[(\d+)\]/g;

/** null: the text is none. */
export function parseDeliveryId(text: string): readonly DeliveryPart[] | null {
  if (text.length > limits.deliveryIdTextCharsMax || /,\s*$/.test(text)) return null;
  const parts: DeliveryPart[] = [];
  part.lastIndex = 0;
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (found === null || parts.length === limits.deliveryIdPartsMax) return null;
    const [, header, path] = found;
    if (header !== undefined) parts.push({ header: header.toLowerCase() });
    else {
      const steps = stepsOf(path ?? '');
      if (steps === null) return null;
      parts.push({ path: steps });
    }
  }
  return parts.length === 0 ? null : parts;
}

/** null: the text is none. */
function stepsOf(path: string): readonly (string | number)[] | null {
  try {
    return [...path.matchAll(step)].map(([, bare, quoted, index]) =>
      index !== undefined ? Number(index) : (bare ?? (JSON.parse(quoted ?? '') as string)),
    );
  } catch {
    return null;
  }
}

export function printDeliveryId(parts: readonly DeliveryPart[]): string {
  return parts.map((it) => ('header' in it ? `header:${it.header}` : printPath(it.path))).join(', ');
}

/** As `stepsOf` reads it, after a `$`. */
function printPath(path: readonly (string | number)[]): string {
  return `$${path.map(printStep).join('')}`;
}

function printStep(it: string | number): string {
  if (typeof it === 'number') return `[${it}]`;
  return /^[A-Za-z_][\w-]*$/.test(it) ? `.${it}` : `.${JSON.stringify(it)}`;
}

/** 32 hexadecimal digits of a SHA-256. */
export function digest(of: string | Buffer): string {
  return hash('sha256', of, 'hex').slice(0, 32);
}

/** The id of another delivery, which is the same for the same parts. */
export function derived(...parts: readonly string[]): string {
  return digest(parts.join());
}

const unitSeconds = { second: 1, minute: 60, hour: 3_600, day: 86_400 } as const;

/** `7 days` in seconds; null: the text is none, or beyond the bounds. */
export function parseWindow(
  text: string,
  minS: number = limits.dedupeWindowMinS,
  maxS: number = limits.dedupeWindowMaxS,
): number | null {
  const [, count, unit] = /^(\d{1,9}) ?(second|minute|hour|day)s?$/i.exec(text.trim()) ?? [];
  if (count === undefined || unit === undefined) return null;
  const seconds = Number(count) * unitSeconds[unit.toLowerCase() as keyof typeof unitSeconds];
  return seconds >= minS && seconds <= maxS ? seconds : null;
}

/** The option `dedupe_compare`: what a copy has in common with the delivery; undefined: its body. null: the text is none. */
export function parseCompare(text: string): Dedupe['compare'] | null {
  const word = text.trim().toLowerCase();
  if (word === 'body') return undefined;
  return word === 'id' ? 'id' : parseDeliveryId(text);
}

/** Of a table's options as they stand in the catalog; null: every request is stored. Throws where they cannot be read. */
export function dedupeOf(options: Readonly<Record<string, unknown>>): Dedupe | null {
  return isOff(options['dedupe']) ? null : readDedupe(options);
}

const isOff = (option: unknown): boolean => option === undefined || option === 'off';

function readDedupe(options: Readonly<Record<string, unknown>>): Dedupe {
  const { dedupe: given, dedupe_window: window, dedupe_compare: compared = 'body' } = options;
  const parts = typeof given === 'string' ? parseDeliveryId(given) : null;
  const windowS =
    window === undefined ? limits.dedupeWindowS : typeof window === 'string' ? parseWindow(window) : null;
  const compare = typeof compared === 'string' ? parseCompare(compared) : null;
  if (parts === null || windowS === null || compare === null)
    throw new Error('its option dedupe, dedupe_window or dedupe_compare cannot be read');
  const places = [...parts, ...(typeof compare === 'object' ? compare : [])];
  const headers = new Set(places.flatMap((it) => ('header' in it ? [it.header] : [])));
  const dedupe = { parts, windowS, headers, shown: printDeliveryId(parts) };
  return compare === undefined ? dedupe : { ...dedupe, compare };
}

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
  return isOff(options['version']) ? null : readNewest(options);
}

function readNewest(options: Readonly<Record<string, unknown>>): NewestOption {
  const { version, version_equal: equal = 'stale', version_window: window } = options;
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
