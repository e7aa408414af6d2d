/**
 * Syntax to typed tree. Takes the syntax and the names in scope; returns typed nodes; refuses unknown names, functions,
 * operators and casts, and types that do not match, each with its position and what is known. Which row of the functions a call refers to is
 * decided as PostgreSQL decides it (parse_func.c, parse_oper.c), over the rows that exist here.
 */
import { Builder } from './build.ts';
import { ExpressionError } from './errors.ts';
import { booleanOutput } from './functions-casts.ts';
import { comparisons } from './functions-comparison.ts';
import type { Node, TypedBranch, VariableName } from './node.ts';
import { parseDecimal } from './numeric.ts';
import { parseInt4, parseInt8 } from './scalars.ts';
import type { Syntax, SyntaxOf } from './syntax.ts';
import { categoryOf, coercesImplicitly, commonType, isPreferred, printedType } from './types.ts';
import type { StaticType, TypeName } from './types.ts';
import { functionsByName, operatorsByName } from './functions.ts';
import { signature } from './function-table.ts';
import type { FunctionRow } from './function-table.ts';

const variableTypes: Readonly<Record<string, TypeName>> = {
  headers: 'jsonb',
  method: 'text',
  path: 'text',
  query: 'jsonb',
  url: 'text',
  encoded_body: 'bytea',
};

