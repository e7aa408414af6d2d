/** Converts the parser's nodes, one by one, to syntax.ts. A node without a case here is refused with its position. */
import type {
  A_Const,
  A_Expr,
  CaseExpr,
  FuncCall,
  Node as PgNode,
  TypeCast,
  TypeName as PgTypeName,
} from 'libpg-query';
import { limits } from '../config/limits.ts';
import { ExpressionError } from './errors.ts';
import { type Branch, type Syntax, type TestWord, typeSpellings } from './syntax.ts';
import { type TypeName } from './types.ts';

type Keys<T> = T extends unknown ? keyof T : never;
type NodeOf<K extends PropertyKey> = PgNode extends infer N
  ? N extends { [P in K]: infer V }
    ? V
    : never
  : never;

function as<K extends Keys<PgNode>>(node: PgNode | undefined, key: K): NodeOf<K> | undefined {
  return node !== undefined && key in node ? (node as unknown as { [P in K]: NodeOf<K> })[key] : undefined;
}

/** `pg_catalog.btrim` and `btrim` are the same function here; any other qualification is unknown. */
function names(nodes: readonly PgNode[] | undefined): string[] {
  return (nodes ?? []).map((node) => as(node, 'String')?.sval ?? '*');
}

/** The names of the arguments of functions that may be called by them. */
const argumentNames: Readonly<Record<string, readonly string[]>> = {
  jwt_verify: ['token', 'jwks', 'issuer', 'audience'],
  jwks_key: ['jwks', 'kid'],
};

export class Converter {
  readonly #index: (location: number) => number;
  #depth = 0;

  constructor(index: (location: number) => number) {
    this.#index = index;
  }

  convert(node: PgNode): Syntax {
    if (++this.#depth > limits.expressionDepthMax) {
      throw new ExpressionError(
        '54001',
        `the expression is nested deeper than ${limits.expressionDepthMax}`,
        null,
      );
    }
    const syntax = this.#convert(node);
    this.#depth--;
    return syntax;
  }

