/**
 * The constructs of SQL that are neither functions nor operators: AND, OR and NOT, IS, CASE, COALESCE, GREATEST and LEAST, NULLIF, IS DISTINCT FROM, IN,
 * BETWEEN, ANY and ALL, ARRAY. Takes their syntax and what gives their parts types; returns typed nodes; refuses types that do not match, and forms
 * that are not supported here, each with its position. Types are resolved as in "UNION, CASE, and Related Constructs" of PostgreSQL's manual. Pure.
 */
import type { Builder } from './build.ts';
import { ExpressionError } from './errors.ts';
import { comparisons } from './functions-comparison.ts';
import type { Node, TypedBranch } from './node.ts';
import { noOperator } from './function-candidates.ts';
import { findOperator, typeOperator } from './overloads.ts';
import type { Syntax, SyntaxOf } from './syntax.ts';
import { commonType, printedType } from './types.ts';
import type { StaticType, TypeName } from './types.ts';

/** What gives the parts of a construct their types. */
export interface Typing {
  readonly build: Builder;
  type(syntax: Syntax): Node;
  /** A part that must be boolean. */
  boolean(syntax: Syntax, where: string): Node;
}

type ConstructSyntax = SyntaxOf<
  | 'and'
  | 'or'
  | 'not'
  | 'test'
  | 'case'
  | 'coalesce'
  | 'greatest'
  | 'least'
  | 'nullif'
  | 'distinct'
  | 'in'
  | 'between'
  | 'any'
  | 'array'
>;

export function typeConstruct(syntax: ConstructSyntax, typer: Typing): Node {
  switch (syntax.kind) {
    case 'and':
    case 'or':
      return typeConnective(syntax, typer);
    case 'not':
      return typer.build.make({ kind: 'not', args: [typer.boolean(syntax.arg, 'NOT')] }, 'bool', syntax.at);
    case 'test':
      return typeTest(syntax, typer);
    case 'case':
      return typeCase(syntax, typer);
    case 'coalesce':
      return typeCoalesce(syntax, typer);
    case 'greatest':
    case 'least':
      return typeExtreme(syntax, typer);
    case 'nullif':
    case 'distinct':
      return typePair(syntax, typer);
    case 'in':
      return typeIn(syntax, typer);
    case 'between':
      return typeBetween(syntax, typer);
    case 'any':
      return typeAny(syntax, typer);
    case 'array':
      return typeArray(syntax, typer);
  }
}

/** Constants are folded, as in the planner: a FALSE makes AND false, a TRUE makes OR true, neutral ones are dropped. */
function typeConnective(syntax: SyntaxOf<'and' | 'or'>, typer: Typing): Node {
  const { kind, at } = syntax;
  const args = syntax.args.map((arg) => typer.boolean(arg, `argument of ${kind.toUpperCase()}`));
  return joined(typer.build, args, kind, at);
}

function joined(build: Builder, args: readonly Node[], kind: 'and' | 'or', at: number): Node {
  const values = args.map((arg) => (arg.kind === 'constant' ? arg.value : undefined));
  if (values.includes(kind === 'or')) return build.constant(kind === 'or', 'bool', at);
  const left = args.filter((_, i) => values[i] === undefined);
  if (values.includes(null)) left.push(build.constant(null, 'bool', at));
  const [only] = left;
  if (only === undefined) return build.constant(kind === 'and', 'bool', at);
  return left.length === 1 ? only : build.make({ kind, args: left }, 'bool', at);
}

function typeTest(syntax: SyntaxOf<'test'>, typer: Typing): Node {
  const { test, negated, at } = syntax;
  const arg = test === 'null' ? typer.type(syntax.arg) : typer.boolean(syntax.arg, 'argument of IS');
  return typer.build.make({ kind: 'test', test, negated, args: [arg] }, 'bool', at);
}

function common(nodes: readonly Node[], what: string, at: number): TypeName {
  const types = nodes.map(({ type }) => type);
  const type = commonType(types);
  if (type !== null) return type;
  const printed = [...new Set(types)].map((name: StaticType) => printedType[name]).join(' and ');
  throw new ExpressionError('42804', `${what} types ${printed} cannot be matched`, at);
}