/** Whether it contains a variable or secret: PostgreSQL's IN puts all other items into one list. */
function readsName(syntax: unknown): boolean {
  if (typeof syntax !== 'object' || syntax === null) return false;
  return ('kind' in syntax && syntax.kind === 'name') || Object.values(syntax).some(readsName);
}

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
        return this.#operator(
          syntax.name,
          syntax.args.map((arg) => this.type(arg)),
          syntax.at,
        );
      case 'cast':
        return this.build.cast(this.type(syntax.arg), syntax.type, syntax.at);
      case 'and':
      case 'or':
        return this.#connective(syntax);
      case 'not':
        return this.build.make({ kind: 'not', args: [this.boolean(syntax.arg, 'NOT')] }, 'bool', syntax.at);
      case 'test':
        return this.#test(syntax);
      case 'case':
        return this.#case(syntax);
      case 'coalesce':
        return this.#coalesce(syntax);
      case 'greatest':
      case 'least':
        return this.#extreme(syntax);
      case 'nullif':
      case 'distinct':
        return this.#pair(syntax);
      case 'in':
        return this.#in(syntax);
      case 'between':
        return this.#between(syntax);
      case 'any':
        return this.#any(syntax);
      default:
        return this.#array(syntax);
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
    if (row.role === 'issued') refuseUnpinned(converted.slice(1), name);
    if (row.role === 'published') refuseUnpinned(converted.slice(0, 1), name);
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

  #operator(name: string, args: readonly Node[], at: number): Node {
    const [left, right] = args;
    if (right !== undefined && left !== undefined) {
      const header = this.#header(name, left, right);
      if (header !== null) return header;
    }
    const types = args.map(({ type }) => type);
    const row = findOperator(name, types, at);
    if (row !== null) {
      const converted = args.map((arg, i) => this.build.coerce(arg, row.args[i] ?? 'text'));
      if (row.role === 'pattern' && converted[1]?.kind !== 'constant') {
        throw new ExpressionError(
          '0A000',
          'the pattern of LIKE must be a constant in VALIDATE expressions',
          at,
        );
      }
      return this.build.call(row, converted, at);
    }
    if (name === '||' && left !== undefined && right !== undefined)
      return this.#concatenation(left, right, at);
    throw noOperator(name, types, at);
  }

  /** `text || anything` prints the other side, as PostgreSQL's anynonarray operators do. */
  #concatenation(left: Node, right: Node, at: number): Node {
    const isText = ({ type }: Node): boolean => type === 'text' || type === 'unknown';
    if ((!isText(left) && !isText(right)) || left.type === 'text[]' || right.type === 'text[]') {
      throw noOperator('||', [left.type, right.type], at);
    }
    const printed = [left, right].map((arg) => this.build.cast(arg, 'text', at));
    return this.#operator('||', printed, at);
  }

  /** `headers->>'x'`, `headers->'x'`, `headers#>>'{x}'`: one header, looked up directly in the request. */
  #header(name: string, left: Node, right: Node): Node | null {
    if (left.kind !== 'variable' || left.name !== 'headers' || right.kind !== 'constant') return null;
    let header: string | null = null;
    if (name === '->>' || name === '->') {
      header = typeof right.value === 'string' && right.type !== 'int4' ? right.value : null;
    } else if (name === '#>>' || name === '#>') {
      const path = this.build.coerce(right, 'text[]');
      const items =
        path.kind === 'constant' && Array.isArray(path.value) ? (path.value as (string | null)[]) : [];
      header = items.length === 1 ? (items[0] ?? null) : null;
    }
    return header === null
      ? null
      : this.build.make({ kind: 'header', name: header }, name.endsWith('>>') ? 'text' : 'jsonb', right.at);
  }

  /** Constants are folded, as in the planner: a FALSE makes AND false, a TRUE makes OR true, neutral ones are dropped. */
  #connective(syntax: SyntaxOf<'and' | 'or'>): Node {
    const { kind, at } = syntax;
    const args = syntax.args.map((arg) => this.boolean(arg, `argument of ${kind.toUpperCase()}`));
    return this.#joined(args, kind, at);
  }

  #joined(args: readonly Node[], kind: 'and' | 'or', at: number): Node {
    const values = args.map((arg) => (arg.kind === 'constant' ? arg.value : undefined));
    if (values.includes(kind === 'or')) return this.build.constant(kind === 'or', 'bool', at);
    const left = args.filter((_, i) => values[i] === undefined);
    if (values.includes(null)) left.push(this.build.constant(null, 'bool', at));
    const [only] = left;
    if (only === undefined) return this.build.constant(kind === 'and', 'bool', at);
    return left.length === 1 ? only : this.build.make({ kind, args: left }, 'bool', at);
  }

  #test(syntax: SyntaxOf<'test'>): Node {
    const { test, negated, at } = syntax;
    const arg = test === 'null' ? this.type(syntax.arg) : this.boolean(syntax.arg, 'argument of IS');
    return this.build.make({ kind: 'test', test, negated, args: [arg] }, 'bool', at);
  }

  #common(nodes: readonly Node[], what: string, at: number): TypeName {
    const types = nodes.map(({ type }) => type);
    const type = commonType(types);
    if (type !== null) return type;
    const printed = [...new Set(types)].map((name: StaticType) => printedType[name]).join(' and ');
    throw new ExpressionError('42804', `${what} types ${printed} cannot be matched`, at);
  }

  #case({ subject, branches, otherwise, at }: SyntaxOf<'case'>): Node {
    const value = subject === null ? null : this.type(subject);
    const tested =
      value === null ? null : value.type === 'unknown' ? this.build.coerce(value, 'text') : value;
    const whens = branches.map(({ when }) =>
      tested === null
        ? this.boolean(when, 'argument of CASE/WHEN')
        : this.#operator('=', [tested, this.type(when)], when.at),
    );
    const thens = branches.map(({ result }) => this.type(result));
    const last = otherwise === null ? this.build.constant(null, 'unknown', at) : this.type(otherwise);
    const type = this.#common([last, ...thens], 'CASE', at);
    const kept: TypedBranch[] = [];
    let final = this.build.coerce(last, type);
    for (const [i, when] of whens.entries()) {
      const result = this.build.coerce(thens[i] ?? last, type);
      if (when.kind !== 'constant') kept.push({ when, result });
      else if (when.value === true) {
        final = result;
        break;
      }
    }
    if (kept.length === 0) return final;
    const args = [...kept.flatMap(({ when, result }) => [when, result]), final];
    return this.build.make({ kind: 'case', args, branches: kept, otherwise: final }, type, at);
  }

  #coalesce(syntax: SyntaxOf<'coalesce' | 'greatest' | 'least'>): Node {
    const args = syntax.args.map((arg) => this.type(arg));
    const type = this.#common(args, 'COALESCE', syntax.at);
    const kept: Node[] = [];
    for (const arg of args.map((arg) => this.build.coerce(arg, type))) {
      if (arg.kind === 'constant' && arg.value === null) continue;
      kept.push(arg);
      if (arg.kind === 'constant') break;
    }
    const [first] = kept;
    if (first === undefined) return this.build.constant(null, type, syntax.at);
    return kept.length === 1 ? first : this.build.make({ kind: 'coalesce', args: kept }, type, syntax.at);
  }

  #extreme(syntax: SyntaxOf<'coalesce' | 'greatest' | 'least'>): Node {
    const args = syntax.args.map((arg) => this.type(arg));
    const type = this.#common(args, syntax.kind.toUpperCase(), syntax.at);
    if (!(type in comparisons)) {
      throw new ExpressionError(
        '0A000',
        `${syntax.kind} of ${printedType[type]} is not known in VALIDATE expressions`,
        syntax.at,
      );
    }
    return this.build.make(
      { kind: syntax.kind, args: args.map((arg) => this.build.coerce(arg, type)) },
      type,
      syntax.at,
    );
  }

  #pair({ kind, args, at, ...rest }: SyntaxOf<'nullif' | 'distinct'>): Node {
    const [left, right] = args.map((arg) => this.type(arg)) as [Node, Node];
    const row = findOperator('=', [left.type, right.type], at);
    if (row === null) throw noOperator('=', [left.type, right.type], at);
    const pair: [Node, Node] = [
      this.build.coerce(left, row.args[0] ?? 'text'),
      this.build.coerce(right, row.args[1] ?? 'text'),
    ];
    if (kind === 'distinct') {
      const negated = 'negated' in rest && rest.negated;
      return this.build.make({ kind, row, negated, args: pair }, 'bool', at);
    }
    // PostgreSQL keeps the type of the first argument; NULLIF that would convert it is not supported here.
    if (pair[0] !== left && left.type !== 'unknown') {
      throw new ExpressionError(
        '0A000',
        'NULLIF of different types is not known in VALIDATE expressions',
        at,
      );
    }
    // A constant NULL equals nothing: the first argument is the result, the other is not evaluated.
    const isNull = (node: Node): boolean => node.kind === 'constant' && node.value === null;
    if (pair.some(isNull)) return pair[0];
    return this.build.make({ kind, row, args: pair }, pair[0].type, at);
  }

  /** Items without variables form a list, the others an OR of equalities after it (transformAExprIn). */
  #in({ left, items, negated, at }: SyntaxOf<'in'>): Node {
    const value = this.type(left);
    const typed = items.map((item) => this.type(item));
    const operator = negated ? '<>' : '=';
    const parts = typed.map((item) => this.#operator(operator, [value, item], at));
    const isListed = items.map((item) => !readsName(item));
    const listed = typed.filter((_, i) => isListed[i]);
    const type = listed.length > 1 ? commonType([value.type, ...listed.map(({ type }) => type)]) : null;
    if (type !== null) {
      const equalities = this.#listed(operator, negated, this.build.coerce(value, type), listed, at);
      return this.#joined(
        [...equalities, ...parts.filter((_, i) => !isListed[i])],
        negated ? 'and' : 'or',
        at,
      );
    }
    return this.#joined(parts, negated ? 'and' : 'or', at);
  }

  /** Items of one list, converted to the list's common type. */
  #listed(operator: string, negated: boolean, value: Node, items: readonly Node[], at: number): Node[] {
    const { type } = value;
    const args = items.map((item) => (type === 'unknown' ? item : this.build.coerce(item, type)));
    if (type !== 'text' && args.some(({ kind }) => kind !== 'constant')) {
      throw new ExpressionError(
        '0A000',
        'this list of IN is not known in VALIDATE expressions: use constants',
        at,
      );
    }
    if (type !== 'text') return args.map((item) => this.#operator(operator, [value, item], at));
    const list = this.build.make({ kind: 'array', args }, 'text[]', at);
    return [this.#anyOf(operator, negated, value, list, at)];
  }

  #between({ negated, args, at }: SyntaxOf<'between'>): Node {
    const [value, low, high] = args.map((arg) => this.type(arg)) as [Node, Node, Node];
    const first = this.#operator(negated ? '<' : '>=', [value, low], at);
    const second = this.#operator(negated ? '>' : '<=', [value, high], at);
    return this.#joined([first, second], negated ? 'or' : 'and', at);
  }

  #any({ name, all, left, array, at }: SyntaxOf<'any'>): Node {
    const value = this.type(left);
    const items = this.type(array);
    const isText = value.type === 'text' || value.type === 'unknown';
    if ((items.type !== 'text[]' && items.type !== 'unknown') || !isText) {
      throw new ExpressionError('42809', `op ANY/ALL takes a text and an array of text here`, at);
    }
    return this.#anyOf(name, all, this.build.coerce(value, 'text'), this.build.coerce(items, 'text[]'), at);
  }

  #anyOf(name: string, all: boolean, value: Node, items: Node, at: number): Node {
    const row = findOperator(name, ['text', 'text'], at);
    if (row === null || row.result !== 'bool' || row.role === 'pattern')
      throw noOperator(name, ['text', 'text'], at);
    return this.build.make({ kind: 'any', row, all, args: [value, items] }, 'bool', at);
  }

  #array({ items, at }: SyntaxOf<'array'>): Node {
    const typed = items.map((item) => this.type(item));
    const type = typed.length === 0 ? 'text' : this.#common(typed, 'ARRAY', at);
    if (type !== 'text') {
      throw new ExpressionError(
        '0A000',
        `an array of ${printedType[type]} is not known in VALIDATE expressions`,
        at,
      );
    }
    const args = typed.map((item) => this.build.coerce(item, 'text'));
    return args.length === 0
      ? this.build.constant([], 'text[]', at)
      : this.build.make({ kind: 'array', args }, 'text[]', at);
  }
}

