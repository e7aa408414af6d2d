/**
 * From what the catalog holds of a VALIDATE and of ANSWER clauses, sealed, to what runs for the requests of its table: opened (seals.ts), parsed,
 * compiled. Takes rows, sealed texts and settings; returns closures and values; throws the reason in one line, or returns it, never with a secret. The
 * parser must be loaded.
 */
import type { Settings } from '../config/settings.ts';
import type { Sealing } from '../secrets/sealing.ts';
import type { HandshakeRule, TableAnswers } from '../types/answers.ts';
import type { CheckRequest, RequestCheck, WhyRefused } from '../types/request.ts';
import type { FetchedKeys, KnownSender } from '../types/target.ts';
import { SenderOfCheck } from '../senders/sender-of-check.ts';
import { compileAnswers } from '../validate/answers.ts';
import { compileCheck } from '../validate/compile.ts';
import { explainRefusal } from '../validate/explain.ts';
import { parseExpression } from '../validate/expression.ts';
import type { KeySets } from '../validate/key-sets.ts';
import type { CodeChoice } from '../relations/shape.ts';
import type { CatalogRow } from './catalog-rows.ts';
import { formatOf } from './catalog-rows.ts';
import { openAnswer, openCheck, openSecrets } from './seals.ts';
import type { SealedAnswer } from './seals.ts';

export interface CompiledCheck {
  readonly check: RequestCheck;
  readonly why?: WhyRefused;
  readonly sender?: KnownSender;
  /** Lower-case names of the headers that it reads; null: it reads all of them. */
  readonly headers: readonly string[] | null;
  readonly readsEncodedBody?: boolean;
  readonly fetchedKeys?: FetchedKeys | undefined;
}

/** Tests use others. */
export class TableCompiler {
  /** Opens what `seal` sealed. */
  readonly open: Sealing['open'];
  readonly verifier: CodeChoice['verifier'] | undefined;
  readonly keySets: Pick<KeySets, 'open' | 'of' | 'problem'>;
  /** As in the settings of these names. */
  readonly publicUrl: string | null;
  readonly intoHosts: readonly string[];

  /** `verifier`: see CodeChoice. */
  constructor(
    sealing: Pick<Sealing, 'open'>,
    settings: Pick<Settings, 'publicUrl' | 'intoHosts'>,
    keySets: TableCompiler['keySets'],
    verifier?: CodeChoice['verifier'],
  ) {
    this.keySets = keySets;
    this.open = sealing.open;
    this.verifier = verifier;
    this.publicUrl = settings.publicUrl;
    this.intoHosts = settings.intoHosts;
  }

  /** A VALIDATE expression, which CREATE or ALTER TABLE has parsed, to refuse it; it is compiled here only, whenever its table is read anew. */
  compile(expression: string, payload: string, secrets: ReadonlyMap<string, string>): CompiledCheck {
    const { publicUrl } = this;
    const parsed = parseExpression(expression, { secrets: [...secrets.keys()] });
    // CREATE decided what one more unknown name would mean; a renamed column changes nothing.
    if (parsed.payloadName !== null && parsed.payloadName !== payload && parsed.payloadName !== 'payload') {
      throw new Error(`the VALIDATE expression reads ${parsed.payloadName}, the body is ${payload}`);
    }
    const values = { secrets, publicUrl, publishedKeys: this.keySets.open };
    return {
      check: compileCheck(parsed, values),
      fetchedKeys: this.keySets.of(parsed.keyUrls),
      why: (request: CheckRequest) => explainRefusal(expression, values, request),
      sender: new SenderOfCheck(expression, [...secrets.keys()]),
      readsEncodedBody: parsed.readsEncodedBody,
      headers: parsed.readsAllHeaders ? null : parsed.headersRead.map((name) => name.toLowerCase()),
    };
  }
}

/** The check of a table, from what is sealed of it; null: it has no VALIDATE. Throws, naming what does not open, or cannot be compiled. */
export function makeCheck(row: CatalogRow, compiler: TableCompiler): CompiledCheck | null {
  const source = openSource(row, compiler);
  return source === null ? null : compiler.compile(source.expression, source.payload, source.secrets);
}

/** The source of a check, in clear text: never stored, never logged. */
export interface CheckSource {
  readonly expression: string;
  readonly payload: string;
  readonly secrets: ReadonlyMap<string, string>;
}

/** A secret of the check has no value yet. */
export class StillToLearn extends Error {}

/** null: the table has no VALIDATE. Throws, naming what does not open. */
export function openSource(row: CatalogRow, compiler: Pick<TableCompiler, 'open'>): CheckSource | null {
  if (row.expression === null) return null;
  const secrets = openSecrets(row.secrets, compiler);
  for (const [name, value] of secrets)
    if (value === '') throw new StillToLearn(`secret ${name} is still to be learned`);
  try {
    return { expression: openCheck(row, compiler), payload: row.payload, secrets };
  } catch (error) {
    throw new Error(`VALIDATE expression: ${(error as Error).message}`, { cause: error });
  }
}

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

/** A clause that does not open or cannot be used is skipped, and the table goes on accepting rows. VALIDATE is known to open: throws if it does not. */
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
