/**
 * Which of several rows of one name a call means, decided as PostgreSQL decides it (func_match_argtypes and func_select_candidate of parse_func.c), and the
 * messages about a call that no row takes. Takes rows and the types of the arguments; returns a row; refuses a call that is not unique. Pure.
 */
import { ExpressionError } from './errors.ts';
import { operatorsByName } from './functions.ts';
import { signature } from './function-table.ts';
import type { FunctionRow } from './function-table.ts';
import { categoryOf, coercesImplicitly, isPreferred, printedType } from './types.ts';
import type { StaticType, TypeName } from './types.ts';

/** The row that PostgreSQL would call; null: none of them takes these types. `what` and `at`: the call, for the refusal. */
export function bestCandidate(
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

/** For messages: the types of a call. */
export function printed(types: readonly StaticType[]): string {
  return types.map((type) => printedType[type]).join(', ');
}

/** For hints: which forms there are. */
export function forms(rows: readonly FunctionRow[]): string {
  return rows
    .filter((row) => row.refused === null)
    .map((row) => `${signature(row)} → ${printedType[row.result]}`)
    .join('; ');
}

/** For messages: an operator between its types. */
export function operation(name: string, types: readonly StaticType[]): string {
  return types.length === 1
    ? `${name} ${printed(types)}`
    : types.map((type) => printedType[type]).join(` ${name} `);
}

export function noOperator(name: string, types: readonly StaticType[], at: number): ExpressionError {
  const known = operatorsByName.get(name) ?? [];
  return new ExpressionError('42883', `operator does not exist: ${operation(name, types)}`, at, {
    hint: `known here: ${forms(known.filter((row) => row.args.length === types.length))}`,
  });
}
