/** One row of the table of settings (settings.ts), and the parsers that several rows share. Pure. */
export type Parse<T> = (text: string) => T;

export interface Setting<T> {
  readonly env: string;
  /** Command-line flag without the dashes; null: environment only, because `ps` would show a secret. */
  readonly flag: string | null;
  readonly value: string;
  readonly default: T;
  readonly parse: Parse<T>;
  readonly help: string;
  /** `headgate config` shows it as ***. */
  readonly secret: boolean;
  /** A second name of the variable, used when the first is not set; null: none. */
  readonly alias: string | null;
}

/** The text of a setting cannot be used; the message says what would be accepted. */
export class BadSetting extends Error {}

export const text: Parse<string> = (t) => {
  if (t === '') throw new BadSetting('must not be empty');
  return t;
};
export const integer =
  (min: number, max: number): Parse<number> =>
  (t) => {
    if (!/^\d{1,15}$/.test(t) || Number(t) < min || Number(t) > max) {
      throw new BadSetting(`must be a whole number from ${min} to ${max}`);
    }
    return Number(t);
  };
export const port = integer(0, 65_535);
export const oneOf =
  <const T extends string>(...words: T[]): Parse<T> =>
  (t) => {
    const word = words.find((w) => w === t);
    if (word === undefined) throw new BadSetting(`must be one of ${words.join(', ')}`);
    return word;
  };
export const bool: Parse<boolean> = (t) => {
  if (/^(1|true|on|yes)$/i.test(t)) return true;
  if (/^(0|false|off|no)$/i.test(t)) return false;
  throw new BadSetting('must be true or false');
};

/** host:port of each, separated by commas. */
export const hosts: Parse<readonly string[]> = (text) => {
  const words = text.split(',').map((word) => word.trim().toLowerCase());
  if (!words.every((word) => /^([a-z0-9._-]+|\[[0-9a-f:.]+\]):\d{1,5}$/.test(word)))
    throw new BadSetting('must contain hosts with their ports, such as rw.example.com:4566');
  return words;
};

export const setting = <T>(
  flag: string | null,
  env: string,
  value: string,
  fallback: T,
  parse: Parse<NoInfer<T> & {}>,
  help: string,
  secret = false,
  alias: string | null = null,
): Setting<T> => ({ flag, env, value, default: fallback, parse: parse as Parse<T>, help, secret, alias });
