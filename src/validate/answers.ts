/**
 * All ANSWER clauses of one table, compiled: those tried before VALIDATE, those tried after it, and the one for a committed
 * request. Each is judged again against the current VALIDATE and secrets, which statements may have changed since it was
 * given: two secrets with the same value are one. A clause that would be refused today is left out, and reported. Pure.
 */
import type { TableAnswers, AnswerText, CommittedAnswer, HandshakeRule } from '../types/answers.ts';
import { type AnswerScope, parseAnswer } from './answer.ts';

interface Clause extends AnswerText {
  readonly place: number;
  readonly values: ReadonlyMap<string, string>;
}

interface Guard {
  readonly expression: string;
  readonly secrets: ReadonlyMap<string, string>;
  readonly format: 'json' | 'form' | 'text' | 'bytes';
}

/** All ANSWER clauses of a table; those that cannot be used are left out, and reported with the reason. */
export function compileAnswers(
  clauses: readonly Clause[],
  guard: Guard | null,
  publicUrl: string | null,
): { answers: TableAnswers; problems: readonly string[] } {
  const unchecked: HandshakeRule[] = [];
  const checked: HandshakeRule[] = [];
  const problems: string[] = [];
  let committed: CommittedAnswer | null = null;
  for (const clause of clauses) {
    const { place, values, learn } = clause;
    try {
      if (learn === undefined && [...values.values()].includes(''))
        throw new Error('its secret is still to be learned');
      const parsed = parseAnswer(clause, scopeOf(values, guard));
      if (clause.when === null) committed = parsed.committed();
      else {
        const made = { place, ...parsed.compileRule({ secrets: values, publicUrl }) };
        if (clause.unchecked) unchecked.push(made);
        // Without VALIDATE no request has been accepted by it.
        else if (guard !== null) checked.push(made);
      }
    } catch (error) {
      problems.push(`ANSWER ${place}: ${(error as Error).message}`);
    }
  }
  const asksByPost = [...unchecked, ...checked].some(({ methods }) => methods?.has('POST') !== false);
  return { answers: { unchecked, checked, asksByPost, committed }, problems };
}

function scopeOf(values: ReadonlyMap<string, string>, guard: Guard | null): AnswerScope {
  const secrets = [...values.keys()];
  if (guard === null) return { secrets, guard: null };
  const { expression, format, secrets: guarded } = guard;
  return { secrets, values, guard: { expression, secrets: [...guarded.keys()], format, values: guarded } };
}