  #at(location: number | undefined): number {
    return location === undefined || location < 0 ? 0 : this.#index(location);
  }

  #needed(node: PgNode | undefined, at: number): Syntax {
    if (node === undefined) throw this.#unknown('this construct', at);
    return this.convert(node);
  }

  #all(nodes: readonly PgNode[] | undefined): Syntax[] {
    return (nodes ?? []).map((node) => this.convert(node));
  }

  #unknown(what: string, at: number, hint?: string): ExpressionError {
    return new ExpressionError(
      '0A000',
      `${what} is not known in VALIDATE expressions`,
      at,
      hint === undefined ? {} : { hint },
    );
  }

  #convert(node: PgNode): Syntax {
    const constant = as(node, 'A_Const');
    if (constant !== undefined) return this.#constant(constant);
    const expression = as(node, 'A_Expr');
    if (expression !== undefined) return this.#expression(expression);
    const call = as(node, 'FuncCall');
    if (call !== undefined) return this.#call(call);
    const cast = as(node, 'TypeCast');
    if (cast !== undefined) return this.#cast(cast);
    const column = as(node, 'ColumnRef');
    if (column !== undefined) return this.#column(names(column.fields), this.#at(column.location));
    const choice = as(node, 'CaseExpr');
    if (choice !== undefined) return this.#case(choice);
    return this.#logic(node) ?? this.#list(node) ?? this.#refuse(node);
  }

  #constant(node: A_Const): Syntax {
    const at = this.#at(node.location);
    if (node.isnull === true) return { kind: 'null', at };
    if (node.sval !== undefined) return { kind: 'string', value: node.sval.sval ?? '', at };
    if (node.boolval !== undefined) return { kind: 'boolean', value: node.boolval.boolval ?? false, at };
    if (node.ival !== undefined) return { kind: 'number', text: String(node.ival.ival ?? 0), at };
    if (node.fval !== undefined) return { kind: 'number', text: node.fval.fval ?? '', at };
    throw this.#unknown('a bit string', at);
  }

  #column(fields: readonly string[], at: number): Syntax {
    const [name = ''] = fields;
    if (fields.length !== 1 || name === '*') {
      throw new ExpressionError('42703', `${fields.join('.')} is not known in VALIDATE expressions`, at);
    }
    return { kind: 'name', name, at };
  }

  #call(node: FuncCall): Syntax {
    const at = this.#at(node.location);
    const path = names(node.funcname);
    if (path[0] === 'pg_catalog') path.shift();
    const name = path.join('.');
    const special =
      node.agg_star ||
      node.agg_distinct ||
      node.agg_order ||
      node.agg_filter ||
      node.over ||
      node.func_variadic;
    if (special) throw this.#unknown(`this way of calling ${name}()`, at);
    return { kind: 'call', name, args: this.#all(this.#inOrder(name, node.args, at)), at };
  }

  /** Arguments by name behind those by position, as PostgreSQL has them, in the order of the function's own. */
  #inOrder(name: string, args: FuncCall['args'], at: number): FuncCall['args'] {
    const given = (args ?? []).flatMap((arg) => ('NamedArgExpr' in arg ? [arg.NamedArgExpr] : []));
    if (args === undefined || given.length === 0) return args;
    const known = argumentNames[name]?.slice(args.length - given.length) ?? [];
    const ordered = known.flatMap((word) => given.find((arg) => arg.name === word)?.arg ?? []);
    // PostgreSQL's parser has refused a name that is given twice.
    if (ordered.length !== given.length || known.length !== given.length)
      throw this.#unknown(`this way of calling ${name}()`, at);
    return [...args.slice(0, args.length - given.length), ...ordered];
  }

  #type(node: PgTypeName | undefined): TypeName {
    const at = this.#at(node?.location);
    const path = names(node?.names);
    if (path[0] === 'pg_catalog') path.shift();
    const spelled = path.join('.');
    const base = typeSpellings.get(spelled);
    const bounds = node?.arrayBounds?.length ?? 0;
    const type = bounds === 0 ? base : bounds === 1 && base === 'text' ? 'text[]' : undefined;
    if (type === undefined || node?.setof === true || node?.typmods !== undefined) {
      const printed = spelled + (node?.typmods === undefined ? '' : '(…)') + '[]'.repeat(bounds);
      throw this.#unknown(
        `type ${printed}`,
        at,
        'known types: text, text[], bytea, jsonb, boolean, integer, bigint, numeric, double precision, timestamptz, interval',
      );
    }
    return type;
  }

  #cast(node: TypeCast): Syntax {
    const typeAt = this.#at(node.typeName?.location);
    const at = node.location === undefined || node.location < 0 ? typeAt : this.#at(node.location);
    return { kind: 'cast', arg: this.#needed(node.arg, at), type: this.#type(node.typeName), at };
  }

  #case(node: CaseExpr): Syntax {
    const at = this.#at(node.location);
    const branches = (node.args ?? []).map((arg): Branch => {
      const branch = as(arg, 'CaseWhen');
      return { when: this.#needed(branch?.expr, at), result: this.#needed(branch?.result, at) };
    });
    const subject = node.arg === undefined ? null : this.convert(node.arg);
    const otherwise = node.defresult === undefined ? null : this.convert(node.defresult);
    return { kind: 'case', subject, branches, otherwise, at };
  }

  #expression(node: A_Expr): Syntax {
    const at = this.#at(node.location);
    const path = names(node.name);
    if (path[0] === 'pg_catalog') path.shift();
    const name = path.join('.');
    const right = as(node.rexpr, 'List')?.items;
    switch (node.kind) {
      case 'AEXPR_OP': {
        const args = node.lexpr === undefined ? [] : [this.convert(node.lexpr)];
        args.push(this.#needed(node.rexpr, at));
        return { kind: 'operator', name, args, at };
      }
      case 'AEXPR_OP_ANY':
      case 'AEXPR_OP_ALL': {
        const left = this.#needed(node.lexpr, at);
        return {
          kind: 'any',
          name,
          all: node.kind === 'AEXPR_OP_ALL',
          left,
          array: this.#needed(node.rexpr, at),
          at,
        };
      }
      case 'AEXPR_LIKE':
        return {
          kind: 'operator',
          name,
          args: [this.#needed(node.lexpr, at), this.#needed(node.rexpr, at)],
          at,
        };
      case 'AEXPR_IN':
        return {
          kind: 'in',
          negated: name === '<>',
          left: this.#needed(node.lexpr, at),
          items: this.#all(right),
          at,
        };
      case 'AEXPR_BETWEEN':
      case 'AEXPR_NOT_BETWEEN': {
        const args = [this.#needed(node.lexpr, at), ...this.#all(right)] as unknown as [
          Syntax,
          Syntax,
          Syntax,
        ];
        return { kind: 'between', negated: node.kind === 'AEXPR_NOT_BETWEEN', args, at };
      }
      case 'AEXPR_NULLIF':
        return { kind: 'nullif', args: [this.#needed(node.lexpr, at), this.#needed(node.rexpr, at)], at };
      case 'AEXPR_DISTINCT':
      case 'AEXPR_NOT_DISTINCT': {
        const args: [Syntax, Syntax] = [this.#needed(node.lexpr, at), this.#needed(node.rexpr, at)];
        return { kind: 'distinct', negated: node.kind === 'AEXPR_NOT_DISTINCT', args, at };
      }
      default:
        throw this.#unknown(name === '~' ? 'SIMILAR TO' : `this form of ${name}`, at);
    }
  }

  #logic(node: PgNode): Syntax | null {
    const logic = as(node, 'BoolExpr');
    if (logic !== undefined) {
      const at = this.#at(logic.location);
      const args = this.#all(logic.args);
      if (logic.boolop === 'NOT_EXPR') return { kind: 'not', arg: args[0] ?? { kind: 'null', at }, at };
      return { kind: logic.boolop === 'AND_EXPR' ? 'and' : 'or', args, at };
    }
    const nullTest = as(node, 'NullTest');
    if (nullTest !== undefined) {
      const at = this.#at(nullTest.location);
      return {
        kind: 'test',
        test: 'null',
        negated: nullTest.nulltesttype === 'IS_NOT_NULL',
        arg: this.#needed(nullTest.arg, at),
        at,
      };
    }
    const test = as(node, 'BooleanTest');
    if (test === undefined) return null;
    const at = this.#at(test.location);
    const word = (test.booltesttype ?? 'IS_TRUE').replace('IS_', '').toLowerCase();
    const negated = word.startsWith('not_');
    return {
      kind: 'test',
      test: word.replace('not_', '') as TestWord,
      negated,
      arg: this.#needed(test.arg, at),
      at,
    };
  }

  #list(node: PgNode): Syntax | null {
    const coalesce = as(node, 'CoalesceExpr');
    if (coalesce !== undefined)
      return { kind: 'coalesce', args: this.#all(coalesce.args), at: this.#at(coalesce.location) };
    const extreme = as(node, 'MinMaxExpr');
    if (extreme !== undefined) {
      const kind = extreme.op === 'IS_LEAST' ? 'least' : 'greatest';
      return { kind, args: this.#all(extreme.args), at: this.#at(extreme.location) };
    }
    const array = as(node, 'A_ArrayExpr');
    if (array !== undefined)
      return { kind: 'array', items: this.#all(array.elements), at: this.#at(array.location) };
    const value = as(node, 'SQLValueFunction');
    if (value !== undefined && value.op === 'SVFOP_CURRENT_TIMESTAMP') {
      return { kind: 'call', name: 'now', args: [], at: this.#at(value.location) };
    }
    return null;
  }

  #refuse(node: PgNode): never {
    const [name = 'this'] = Object.keys(node);
    const inner = Object.values(node)[0] as { location?: number } | undefined;
    const what: Record<string, string> = {
      SubLink: 'a subquery',
      ParamRef: 'a parameter',
      CollateClause: 'COLLATE',
      A_Indirection: 'a subscript',
      RowExpr: 'a row',
    };
    throw this.#unknown(what[name] ?? 'this construct', this.#at(inner?.location));
  }
}
