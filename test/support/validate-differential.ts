/** One expression, evaluated by the closure and by the reference, compared by value, NULL and error. */
import assert from 'node:assert/strict';
import { EvaluationError, ExpressionError } from '../../src/validate/errors.ts';
import { programOf } from '../../src/validate/compile.ts';
import { type TypedExpression, typeExpression } from '../../src/validate/expression.ts';
import { castRow } from '../../src/validate/functions.ts';
import { type TypeName, type Value } from '../../src/validate/types.ts';
import { type Case, type Reference } from './validate-postgres.ts';

export interface Count {
  values: number;
  nulls: number;
  errors: number;
  /** Raised here for an input that is not supported. */
  unsupported: number;
  /** Refused at CREATE. */
  refused: number;
}

export function counted(): Count {
  return { values: 0, nulls: 0, errors: 0, unsupported: 0, refused: 0 };
}

function printed(value: Value, type: TypeName): string {
  if (value === null) return 'null';
  return `=${type === 'text' ? (value as string) : (castRow(type, 'text')?.implementation(value) as string)}`;
}

function answer(expression: TypedExpression, { request, secrets, publicUrl }: Case): string {
  try {
    const { root } = expression;
    const value = programOf(root, { secrets, publicUrl }).run(request) ?? null;
    return printed(value, root.type as TypeName);
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return error.exact ? `!${error.sqlstate} ${error.message}` : '?';
  }
}

export async function compareWithReference(
  reference: Reference,
  expression: string,
  requests: readonly Case[],
  count: Count = counted(),
): Promise<void> {
  let typed: TypedExpression;
  try {
    typed = typeExpression(expression, { secrets: ['s', 'k'] });
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    count.refused += requests.length;
    return;
  }
  const theirs = await reference.evaluate(expression, requests);
  requests.forEach((request, i) => {
    const ours = answer(typed, request);
    const their = theirs[i] ?? '';
    if (ours === '?') count.unsupported++;
    else if (ours.startsWith('!')) count.errors++;
    else if (ours === 'null') count.nulls++;
    else count.values++;
    const same = ours === '?' || (ours.startsWith('!') ? their.startsWith('!') : ours === their);
    if (!same) assert.fail(`${expression}\nhere:       ${ours}\nPostgreSQL: ${their}\n${described(request)}`);
  });
}

function described({ request, secrets, seen }: Case): string {
  return JSON.stringify({
    ...seen,
    body: request.body.toString('hex'),
    secrets: Object.fromEntries(secrets),
    now: request.arrivedAtMs,
  });
}