/** Whoever sends a token must not choose whose keys it is checked with. `args`: the URL of the keys, the issuer, the audience. */
function refuseUnpinned(args: readonly Node[], called: string): void {
  for (const [index, name] of ['jwks', 'issuer', 'audience'].slice(0, args.length).entries()) {
    const arg = args[index];
    if (arg?.kind !== 'constant' || typeof arg.value !== 'string' || arg.value === '')
      throw new ExpressionError('0A000', `${name} must be a constant in ${called}()`, arg?.at ?? null);
    if (name === 'jwks' && !/^https?:\/\/[!-~]{1,2048}$/.test(arg.value))
      throw new ExpressionError('22023', `jwks must be a URL in ${called}()`, arg.at);
  }
}

const maxBy = (rows: readonly FunctionRow[], score: (row: FunctionRow) => number): readonly FunctionRow[] => {
  const best = Math.max(...rows.map(score));
  return rows.filter((row) => score(row) === best);
};

function typeAt(row: FunctionRow, at: number): TypeName {
  return row.args[at] ?? row.args.at(-1) ?? 'text';
}

/** func_select_candidate: one row, or null when the call is ambiguous. */
function select(candidates: readonly FunctionRow[], types: readonly StaticType[]): FunctionRow | null {
  const known = types.flatMap((type, at) => (type === 'unknown' ? [] : [at]));
  const exact = (row: FunctionRow): number => known.filter((at) => typeAt(row, at) === types[at]).length;
  const fitting = (row: FunctionRow): number =>
    known.filter((at) => typeAt(row, at) === types[at] || isPreferred(typeAt(row, at))).length;
  let left = maxBy(candidates, exact);
  if (left.length > 1) left = maxBy(left, fitting);
  if (left.length === 1) return left[0] ?? null;
  if (known.length === types.length) return null;
  return selectForUnknown(left, types);
}

