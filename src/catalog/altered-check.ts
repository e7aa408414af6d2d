/**
 * The check that a table would have after ALTER TABLE … VALIDATE. Takes the clause, opened secrets and the table's row; returns what would guard the
 * table. Refuses with SqlFailure what ALTER TABLE itself would refuse, and what is not committed yet (55000). Nothing is stored, or kept.
 */
import { SqlFailure } from '../errors/refusals.ts';
import type { RequestCheck } from '../types/request.ts';
import type { Catalog } from './catalog.ts';
import { readTables } from './queries.ts';
import { readSecrets } from './role-queries.ts';
import { openSecrets } from './seals.ts';
import type { CatalogRow, FoundSecret } from './catalog-rows.ts';
import { makeCheck } from './table-compiler.ts';
import type { TableCompiler } from './table-compiler.ts';
import { ofTopics, snsOf } from './target.ts';

/** A secret as a clause names it, and as the asking session sees it: null, there is none of this name. */
export interface NamedSecret {
  readonly alias: string;
  readonly shown: string;
  readonly id: string | null;
  readonly version: string | null;
}

export interface CandidateQuestion {
  readonly database: string;
  readonly oid: number;
  /** The oid of the role that asks, which must be allowed to use the secrets. */
  readonly me: number;
  readonly expression: string;
  /** The name under which it may read the body, besides `payload`. */
  readonly payload: string;
  readonly secrets: readonly NamedSecret[];
}

export interface Candidate {
  readonly check: RequestCheck;
  /** By alias. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Headers that the table's present check reads, in lower case. */
  readonly readNow: ReadonlySet<string>;
}

/** Throws SqlFailure, Refused, or the engine's error. */
export async function candidateOf(
  databases: Pick<Catalog, 'client' | 'compiler'>,
  question: CandidateQuestion,
): Promise<Candidate> {
  const client = await databases.client(question.database);
  const ids = question.secrets.flatMap(({ id }) => id ?? []);
  const secrets = await readSecrets(client, question.me, ids);
  const { rows } = await readTables(client, [question.oid]);
  return compiled(rows[0], secrets, question, databases.compiler);
}

function compiled(
  row: CatalogRow | undefined,
  found: readonly FoundSecret[],
  { expression, payload, secrets: named }: CandidateQuestion,
  compiler: TableCompiler,
): Candidate {
  if (row === undefined) throw notCommitted('the table is');
  const sealed = named.map((secret) => ({ ...usable(secret, found), alias: secret.alias }));
  const secrets = openSecrets(sealed, compiler);
  for (const { shown, alias } of named)
    if (secrets.get(alias) === '')
      throw new SqlFailure({ sqlstate: '55000', message: `secret "${shown}" is still to be learned` });
  const { check } = compiler.compile(expression, payload, secrets);
  const sns = snsOf({ ...row, secrets: sealed }, compiler);
  return {
    check: sns === undefined ? check : ofTopics(check, sns),
    secrets,
    readNow: readNow(row, compiler),
  };
}

function usable({ shown, id, version }: NamedSecret, all: readonly FoundSecret[]): FoundSecret {
  if (id === null) throw new SqlFailure({ sqlstate: '42704', message: `secret "${shown}" does not exist` });
  const found = all.find((it) => it.id === id);
  if (found === undefined || found.version !== version) throw notCommitted(`secret "${shown}" is`);
  if (found.usable) return found;
  const hint = 'use it as that role or as a member of it.';
  throw new SqlFailure({
    sqlstate: '42501',
    message: `permission denied for secret "${shown}"`,
    ...(found.owner === null ? {} : { hint: `It belongs to role "${found.owner}"; ${hint}` }),
  });
}

/** Empty if the present check does not open, or reads all headers. */
function readNow(row: CatalogRow, compiler: TableCompiler): ReadonlySet<string> {
  try {
    return new Set(makeCheck(row, compiler)?.headers ?? []);
  } catch {
    return new Set();
  }
}

function notCommitted(what: string): SqlFailure {
  return new SqlFailure({
    sqlstate: '55000',
    message: `${what} not committed yet`,
    hint: 'COMMIT first: the check is evaluated outside of this transaction.',
  });
}
