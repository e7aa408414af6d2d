/**
 * Which row of the functions a call or an operator refers to, decided as PostgreSQL decides it (parse_oper.c; function-candidates.ts), over the rows that
 * exist here; and the node that an operator becomes. Takes names and types; refuses unknown functions and operators, and calls that are not unique, each with
 * its position and what is known. Pure.
 */
import type { Builder } from './build.ts';
import { ExpressionError } from './errors.ts';
import { functionsByName, operatorsByName } from './functions.ts';
import type { FunctionRow } from './function-table.ts';
import type { Node } from './node.ts';
import { bestCandidate, forms, noOperator, operation, printed } from './function-candidates.ts';
import type { StaticType } from './types.ts';

function takes(row: FunctionRow, count: number): boolean {
  return row.variadic ? count >= row.args.length : row.args.length === count;
}

function refusedIfSo(row: FunctionRow, at: number): FunctionRow {
  if (row.refused !== null) throw new ExpressionError('0A000', row.refused, at);
  return row;
}

export function resolveFunction(name: string, types: readonly StaticType[], at: number): FunctionRow {
  const named = functionsByName.get(name);
  const what = `function ${name}(${printed(types)})`;
  if (named === undefined) {
    throw new ExpressionError('42883', `${what} is not known in VALIDATE expressions`, at, {
      hint: `known here: ${[...functionsByName.keys()].sort().join(', ')}`,
    });
  }
  const row = bestCandidate(
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
export function findOperator(name: string, types: readonly StaticType[], at: number): FunctionRow | null {
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
  const row = bestCandidate(candidates, types, `operator ${operation(name, types)}`, at);
  return row === null ? null : refusedIfSo(row, at);
}

/** The node of an operator with these operands. */
export function typeOperator(build: Builder, name: string, args: readonly Node[], at: number): Node {
  const [left, right] = args;
  if (right !== undefined && left !== undefined) {
    const header = headerRead(build, name, left, right);
    if (header !== null) return header;
  }
  const types = args.map(({ type }) => type);
  const row = findOperator(name, types, at);
  if (row !== null) {
    const converted = args.map((arg, i) => build.coerce(arg, row.args[i] ?? 'text'));
    if (row.role === 'pattern' && converted[1]?.kind !== 'constant') {
      throw new ExpressionError(
        '0A000',
        'the pattern of LIKE must be a constant in VALIDATE expressions',
        at,
      );
    }
    return build.call(row, converted, at);
  }
  if (name === '||' && left !== undefined && right !== undefined)
    return concatenation(build, left, right, at);
  throw noOperator(name, types, at);
}

/** `text || anything` prints the other side, as PostgreSQL's anynonarray operators do. */
function concatenation(build: Builder, left: Node, right: Node, at: number): Node {
  const isText = ({ type }: Node): boolean => type === 'text' || type === 'unknown';
  if ((!isText(left) && !isText(right)) || left.type === 'text[]' || right.type === 'text[]') {
    throw noOperator('||', [left.type, right.type], at);
  }
  const printed = [left, right].map((arg) => build.cast(arg, 'text', at));
  return typeOperator(build, '||', printed, at);
}

/** `headers->>'x'`, `headers->'x'`, `headers#>>'{x}'`: one header, looked up directly in the request. */
function headerRead(build: Builder, name: string, left: Node, right: Node): Node | null {
  if (left.kind !== 'variable' || left.name !== 'headers' || right.kind !== 'constant') return null;
  let header: string | null = null;
  if (name === '->>' || name === '->') {
    header = typeof right.value === 'string' && right.type !== 'int4' ? right.value : null;
  } else if (name === '#>>' || name === '#>') {
    const path = build.coerce(right, 'text[]');
    const items =
      path.kind === 'constant' && Array.isArray(path.value) ? (path.value as (string | null)[]) : [];
    header = items.length === 1 ? (items[0] ?? null) : null;
  }
  return header === null
    ? null
    : build.make({ kind: 'header', name: header }, name.endsWith('>>') ? 'text' : 'jsonb', right.at);
}
