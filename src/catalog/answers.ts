/**
 * From the ANSWER clauses that the catalog holds of a table to the closures that answer its requests. Takes a row with sealed texts; returns answers, and
 * what is wrong with them in one line, never with a secret: a clause that does not open or cannot be used is skipped and reported, and the table goes
 * on accepting rows. Throws if VALIDATE or its secrets do not open.
 */
import type { HandshakeRule, TableAnswers } from '../types/answers.ts';
import { compileAnswers } from '../validate/answers.ts';
import { formatOf } from './catalog-rows.ts';
import type { CatalogRow } from './catalog-rows.ts';
import { openAnswer, openCheck, openSecrets } from './seals.ts';
import type { SealedAnswer } from './seals.ts';
import type { TableCompiler } from './table-compiler.ts';

/** A clause, opened: never stored, never logged. */
interface AnswerSource extends SealedAnswer {
  /** Its place among the clauses of the table, from 1. */
  readonly place: number;
  readonly values: ReadonlyMap<string, string>;
}

interface CompiledAnswers {
  /** null: the table has no ANSWER. */
  readonly made: TableAnswers | null;
  readonly problem: string | null;
}

export const noAnswers: CompiledAnswers = { made: null, problem: null };

/** VALIDATE is known to open. */
export function makeAnswers(
  row: CatalogRow,
  compiler: Pick<TableCompiler, 'open' | 'publicUrl'>,
): CompiledAnswers {
  return row.answers.length === 0 ? noAnswers : compileClauses(row, compiler);
}

function compileClauses(
  row: CatalogRow,
  compiler: Pick<TableCompiler, 'open' | 'publicUrl'>,
): CompiledAnswers {
  const problems: string[] = [];
  const sources = row.answers.flatMap((answer, index): AnswerSource[] => {
    const place = index + 1;
    try {
      return [{ ...openAnswer(answer, compiler), place, values: openSecrets(answer.secrets, compiler) }];
    } catch (error) {
      problems.push(`ANSWER ${place}: ${(error as Error).message}`);
      return [];
    }
  });
  const guard =
    row.expression === null
      ? null
      : {
          expression: openCheck(row, compiler),
          secrets: openSecrets(row.secrets, compiler),
          format: formatOf(row.options),
        };
  const compiled = compileAnswers(sources, guard, compiler.publicUrl);
  problems.push(...compiled.problems);
  const unchecked = compiled.answers.unchecked.map((rule) => learning(rule, row, sources));
  const made = {
    ...compiled.answers,
    unchecked,
    learns: unchecked.some((rule) => rule.learns !== undefined),
  };
  return { made, problem: problems.length === 0 ? null : problems.join('; ') };
}

/** Adds the secret that a rule learns, and what is known of it. */
function learning(
  rule: HandshakeRule,
  { answers }: CatalogRow,
  sources: readonly AnswerSource[],
): HandshakeRule {
  const source = sources.find(({ place }) => place === rule.place);
  const alias = source?.learn?.secret;
  const secret = answers[rule.place - 1]?.secrets.find((it) => it.alias === alias);
  if (source === undefined || alias === undefined || secret === undefined) return rule;
  const { name, seal_id: sealId } = secret;
  return { ...rule, learns: { name, sealId, value: source.values.get(alias) ?? '' } };
}