function typeCase({ subject, branches, otherwise, at }: SyntaxOf<'case'>, typer: Typing): Node {
  const value = subject === null ? null : typer.type(subject);
  const tested = value === null ? null : value.type === 'unknown' ? typer.build.coerce(value, 'text') : value;
  const whens = branches.map(({ when }) =>
    tested === null
      ? typer.boolean(when, 'argument of CASE/WHEN')
      : typeOperator(typer.build, '=', [tested, typer.type(when)], when.at),
  );
  const thens = branches.map(({ result }) => typer.type(result));
  const last = otherwise === null ? typer.build.constant(null, 'unknown', at) : typer.type(otherwise);
  const type = common([last, ...thens], 'CASE', at);
  const kept: TypedBranch[] = [];
  let final = typer.build.coerce(last, type);
  for (const [i, when] of whens.entries()) {
    const result = typer.build.coerce(thens[i] ?? last, type);
    if (when.kind !== 'constant') kept.push({ when, result });
    else if (when.value === true) {
      final = result;
      break;
    }
  }
  if (kept.length === 0) return final;
  const args = [...kept.flatMap(({ when, result }) => [when, result]), final];
  return typer.build.make({ kind: 'case', args, branches: kept, otherwise: final }, type, at);
}

function typeCoalesce(syntax: SyntaxOf<'coalesce' | 'greatest' | 'least'>, typer: Typing): Node {
  const args = syntax.args.map((arg) => typer.type(arg));
  const type = common(args, 'COALESCE', syntax.at);
  const kept: Node[] = [];
  for (const arg of args.map((arg) => typer.build.coerce(arg, type))) {
    if (arg.kind === 'constant' && arg.value === null) continue;
    kept.push(arg);
    if (arg.kind === 'constant') break;
  }
  const [first] = kept;
  if (first === undefined) return typer.build.constant(null, type, syntax.at);
  return kept.length === 1 ? first : typer.build.make({ kind: 'coalesce', args: kept }, type, syntax.at);
}

function typeExtreme(syntax: SyntaxOf<'coalesce' | 'greatest' | 'least'>, typer: Typing): Node {
  const args = syntax.args.map((arg) => typer.type(arg));
  const type = common(args, syntax.kind.toUpperCase(), syntax.at);
  if (!(type in comparisons)) {
    throw new ExpressionError(
      '0A000',
      `${syntax.kind} of ${printedType[type]} is not known in VALIDATE expressions`,
      syntax.at,
    );
  }
  return typer.build.make(
    { kind: syntax.kind, args: args.map((arg) => typer.build.coerce(arg, type)) },
    type,
    syntax.at,
  );
}

function typePair({ kind, args, at, ...rest }: SyntaxOf<'nullif' | 'distinct'>, typer: Typing): Node {
  const [left, right] = args.map((arg) => typer.type(arg)) as [Node, Node];
  const row = findOperator('=', [left.type, right.type], at);
  if (row === null) throw noOperator('=', [left.type, right.type], at);
  const pair: [Node, Node] = [
    typer.build.coerce(left, row.args[0] ?? 'text'),
    typer.build.coerce(right, row.args[1] ?? 'text'),
  ];
  if (kind === 'distinct') {
    const negated = 'negated' in rest && rest.negated;
    return typer.build.make({ kind, row, negated, args: pair }, 'bool', at);
  }
  // PostgreSQL keeps the type of the first argument; NULLIF that would convert it is not supported here.
  if (pair[0] !== left && left.type !== 'unknown') {
    throw new ExpressionError('0A000', 'NULLIF of different types is not known in VALIDATE expressions', at);
  }
  // A constant NULL equals nothing: the first argument is the result, the other is not evaluated.
  const isNull = (node: Node): boolean => node.kind === 'constant' && node.value === null;
  if (pair.some(isNull)) return pair[0];
  return typer.build.make({ kind, row, args: pair }, pair[0].type, at);
}