/** Bare literals: text if a candidate takes text, otherwise the one category that all candidates share. */
function selectForUnknown(
  candidates: readonly FunctionRow[],
  types: readonly StaticType[],
): FunctionRow | null {
  let left = candidates;
  let resolved = true;
  types.forEach((type, at) => {
    if (type !== 'unknown' || !resolved) return;
    const slots = left.map((row) => typeAt(row, at));
    const categories = new Set(slots.map(categoryOf));
    const category = categories.has('S') ? 'S' : categories.size === 1 ? [...categories][0] : undefined;
    if (category === undefined) {
      resolved = false;
      return;
    }
    const inCategory = left.filter((row) => categoryOf(typeAt(row, at)) === category);
    const preferred = inCategory.filter((row) => isPreferred(typeAt(row, at)));
    left = preferred.length > 0 ? preferred : inCategory;
  });
  if (resolved && left.length === 1) return left[0] ?? null;
  // Last resort: unknown arguments are assumed to have the type of all the known ones.
  const known = new Set(types.filter((type) => type !== 'unknown'));
  if (known.size !== 1) return null;
  const [type] = known;
  const same = candidates.filter((row) => types.every((_, at) => typeAt(row, at) === type));
  return same.length === 1 ? (same[0] ?? null) : null;
}

