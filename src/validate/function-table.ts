/**
 * The one table of functions, operators and casts. A row contains everything about one of them: its types, how it
 * handles NULL, the implementation, the size its result may have, how it carries a secret along, and a line for the
 * reference page. Typing, compiling, the safety rules, the cost bound, error texts and docs/sql/validate.md are all
 * derived from these rows.
 */
import type { PublishedKeys } from './jwt.ts';
import { printedType, type TypeName, type Value, type ValueOf } from './types.ts';

/** An upper bound on a value's length in characters or bytes: `base + body × length of the request body`. */
export interface SizeBound {
  readonly base: number;
  readonly body: number;
}

export type Implementation = (...args: Value[]) => Value;
export type FunctionTheme =
  | 'checks'
  | 'digests'
  | 'bytes'
  | 'text'
  | 'json'
  | 'numbers'
  | 'time'
  | 'comparison'
  | 'casts'
  | 'answers';

export interface FunctionRow {
  readonly kind: 'function' | 'operator' | 'cast';
  readonly name: string;
  readonly args: readonly TypeName[];
  readonly result: TypeName;
  readonly theme: FunctionTheme;
  readonly doc: string;
  /** A strict function is NULL as soon as an argument is. */
  readonly strict: boolean;
  /** The last argument may be repeated, or omitted. */
  readonly variadic: boolean;
  readonly implementation: Implementation;
  /** Prepares for arguments that are the same for every request (undefined: not known); null: nothing to prepare. */
  readonly specialise: ((known: readonly (Value | undefined)[]) => Implementation | null) | null;
  /** The implementation with the keys that are published at the URL among its constants; null: it needs none. */
  readonly withKeysAt:
    | ((constants: readonly (Value | undefined)[], keysAt: (url: string) => PublishedKeys) => Implementation)
    | null;
  /** The same as encode(this, format) in one step, if that is faster; `known` as for `specialise`. null: it is not. */
  readonly encoded: ((known: readonly (Value | undefined)[], format: string) => Implementation | null) | null;
  /**
   * The argument whose unpredictability the result keeps if the others are constants; `any`: one of them is sufficient,
   * whatever the others are; null: none.
   */
  readonly carries: number | 'any' | null;
  readonly role: Role | null;
  readonly size: ((args: readonly SizeBound[], known: readonly (Value | undefined)[]) => SizeBound) | null;
  /** The compiler passes the time of arrival as an additional argument. */
  readonly clock: boolean;
  /** PostgreSQL declares it stable: it is not computed at CREATE, even for constants. */
  readonly stable: boolean;
  /** Exists in PostgreSQL, but not here: overload resolution must find it, to refuse it with this sentence. */
  readonly refused: string | null;
}

/**
 * `equal`, `unequal`: compared in constant time if a secret is involved. `compare`, `compareAny`: secure_compare.
 * `mac`: args[0] is a key. `hash`: a plain digest. `verify`: args[0] is a public key. `token`: args[1] is a key, NULL
 * if it does not verify. `issued`: args[1] to args[3] are constants: the URL of the issuer's keys, the issuer, the audience; NULL as for `token`. `published`: args[0] is such a URL; the result is one of the keys. `pattern`: args[1] must be a constant. `shape`: args[0] has a shape if the result is not NULL. `header`:
 * args[0] is a constant, the name of a header.
 */
export type Role =
  | 'equal'
  | 'unequal'
  | 'compare'
  | 'compareAny'
  | 'mac'
  | 'hash'
  | 'verify'
  | 'token'
  | 'issued'
  | 'published'
  | 'pattern'
  | 'shape'
  | 'header';

type More = Partial<
  Omit<FunctionRow, 'kind' | 'name' | 'args' | 'result' | 'theme' | 'doc' | 'implementation'>
>;
type ValuesOf<A extends readonly TypeName[]> = { [I in keyof A]: ValueOf[A[I]] };
type NullableOf<A extends readonly TypeName[]> = { [I in keyof A]: ValueOf[A[I]] | null };

const plain = {
  strict: true,
  variadic: false,
  specialise: null,
  withKeysAt: null,
  encoded: null,
  carries: null,
  role: null,
  size: null,
  clock: false,
  stable: false,
  refused: null,
} as const;

/** A strict row: the implementation never sees a NULL. */
export function strict<const A extends readonly TypeName[], R extends TypeName>(
  kind: FunctionRow['kind'],
  name: string,
  args: A,
  result: R,
  implementation: (...args: ValuesOf<A>) => ValueOf[R] | null,
  theme: FunctionTheme,
  doc: string,
  more: More = {},
): FunctionRow {
  const erased = implementation as unknown as Implementation;
  return { ...plain, kind, name, args, result, theme, doc, implementation: erased, ...more };
}

/** A row that handles NULLs itself. */
export function loose<const A extends readonly TypeName[], R extends TypeName>(
  name: string,
  args: A,
  result: R,
  implementation: (...args: NullableOf<A>) => ValueOf[R] | null,
  theme: FunctionTheme,
  doc: string,
  more: More = {},
): FunctionRow {
  const erased = implementation as unknown as Implementation;
  return {
    ...plain,
    strict: false,
    kind: 'function',
    name,
    args,
    result,
    theme,
    doc,
    implementation: erased,
    ...more,
  };
}

/** Strict rows of one theme; shorter to write in a file that has many. */
function rowsOf(kind: 'function' | 'operator') {
  return (theme: FunctionTheme) =>
    <const A extends readonly TypeName[], R extends TypeName>(
      name: string,
      args: A,
      result: R,
      implementation: (...args: ValuesOf<A>) => ValueOf[R] | null,
      doc: string,
      more: More = {},
    ): FunctionRow =>
      strict(kind, name, args, result, implementation, theme, doc, more);
}

export const functionsOf = rowsOf('function');
export const operatorsOf = rowsOf('operator');

/** To `specialise`: refuses a name that is given at CREATE and not supported here; `at`: its argument. */
export function checkName(check: (name: string) => unknown, at: number) {
  return (known: readonly (Value | undefined)[]): null => {
    const name = known[at];
    if (typeof name === 'string') check(name);
    return null;
  };
}

/** Results of fixed-width types, numbers and digests are small. */
export const smallSize: SizeBound = { base: 2048, body: 0 };

export function sumSizes(sizes: readonly SizeBound[]): SizeBound {
  return sizes.reduce((sum, size) => ({ base: sum.base + size.base, body: sum.body + size.body }), {
    base: 0,
    body: 0,
  });
}

export function timesSize(factor: number, extra = 16): (args: readonly SizeBound[]) => SizeBound {
  return ([size = smallSize]) => ({ base: size.base * factor + extra, body: size.body * factor });
}

/** The printed form of a row: `hmac(text, bytea, text)`. */
export function signature(row: FunctionRow): string {
  const types = row.args.map((type) => printedType[type]);
  if (row.kind === 'cast') return `${types[0]}::${printedType[row.result]}`;
  if (row.kind === 'function') return `${row.name}(${types.join(', ')}${row.variadic ? ', …' : ''})`;
  return types.length === 1 ? `${row.name} ${types[0]}` : `${types[0]} ${row.name} ${types[1]}`;
}
