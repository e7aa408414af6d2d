/**
 * What few expressions have: casts, arguments by name, and the constructs of SQL that are neither functions nor operators (constructs.ts), as
 * PostgreSQL's parser has them. Takes a node of the parser's and what
 * converts its parts; returns the tree in the terms of syntax.ts; refuses (0A000) every construct that is not supported here: a node without a case.
 */
import type {
  A_Expr,
  CaseExpr,
  FuncCall,
  Node as PgNode,
  TypeCast,
  TypeName as PgTypeName,
} from 'libpg-query';
import { ExpressionError } from './errors.ts';
import { typeSpellings } from './syntax.ts';
import type { Branch, Syntax, TestWord } from './syntax.ts';
import type { TypeName } from './types.ts';

/** What converts the parts of a construct. */
export interface Conversion {
  convert(node: PgNode): Syntax;
  /** A part that may be missing only in a construct that is not known. */
  needed(node: PgNode | undefined, at: number): Syntax;
  all(nodes: readonly PgNode[] | undefined): Syntax[];
  /** The index of a location. */
  at(location: number | undefined): number;
}

type KeyOfUnion<T> = T extends unknown ? keyof T : never;
type PgNodeOf<K extends PropertyKey> = PgNode extends infer N
  ? N extends { [P in K]: infer V }
    ? V
    : never
  : never;

export function as<K extends KeyOfUnion<PgNode>>(node: PgNode | undefined, key: K): PgNodeOf<K> | undefined {
  return node !== undefined && key in node ? (node as unknown as { [P in K]: PgNodeOf<K> })[key] : undefined;
}

export function names(nodes: readonly PgNode[] | undefined): string[] {
  return (nodes ?? []).map((node) => as(node, 'String')?.sval ?? '*');
}

/** `pg_catalog.btrim` and `btrim` are the same function here; any other qualification is unknown. */
export function unqualified(nodes: readonly PgNode[] | undefined): string {
  const path = names(nodes);
  if (path[0] === 'pg_catalog') path.shift();
  return path.join('.');
}

/** The refusal of a construct, for the caller to throw. */
export function unknownConstruct(what: string, at: number, hint?: string): ExpressionError {
  return new ExpressionError(
    '0A000',
    `${what} is not known in VALIDATE expressions`,
    at,
    hint === undefined ? {} : { hint },
  );
}

export function convertConstruct(node: PgNode, parts: Conversion): Syntax {
  const cast = as(node, 'TypeCast');
  if (cast !== undefined) return convertCast(cast, parts);
  const choice = as(node, 'CaseExpr');
  if (choice !== undefined) return convertCase(choice, parts);
  return convertLogic(node, parts) ?? convertList(node, parts) ?? refuse(node, parts);
}

function convertCast(node: TypeCast, parts: Conversion): Syntax {
  const typeAt = parts.at(node.typeName?.location);
  const at = node.location === undefined || node.location < 0 ? typeAt : parts.at(node.location);
  return { kind: 'cast', arg: parts.needed(node.arg, at), type: typeOf(node.typeName, typeAt), at };
}

function typeOf(node: PgTypeName | undefined, at: number): TypeName {
  const spelled = unqualified(node?.names);
  const base = typeSpellings.get(spelled);
  const bounds = node?.arrayBounds?.length ?? 0;
  const type = bounds === 0 ? base : bounds === 1 && base === 'text' ? 'text[]' : undefined;
  if (type === undefined || node?.setof === true || node?.typmods !== undefined) {
    const printed = spelled + (node?.typmods === undefined ? '' : '(…)') + '[]'.repeat(bounds);
    throw unknownConstruct(
      `type ${printed}`,
      at,
      'known types: text, text[], bytea, jsonb, boolean, integer, bigint, numeric, double precision, timestamptz, interval',
    );
  }
  return type;
}

function convertCase(node: CaseExpr, parts: Conversion): Syntax {
  const at = parts.at(node.location);
  const branches = (node.args ?? []).map((arg): Branch => {
    const branch = as(arg, 'CaseWhen');
    return { when: parts.needed(branch?.expr, at), result: parts.needed(branch?.result, at) };
  });
  const subject = node.arg === undefined ? null : parts.convert(node.arg);
  const otherwise = node.defresult === undefined ? null : parts.convert(node.defresult);
  return { kind: 'case', subject, branches, otherwise, at };
}

