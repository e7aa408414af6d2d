/**
 * The ANSWER clauses of one table: takes rows of the catalog, returns what handshakes and committed requests are answered
 * with. Pure; opening sealed texts and compiling are passed in as functions. A clause that does not open or cannot be used
 * is skipped and reported: the table goes on accepting rows.
 */
import type { TableAnswers, HandshakeRule } from '../types/answers.ts';
import type { Intake } from '../types/target.ts';
import { identities, openAnswer, openCheck } from './seals.ts';
import type { TableCompiler } from './table-compiler.ts';
import type { AnswerRow, CheckRow, SealedAnswer } from './seals.ts';

export interface SealedSecretRow {
  /** The secret's name inside the expression. */
  readonly alias: string;
  readonly name: string;
  readonly seal_id: string;
  readonly sealed: string;
}

/** A row of headgate.answer_rows. */
export interface SealedAnswerRow extends AnswerRow {
  readonly secrets: readonly SealedSecretRow[];
}

/** A clause, opened: never stored, never logged. */
export interface AnswerSource extends SealedAnswer {
  /** Its place among the clauses of the table, from 1. */
  readonly place: number;
  readonly values: ReadonlyMap<string, string>;
}

/** What an UNCHECKED answer is judged against, for a statement that adds one. */
export interface GuardedTable {
  readonly format: Intake['format'];
  /** null: no VALIDATE. */
  readonly validate: { readonly expression: string; readonly secrets: readonly string[] } | null;
}

interface TableRow extends CheckRow {
  readonly options: Readonly<Record<string, unknown>>;
  readonly secrets: readonly SealedSecretRow[];
  readonly answers: readonly SealedAnswerRow[];
}

interface Made {
  /** null: the table has no ANSWER. */
  readonly made: TableAnswers | null;
  readonly problem: string | null;
}

export const noAnswers: Made = { made: null, problem: null };

/** VALIDATE is known to open. */
export function makeAnswers(row: TableRow, compiler: Pick<TableCompiler, 'open' | 'compileAnswers'>): Made {
  if (row.answers.length === 0) return noAnswers;
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
  const compiled = compiler.compileAnswers(sources, guard);
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
  { answers }: TableRow,
  sources: readonly AnswerSource[],
): HandshakeRule {
  const source = sources.find(({ place }) => place === rule.place);
  const alias = source?.learn?.secret;
  const secret = answers[rule.place - 1]?.secrets.find((it) => it.alias === alias);
  if (source === undefined || alias === undefined || secret === undefined) return rule;
  const { name, seal_id: sealId } = secret;
  return { ...rule, learns: { name, sealId, value: source.values.get(alias) ?? '' } };
}

/** A secret of the check has no value yet. */
export class StillToLearn extends Error {}

export function guardOf(row: TableRow, compiler: Pick<TableCompiler, 'open'>): GuardedTable {
  const format = formatOf(row.options);
  if (row.expression === null) return { format, validate: null };
  const secrets = row.secrets.map(({ alias }) => alias);
  return { format, validate: { expression: openCheck(row, compiler), secrets } };
}

export function formatOf({ format }: Readonly<Record<string, unknown>>): Intake['format'] {
  return format === 'form' || format === 'text' || format === 'bytes' ? format : 'json';
}

/** By their names in the expression. Throws, naming the secret that does not open. */
export function openSecrets(
  rows: readonly SealedSecretRow[],
  { open }: Pick<TableCompiler, 'open'>,
): ReadonlyMap<string, string> {
  const secrets = new Map<string, string>();
  for (const { alias, name, seal_id, sealed } of rows) {
    try {
      secrets.set(alias, open(sealed, identities.secret(name, seal_id)));
    } catch (error) {
      throw new Error(`secret ${name}: ${(error as Error).message}`, { cause: error });
    }
  }
  return secrets;
}
