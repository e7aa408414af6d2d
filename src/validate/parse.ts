/**
 * Text to syntax tree, with PostgreSQL's own parser (parser.ts). Takes the expression's text; returns the tree
 * in the terms of syntax.ts; refuses (ExpressionError) what is not a single expression, what is too long or too deep,
 * and every construct that is not supported here: a node without a case.
 */
import type { A_Const, A_Expr, FuncCall, Node as PgNode, SelectStmt } from 'libpg-query';
import { limits } from '../config/limits.ts';
import { ExpressionError } from './errors.ts';
import {
  as,
  convertConstruct,
  convertExpression,
  inOrder,
  names,
  unknownConstruct,
  unqualified,
} from './parse-constructs.ts';
import type { Conversion } from './parse-constructs.ts';
import { Offsets, prefix, runParser, tooDeep } from './parser.ts';
import type { Syntax } from './syntax.ts';

export function parseText(text: string): Syntax {
  if (text.length > limits.expressionCharsMax) {
    throw new ExpressionError(
      '54000',
      `the expression is longer than ${limits.expressionCharsMax} characters`,
      null,
    );
  }
  // The WASM parser reads a C string: it would see the text only up to the first NUL.
  const nul = text.indexOf('\0');
  if (nul >= 0) throw new ExpressionError('42601', 'the expression contains a NUL character', nul);
  if (text.trim() === '') throw new ExpressionError('42601', 'VALIDATE takes one boolean expression', 0);
  const offsets = new Offsets(text);
  const select = parseSelect(text, offsets);
  return new Converter((location) => offsets.toIndex(location)).convert(select);
}

function parseSelect(text: string, offsets: Offsets): PgNode {
  const statements = runParser(prefix + text, offsets);
  // Only what is also one expression in parentheses: no `a AS b`, no `ALL a`, no unbalanced parentheses.
  runParser(`SELECT(${text}\n)`, offsets);
  const statement = statements.length === 1 ? statements[0]?.stmt : undefined;
  const select: SelectStmt | undefined =
    statement !== undefined && 'SelectStmt' in statement ? statement.SelectStmt : undefined;
  const target = select?.targetList?.length === 1 ? select.targetList[0] : undefined;
  const value = target !== undefined && 'ResTarget' in target ? target.ResTarget : undefined;
  const extra = Object.keys(select ?? {}).find((key) => !['targetList', 'limitOption', 'op'].includes(key));
  if (value?.val === undefined || value.name !== undefined || extra !== undefined) {
    throw new ExpressionError('42601', 'VALIDATE takes one boolean expression', 0);
  }
  return value.val;
}

class Converter implements Conversion {
  readonly #index: (location: number) => number;
  #depth = 0;

  constructor(index: (location: number) => number) {
    this.#index = index;
  }

  convert(node: PgNode): Syntax {
    if (++this.#depth > limits.expressionDepthMax) throw tooDeep();
    const syntax = this.#convert(node);
    this.#depth--;
    return syntax;
  }

  at(location: number | undefined): number {
    return location === undefined || location < 0 ? 0 : this.#index(location);
  }

  needed(node: PgNode | undefined, at: number): Syntax {
    if (node === undefined) throw unknownConstruct('this construct', at);
    return this.convert(node);
  }

  all(nodes: readonly PgNode[] | undefined): Syntax[] {
    return (nodes ?? []).map((node) => this.convert(node));
  }

  #convert(node: PgNode): Syntax {
    const constant = as(node, 'A_Const');
    if (constant !== undefined) return this.#constant(constant);
    const expression = as(node, 'A_Expr');
    if (expression !== undefined) return this.#expression(expression);
    const call = as(node, 'FuncCall');
    if (call !== undefined) return this.#call(call);
    const column = as(node, 'ColumnRef');
    if (column !== undefined) return this.#column(names(column.fields), this.at(column.location));
    return convertConstruct(node, this);
  }

  #constant(node: A_Const): Syntax {
    const at = this.at(node.location);
    if (node.isnull === true) return { kind: 'null', at };
    if (node.sval !== undefined) return { kind: 'string', value: node.sval.sval ?? '', at };
    if (node.boolval !== undefined) return { kind: 'boolean', value: node.boolval.boolval ?? false, at };
    if (node.ival !== undefined) return { kind: 'number', text: String(node.ival.ival ?? 0), at };
    if (node.fval !== undefined) return { kind: 'number', text: node.fval.fval ?? '', at };
    throw unknownConstruct('a bit string', at);
  }

  #column(fields: readonly string[], at: number): Syntax {
    const [name = ''] = fields;
    if (fields.length !== 1 || name === '*') {
      throw new ExpressionError('42703', `${fields.join('.')} is not known in VALIDATE expressions`, at);
    }
    return { kind: 'name', name, at };
  }

  #call(node: FuncCall): Syntax {
    const at = this.at(node.location);
    const name = unqualified(node.funcname);
    const special =
      node.agg_star ||
      node.agg_distinct ||
      node.agg_order ||
      node.agg_filter ||
      node.over ||
      node.func_variadic;
    if (special) throw unknownConstruct(`this way of calling ${name}()`, at);
    return { kind: 'call', name, args: this.all(inOrder(name, node.args, at)), at };
  }

  #expression(node: A_Expr): Syntax {
    if (node.kind !== 'AEXPR_OP') return convertExpression(node, this);
    const at = this.at(node.location);
    const args = node.lexpr === undefined ? [] : [this.convert(node.lexpr)];
    args.push(this.needed(node.rexpr, at));
    return { kind: 'operator', name: unqualified(node.name), args, at };
  }
}
