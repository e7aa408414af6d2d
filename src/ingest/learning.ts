/**
 * A secret that a sender brings with its handshake: stored sealed, and the handshake is answered only once that is committed.
 * Of any number of values, at any number of Headgates, the first is kept; if the same value comes again it gets the same
 * answer, and a different value is reported to the owner of the secret. Takes the rule and the value; returns whether the
 * secret now has that value. Throws Refused (`engine_unavailable`). Uses a borrowed connection.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Learns } from '../types/answers.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { identities } from '../catalog/seals.ts';
import type { SealDeps } from '../catalog/seals.ts';

interface Lender {
  query(query: { text: string; values: unknown[]; query_timeout: number }): Promise<{ rows: unknown[] }>;
  release(destroy?: boolean): void;
}

export interface LearningDeps extends SealDeps {
  readonly newId: () => string;
  readonly connect: (database: string) => Promise<Lender>;
  /** Reads the catalog of a database again. */
  readonly refresh: (table: Pick<Target, 'database' | 'oid'>) => Promise<void>;
  readonly observe: Observe;
}

export type Learn = (
  target: Target,
  learns: Learns,
  value: string,
  remoteAddress: string,
) => Promise<boolean>;

interface LearnedRow {
  readonly outcome: 'learned' | 'taken' | 'closed';
  readonly seal_id: string | null;
  readonly sealed: string | null;
}

const learnSql =
  'select outcome, seal_id::pg_catalog.text, sealed from headgate.learn_secret($1, $2, $3, $4)';
const keepSql = 'select headgate.keep_certificate($1, $2, $3, $4) as kept';
const contestSql = 'select headgate.contest_secret($1, $2)';

export function createLearning(deps: LearningDeps): Learn {
  return async (target, { name, sealId }, value, remoteAddress) => {
    const newId = deps.newId();
    const sealed = deps.seal(value, identities.secret(name, newId));
    const ask = (text: string, values: unknown[]) => asked<LearnedRow>(deps, target.database, text, values);
    const [found] = await ask(learnSql, [sealId, newId, sealed, remoteAddress]);
    if (found?.outcome === 'learned') {
      deps.observe({ kind: 'secret.learned', table: target, secret: name, remoteAddress });
      // The next request is checked with it.
      await deps.refresh(target).catch(() => undefined);
      return true;
    }
    if (found?.outcome !== 'taken' || found.seal_id === null || found.sealed === null) return false;
    if (isSame(deps.open(found.sealed, identities.secret(name, found.seal_id)), value)) return true;
    await ask(contestSql, [found.seal_id, remoteAddress]);
    deps.observe({ kind: 'secret.contested', table: target, secret: name, remoteAddress });
    return false;
  };
}

/** Stores a certificate as the first secret of a table that names SNS topics; false: the secret is not one that learns. */
export function createKeeping(deps: LearningDeps) {
  return async ({ database, sns }: Target, certificate: string): Promise<boolean> => {
    const [topic] = sns?.topics.values() ?? [];
    if (sns === undefined || topic === undefined) return false;
    const { name, sealId } = sns.secret;
    const newId = deps.newId();
    const sealed = deps.seal(certificate, identities.secret(name, newId));
    const [row] = await asked<{ kept: boolean }>(deps, database, keepSql, [
      sealId,
      newId,
      sealed,
      topic.host,
    ]);
    return row?.kept === true;
  };
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The rows of one statement. Throws Refused if the database cannot be queried. */
export async function asked<Row>(
  { connect }: Pick<LearningDeps, 'connect'>,
  database: string,
  text: string,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  let usable = false;
  const client = await connect(database).catch(() => null);
  if (client === null) throw new Refused('engine_unavailable');
  try {
    const { rows } = await client.query({ text, values: [...values], query_timeout: limits.learnMs });
    usable = true;
    return rows as Row[];
  } catch {
    throw new Refused('engine_unavailable');
  } finally {
    client.release(!usable);
  }
}