/** Whether it contains a variable or secret: PostgreSQL's IN puts all other items into one list. */
function readsName(syntax: unknown): boolean {
  if (typeof syntax !== 'object' || syntax === null) return false;
  return ('kind' in syntax && syntax.kind === 'name') || Object.values(syntax).some(readsName);
}

/** Items without variables form a list, the others an OR of equalities after it (transformAExprIn). */
function typeIn({ left, items, negated, at }: SyntaxOf<'in'>, typer: Typing): Node {
  const value = typer.type(left);
  const typed = items.map((item) => typer.type(item));
  const operator = negated ? '<>' : '=';
  const parts = typed.map((item) => typeOperator(typer.build, operator, [value, item], at));
  const isListed = items.map((item) => !readsName(item));
  const listed = typed.filter((_, i) => isListed[i]);
  const type = listed.length > 1 ? commonType([value.type, ...listed.map(({ type }) => type)]) : null;
  if (type !== null) {
    const equalities = listEqualities(
      typer.build,
      operator,
      negated,
      typer.build.coerce(value, type),
      listed,
      at,
    );
    return joined(
      typer.build,
      [...equalities, ...parts.filter((_, i) => !isListed[i])],
      negated ? 'and' : 'or',
      at,
    );
  }
  return joined(typer.build, parts, negated ? 'and' : 'or', at);
}

/** Items of one list, converted to the list's common type. */
function listEqualities(
  build: Builder,
  operator: string,
  negated: boolean,
  value: Node,
  items: readonly Node[],
  at: number,
): Node[] {
  const { type } = value;
  const args = items.map((item) => (type === 'unknown' ? item : build.coerce(item, type)));
  if (type !== 'text' && args.some(({ kind }) => kind !== 'constant')) {
    throw new ExpressionError(
      '0A000',
      'this list of IN is not known in VALIDATE expressions: use constants',
      at,
    );
  }
  if (type !== 'text') return args.map((item) => typeOperator(build, operator, [value, item], at));
  const list = build.make({ kind: 'array', args }, 'text[]', at);
  return [anyOf(build, operator, negated, value, list, at)];
}

function typeBetween({ negated, args, at }: SyntaxOf<'between'>, typer: Typing): Node {
  const [value, low, high] = args.map((arg) => typer.type(arg)) as [Node, Node, Node];
  const first = typeOperator(typer.build, negated ? '<' : '>=', [value, low], at);
  const second = typeOperator(typer.build, negated ? '>' : '<=', [value, high], at);
  return joined(typer.build, [first, second], negated ? 'or' : 'and', at);
}

function typeAny({ name, all, left, array, at }: SyntaxOf<'any'>, typer: Typing): Node {
  const value = typer.type(left);
  const items = typer.type(array);
  const isText = value.type === 'text' || value.type === 'unknown';
  if ((items.type !== 'text[]' && items.type !== 'unknown') || !isText) {
    throw new ExpressionError('42809', `op ANY/ALL takes a text and an array of text here`, at);
  }
  return anyOf(
    typer.build,
    name,
    all,
    typer.build.coerce(value, 'text'),
    typer.build.coerce(items, 'text[]'),
    at,
  );
}

function anyOf(build: Builder, name: string, all: boolean, value: Node, items: Node, at: number): Node {
  const row = findOperator(name, ['text', 'text'], at);
  if (row === null || row.result !== 'bool' || row.role === 'pattern')
    throw noOperator(name, ['text', 'text'], at);
  return build.make({ kind: 'any', row, all, args: [value, items] }, 'bool', at);
}

function typeArray({ items, at }: SyntaxOf<'array'>, typer: Typing): Node {
  const typed = items.map((item) => typer.type(item));
  const type = typed.length === 0 ? 'text' : common(typed, 'ARRAY', at);
  if (type !== 'text') {
    throw new ExpressionError(
      '0A000',
      `an array of ${printedType[type]} is not known in VALIDATE expressions`,
      at,
    );
  }
  const args = typed.map((item) => typer.build.coerce(item, 'text'));
  return args.length === 0
    ? typer.build.constant([], 'text[]', at)
    : typer.build.make({ kind: 'array', args }, 'text[]', at);
}