function takes(row: FunctionRow, count: number): boolean {
  return row.variadic ? count >= row.args.length : row.args.length === count;
}

function best(
  candidates: readonly FunctionRow[],
  types: readonly StaticType[],
  what: string,
  at: number,
): FunctionRow | null {
  const exact = candidates.find((row) => types.every((type, i) => typeAt(row, i) === type));
  if (exact !== undefined) return exact;
  const possible = candidates.filter((row) =>
    types.every((type, i) => coercesImplicitly(type, typeAt(row, i))),
  );
  if (possible.length <= 1) return possible[0] ?? null;
  const chosen = select(possible, types);
  if (chosen === null)
    throw new ExpressionError('42725', `${what} is not unique`, at, { hint: 'Add explicit casts.' });
  return chosen;
}

function refusedIfSo(row: FunctionRow, at: number): FunctionRow {
  if (row.refused !== null) throw new ExpressionError('0A000', row.refused, at);
  return row;
}

function printed(types: readonly StaticType[]): string {
  return types.map((type) => printedType[type]).join(', ');
}

function forms(rows: readonly FunctionRow[]): string {
  return rows
    .filter((row) => row.refused === null)
    .map((row) => `${signature(row, printedType)} → ${printedType[row.result]}`)
    .join('; ');
}

function resolveFunction(name: string, types: readonly StaticType[], at: number): FunctionRow {
  const named = functionsByName.get(name);
  const what = `function ${name}(${printed(types)})`;
  if (named === undefined) {
    throw new ExpressionError('42883', `${what} is not known in VALIDATE expressions`, at, {
      hint: `known here: ${[...functionsByName.keys()].sort().join(', ')}`,
    });
  }
  const row = best(
    named.filter((row) => takes(row, types.length)),
    types,
    what,
    at,
  );
  if (row === null)
    throw new ExpressionError('42883', `${what} does not exist`, at, { hint: `known here: ${forms(named)}` });
  return refusedIfSo(row, at);
}

/** The row of an operator, or null if no row takes these types. */
function findOperator(name: string, types: readonly StaticType[], at: number): FunctionRow | null {
  const named = operatorsByName.get(name);
  if (named === undefined) {
    throw new ExpressionError('42883', `operator ${name} is not known in VALIDATE expressions`, at, {
      hint: `known here: ${[...operatorsByName.keys()].join(' ')} AND OR NOT IN BETWEEN LIKE CASE`,
    });
  }
  const candidates = named.filter((row) => row.args.length === types.length);
  // A bare literal next to a known type is first assumed to have the same type.
  const [left, right] = types;
  if (left !== undefined && right !== undefined && (left === 'unknown') !== (right === 'unknown')) {
    const same = left === 'unknown' ? right : left;
    const row = candidates.find((row) => row.args.every((type) => type === same));
    if (row !== undefined) return refusedIfSo(row, at);
  }
  const row = best(candidates, types, `operator ${operation(name, types)}`, at);
  return row === null ? null : refusedIfSo(row, at);
}

function operation(name: string, types: readonly StaticType[]): string {
  return types.length === 1
    ? `${name} ${printed(types)}`
    : types.map((type) => printedType[type]).join(` ${name} `);
}

function noOperator(name: string, types: readonly StaticType[], at: number): ExpressionError {
  const known = operatorsByName.get(name) ?? [];
  return new ExpressionError('42883', `operator does not exist: ${operation(name, types)}`, at, {
    hint: `known here: ${forms(known.filter((row) => row.args.length === types.length))}`,
  });
}
