/**
 * Syntax to typed tree. Takes the syntax and the names in scope; returns typed nodes; refuses unknown names, functions,
 * operators and casts, and types that do not match, each with its position and what is known.
 */
import { Builder } from './build.ts';
import { typeConstruct } from './constructs.ts';
import { ExpressionError } from './errors.ts';
import { booleanOutput } from './functions-casts.ts';
import { refuseUnpinned } from './functions-signatures.ts';
import type { Node, VariableName } from './node.ts';
import { parseDecimal } from './numeric.ts';
import { resolveFunction, typeOperator } from './overloads.ts';
import { parseInt4, parseInt8 } from './scalars.ts';
import type { Syntax, SyntaxOf } from './syntax.ts';
import { printedType } from './types.ts';
import type { TypeName } from './types.ts';

const variableTypes: Readonly<Record<string, TypeName>> = {
  headers: 'jsonb',
  method: 'text',
  path: 'text',
  query: 'jsonb',
  url: 'text',
  encoded_body: 'bytea',
};

export class Typer {
  readonly build = new Builder();
  /** Names that are neither variable nor secret, with the position of the first use. */
  readonly unknownNames = new Map<string, number>();
  readonly #secrets: ReadonlySet<string>;

  constructor(secrets: readonly string[]) {
    this.#secrets = new Set(secrets);
  }

  type(syntax: Syntax): Node {
    switch (syntax.kind) {
      case 'string':
        return this.build.constant(syntax.value, 'unknown', syntax.at, [syntax.at]);
      case 'null':
        return this.build.constant(null, 'unknown', syntax.at);
      case 'boolean':
        return this.build.constant(syntax.value, 'bool', syntax.at);
      case 'number':
        return this.#number(syntax);
      case 'name':
        return this.#name(syntax);
      case 'call':
        return this.#call(syntax);
      case 'operator':
        return typeOperator(
          this.build,
          syntax.name,
          syntax.args.map((arg) => this.type(arg)),
          syntax.at,
        );
      case 'cast':
        return this.build.cast(this.type(syntax.arg), syntax.type, syntax.at);
      default:
        return typeConstruct(syntax, this);
    }
  }

  /** An expression that must be boolean here: a bare literal is read as a boolean. */
  boolean(syntax: Syntax, where: string): Node {
    const node = this.type(syntax);
    if (node.type === 'bool' || node.type === 'unknown') return this.build.coerce(node, 'bool');
    const message = `${where} must be of type boolean, not type ${printedType[node.type]}`;
    throw new ExpressionError('42804', message, syntax.at);
  }

  #number({ text, at }: SyntaxOf<'number'>): Node {
    for (const [type, parse] of [
      ['int4', parseInt4],
      ['int8', parseInt8],
      ['numeric', parseDecimal],
    ] as const) {
      try {
        return this.build.constant(parse(text), type, at);
      } catch {
        // Try the next larger type.
      }
    }
    throw new ExpressionError(
      '0A000',
      `the number ${text.slice(0, 40)} is not known in VALIDATE expressions`,
      at,
    );
  }

  #name({ name, at }: SyntaxOf<'name'>): Node {
    if (this.#secrets.has(name)) return this.build.make({ kind: 'secret', name }, 'text', at);
    const type = variableTypes[name];
    if (type !== undefined)
      return this.build.make({ kind: 'variable', name: name as VariableName }, type, at);
    if (!this.unknownNames.has(name)) this.unknownNames.set(name, at);
    return this.build.make({ kind: 'variable', name: 'payload' }, 'bytea', at);
  }

  #call(syntax: SyntaxOf<'call'>): Node {
    const { name, at } = syntax;
    const args = syntax.args.map((arg) => this.type(arg));
    if (name === 'concat') return this.#concat(args, at);
    const row = resolveFunction(
      name,
      args.map(({ type }) => type),
      at,
    );
    if (name === 'now') return this.#now(at);
    if (row.role === 'header') return this.#headerValues(args[0], at);
    const converted = args.map((arg, i) => this.build.coerce(arg, row.args[i] ?? 'text'));
    if (row.withKeysAt !== null) refuseUnpinned(row, converted);
    if (row.clock) converted.push(this.#now(at));
    return this.build.call(row, converted, at);
  }

  #headerValues(name: Node | undefined, at: number): Node {
    if (name?.kind === 'constant' && typeof name.value === 'string')
      return this.build.make({ kind: 'header', name: name.value }, 'text[]', at);
    throw new ExpressionError('0A000', 'the name of a header must be a constant in header_values()', at);
  }

  #now(at: number): Node {
    return this.build.make({ kind: 'variable', name: 'now' }, 'timestamptz', at);
  }

  #concat(args: readonly Node[], at: number): Node {
    const row = resolveFunction(
      'concat',
      args.map(() => 'text'),
      at,
    );
    const printed = args.map((arg) =>
      arg.type === 'bool'
        ? this.build.call(booleanOutput, [arg], arg.at)
        : this.build.cast(arg, 'text', arg.at),
    );
    return this.build.call(row, printed, at);
  }
}
