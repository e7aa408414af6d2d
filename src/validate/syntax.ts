/** The syntax tree: what the parser found, in this room's own terms. */
import { type TypeName } from './types.ts';

/** What the parser found, in this room's own terms; `at` is an index into the expression's text. */
export type Syntax = { readonly at: number } & (
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'null' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Syntax[] }
  | { readonly kind: 'operator'; readonly name: string; readonly args: readonly Syntax[] }
  | { readonly kind: 'cast'; readonly arg: Syntax; readonly type: TypeName }
  | { readonly kind: 'and' | 'or'; readonly args: readonly Syntax[] }
  | { readonly kind: 'not'; readonly arg: Syntax }
  | {
      readonly kind: 'case';
      readonly subject: Syntax | null;
      readonly branches: readonly Branch[];
      readonly otherwise: Syntax | null;
    }
  | { readonly kind: 'coalesce' | 'greatest' | 'least'; readonly args: readonly Syntax[] }
  | { readonly kind: 'nullif'; readonly args: readonly [Syntax, Syntax] }
  | { readonly kind: 'test'; readonly test: TestWord; readonly negated: boolean; readonly arg: Syntax }
  | {
      readonly kind: 'in';
      readonly negated: boolean;
      readonly left: Syntax;
      readonly items: readonly Syntax[];
    }
  | { readonly kind: 'between'; readonly negated: boolean; readonly args: readonly [Syntax, Syntax, Syntax] }
  | {
      readonly kind: 'any';
      readonly name: string;
      readonly all: boolean;
      readonly left: Syntax;
      readonly array: Syntax;
    }
  | { readonly kind: 'distinct'; readonly negated: boolean; readonly args: readonly [Syntax, Syntax] }
  | { readonly kind: 'array'; readonly items: readonly Syntax[] }
);

export type TestWord = 'null' | 'true' | 'false' | 'unknown';
export type SyntaxOf<K extends Syntax['kind']> = Extract<Syntax, { kind: K }>;

export interface Branch {
  readonly when: Syntax;
  readonly result: Syntax;
}

/** The parser's spellings of the types that are known here. */
export const typeSpellings: ReadonlyMap<string, TypeName> = new Map<string, TypeName>([
  ['text', 'text'],
  ['varchar', 'text'],
  ['bytea', 'bytea'],
  ['jsonb', 'jsonb'],
  ['bool', 'bool'],
  ['boolean', 'bool'],
  ['int4', 'int4'],
  ['int8', 'int8'],
  ['numeric', 'numeric'],
  ['float8', 'float8'],
  ['timestamptz', 'timestamptz'],
  ['interval', 'interval'],
]);