/** What stands between operands without being an operator. */
export function convertExpression(node: A_Expr, parts: Conversion): Syntax {
  const at = parts.at(node.location);
  const name = unqualified(node.name);
  const right = as(node.rexpr, 'List')?.items;
  switch (node.kind) {
    case 'AEXPR_OP_ANY':
    case 'AEXPR_OP_ALL': {
      const left = parts.needed(node.lexpr, at);
      return {
        kind: 'any',
        name,
        all: node.kind === 'AEXPR_OP_ALL',
        left,
        array: parts.needed(node.rexpr, at),
        at,
      };
    }
    case 'AEXPR_LIKE':
      return {
        kind: 'operator',
        name,
        args: [parts.needed(node.lexpr, at), parts.needed(node.rexpr, at)],
        at,
      };
    case 'AEXPR_IN':
      return {
        kind: 'in',
        negated: name === '<>',
        left: parts.needed(node.lexpr, at),
        items: parts.all(right),
        at,
      };
    case 'AEXPR_BETWEEN':
    case 'AEXPR_NOT_BETWEEN': {
      const args = [parts.needed(node.lexpr, at), ...parts.all(right)] as unknown as [Syntax, Syntax, Syntax];
      return { kind: 'between', negated: node.kind === 'AEXPR_NOT_BETWEEN', args, at };
    }
    case 'AEXPR_NULLIF':
      return { kind: 'nullif', args: [parts.needed(node.lexpr, at), parts.needed(node.rexpr, at)], at };
    case 'AEXPR_DISTINCT':
    case 'AEXPR_NOT_DISTINCT': {
      const args: [Syntax, Syntax] = [parts.needed(node.lexpr, at), parts.needed(node.rexpr, at)];
      return { kind: 'distinct', negated: node.kind === 'AEXPR_NOT_DISTINCT', args, at };
    }
    default:
      throw unknownConstruct(name === '~' ? 'SIMILAR TO' : `this form of ${name}`, at);
  }
}

function convertLogic(node: PgNode, parts: Conversion): Syntax | null {
  const logic = as(node, 'BoolExpr');
  if (logic !== undefined) {
    const at = parts.at(logic.location);
    const args = parts.all(logic.args);
    if (logic.boolop === 'NOT_EXPR') return { kind: 'not', arg: args[0] ?? { kind: 'null', at }, at };
    return { kind: logic.boolop === 'AND_EXPR' ? 'and' : 'or', args, at };
  }
  const nullTest = as(node, 'NullTest');
  if (nullTest !== undefined) {
    const at = parts.at(nullTest.location);
    return {
      kind: 'test',
      test: 'null',
      negated: nullTest.nulltesttype === 'IS_NOT_NULL',
      arg: parts.needed(nullTest.arg, at),
      at,
    };
  }
  const test = as(node, 'BooleanTest');
  if (test === undefined) return null;
  const at = parts.at(test.location);
  const word = (test.booltesttype ?? 'IS_TRUE').replace('IS_', '').toLowerCase();
  const negated = word.startsWith('not_');
  return {
    kind: 'test',
    test: word.replace('not_', '') as TestWord,
    negated,
    arg: parts.needed(test.arg, at),
    at,
  };
}

function convertList(node: PgNode, parts: Conversion): Syntax | null {
  const coalesce = as(node, 'CoalesceExpr');
  if (coalesce !== undefined)
    return { kind: 'coalesce', args: parts.all(coalesce.args), at: parts.at(coalesce.location) };
  const extreme = as(node, 'MinMaxExpr');
  if (extreme !== undefined) {
    const kind = extreme.op === 'IS_LEAST' ? 'least' : 'greatest';
    return { kind, args: parts.all(extreme.args), at: parts.at(extreme.location) };
  }
  const array = as(node, 'A_ArrayExpr');
  if (array !== undefined)
    return { kind: 'array', items: parts.all(array.elements), at: parts.at(array.location) };
  const value = as(node, 'SQLValueFunction');
  if (value !== undefined && value.op === 'SVFOP_CURRENT_TIMESTAMP') {
    return { kind: 'call', name: 'now', args: [], at: parts.at(value.location) };
  }
  return null;
}

function refuse(node: PgNode, parts: Conversion): never {
  const [name = 'this'] = Object.keys(node);
  const inner = Object.values(node)[0] as { location?: number } | undefined;
  const what: Record<string, string> = {
    SubLink: 'a subquery',
    ParamRef: 'a parameter',
    CollateClause: 'COLLATE',
    A_Indirection: 'a subscript',
    RowExpr: 'a row',
  };
  throw unknownConstruct(what[name] ?? 'this construct', parts.at(inner?.location));
}

/** The names of the arguments of functions that may be called by them. */
const argumentNames: Readonly<Record<string, readonly string[]>> = {
  jwt_verify: ['token', 'jwks', 'issuer', 'audience'],
  jwks_key: ['jwks', 'kid'],
};

/** Arguments by name behind those by position, as PostgreSQL has them, in the order of the function's own. */
export function inOrder(name: string, args: FuncCall['args'], at: number): FuncCall['args'] {
  const given = (args ?? []).flatMap((arg) => ('NamedArgExpr' in arg ? [arg.NamedArgExpr] : []));
  if (args === undefined || given.length === 0) return args;
  const known = argumentNames[name]?.slice(args.length - given.length) ?? [];
  const ordered = known.flatMap((word) => given.find((arg) => arg.name === word)?.arg ?? []);
  // PostgreSQL's parser has refused a name that is given twice.
  if (ordered.length !== given.length || known.length !== given.length)
    throw unknownConstruct(`this way of calling ${name}()`, at);
  return [...args.slice(0, args.length - given.length), ...ordered];
}
