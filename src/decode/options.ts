/**
 * The decoder option headers, `x-rw-webhook-…`: how one request, or one WebSocket connection, writes moments, times and
 * large numbers. Names and meanings are RisingWave's; as there, a header with this prefix and an unknown name is ignored, and
 * of several with the same name the first counts. May refuse with `invalid_option`.
 */
import { Refused } from '../errors/refusals.ts';

export interface DecodeOptions {
  readonly timestamp: 'milli' | 'guess';
  readonly timestamptz: 'milli' | 'micro' | 'guess' | 'utc_string' | 'utc_without_suffix';
  /** null: PostgreSQL reads the number. */
  readonly time: 'milli' | 'micro' | null;
  readonly bigintUnsigned: 'long' | 'precise';
  readonly toast: boolean;
}

export const defaultOptions: DecodeOptions = {
  timestamp: 'guess',
  timestamptz: 'guess',
  time: null,
  bigintUnsigned: 'long',
  toast: false,
};

const prefix = 'x-rw-webhook-';

/** The options that the headers ask for; `defaultOptions` itself if none of them is an option. */
export function readOptions(rawHeaders: readonly string[]): DecodeOptions {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    // Every request gets here: most names differ in their second character.
    if (name.charCodeAt(1) === 45 && name.slice(0, prefix.length).toLowerCase() === prefix)
      return parseOptions(rawHeaders);
  }
  return defaultOptions;
}

function parseOptions(rawHeaders: readonly string[]): DecodeOptions {
  const given = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (name.startsWith(prefix) && !given.has(name)) given.set(name, rawHeaders[at + 1] ?? '');
  }
  onlyKnown(given, 'format', 'format', 'plain');
  onlyKnown(given, 'encode', 'encoding', 'json');
  const timestamptz = oneOf(
    given,
    'json-timestamptz-handling-mode',
    ['micro', 'milli', 'guess_number_unit', 'utc_string', 'utc_without_suffix'],
    'invalid webhook JSON decoder option: ',
  );
  const timestamp = oneOf(given, 'json-timestamp-handling-mode', ['milli', 'guess_number_unit']);
  return {
    timestamp: timestamp === 'milli' ? timestamp : 'guess',
    timestamptz: timestamptz === null || timestamptz === 'guess_number_unit' ? 'guess' : timestamptz,
    time: oneOf(given, 'json-time-handling-mode', ['milli', 'micro']),
    bigintUnsigned: oneOf(given, 'json-bigint-unsigned-handling-mode', ['long', 'precise']) ?? 'long',
    toast: oneOf(given, 'json-handle-toast-columns', ['true', 'false']) === 'true',
  };
}

/** The longest part of a header's value that a refusal repeats, in characters. */
const shownCharsMax = 64;

function shown(value: string): string {
  return value.length > shownCharsMax ? `${value.slice(0, shownCharsMax)}…` : value;
}

function onlyKnown(given: ReadonlyMap<string, string>, name: string, word: string, known: string): void {
  const value = given.get(prefix + name);
  if (value === undefined || value.toLowerCase() === known) return;
  throw new Refused('invalid_option', `unsupported webhook payload ${word} \`${shown(value)}\``);
}

function oneOf<const T extends string>(
  given: ReadonlyMap<string, string>,
  name: string,
  known: readonly T[],
  lead = '',
): T | null {
  const value = given.get(prefix + name);
  if (value === undefined) return null;
  const word = known.find((candidate) => candidate === value);
  if (word === undefined)
    throw new Refused(
      'invalid_option',
      `${lead}unrecognized value \`${shown(value)}\` for \`${prefix}${name}\``,
    );
  return word;
}
