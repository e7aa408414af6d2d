/**
 * A secret that a sender brings with its handshake: stored sealed, and the handshake is answered only once that is committed.
 * Of any number of values, at any number of Headgates, the first is kept; if the same value comes again it gets the same
 * answer, and a different value is reported to the owner of the secret. Takes the rule and the value; returns whether the
 * secret now has that value. Throws Refused (`engine_unavailable`). Uses a borrowed connection.
 */
import { randomUUID, timingSafeEqual } from 'node:crypto';
import type { Learns } from '../types/answers.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { identities } from '../catalog/seals.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import type { Sealing } from '../secrets/sealing.ts';

/** Lends connections of Headgate's own role. */
type Lends = Pick<CommitPools, 'connect'>;

interface LearnedRow {
  readonly outcome: 'learned' | 'taken' | 'closed';
  readonly seal_id: string | null;
  readonly sealed: string | null;
}

const learnSql =
  'select outcome, seal_id::pg_catalog.text, sealed from headgate.learn_secret($1, $2, $3, $4)';
const keepSql = 'select headgate.keep_certificate($1, $2, $3, $4) as kept';
const contestSql = 'select headgate.contest_secret($1, $2)';

export class Learning {
  readonly #sealing: Pick<Sealing, 'open' | 'seal'>;
  readonly #pools: Lends;
  readonly #catalog: Pick<Catalog, 'refresh'>;
  readonly #observe: Observe;

  constructor(
    sealing: Pick<Sealing, 'open' | 'seal'>,
    pools: Lends,
    catalog: Pick<Catalog, 'refresh'>,
    observe: Observe,
  ) {
    this.#sealing = sealing;
    this.#pools = pools;
    this.#catalog = catalog;
    this.#observe = observe;
  }

  /** Gives a secret this value if it has none; resolves with whether it has the value now, committed. Throws Refused. */
  async learn(
    target: Target,
    { name, sealId }: Learns,
    value: string,
    remoteAddress: string,
  ): Promise<boolean> {
    const newId = randomUUID();
    const sealed = this.#sealing.seal(value, identities.secret(name, newId));
    const ask = (text: string, values: unknown[]) =>
      asked<LearnedRow>(this.#pools, target.database, text, values);
    const [found] = await ask(learnSql, [sealId, newId, sealed, remoteAddress]);
    if (found?.outcome === 'learned') {
      this.#observe({ kind: 'secret.learned', table: target, secret: name, remoteAddress });
      // The next request is checked with it.
      await this.#catalog.refresh(target).catch(() => undefined);
      return true;
    }
    if (found?.outcome !== 'taken' || found.seal_id === null || found.sealed === null) return false;
    const kept = this.#sealing.open(found.sealed, identities.secret(name, found.seal_id));
    if (isSame(kept, value)) return true;
    await ask(contestSql, [found.seal_id, remoteAddress]);
    this.#observe({ kind: 'secret.contested', table: target, secret: name, remoteAddress });
    return false;
  }

  /** Stores a certificate as the first secret of a table that names SNS topics; false: the secret is not one that learns. Throws Refused. */
  async keepCertificate({ database, sns }: Target, certificate: string): Promise<boolean> {
    const [topic] = sns?.topics.values() ?? [];
    if (sns === undefined || topic === undefined) return false;
    const { name, sealId } = sns.secret;
    const newId = randomUUID();
    const sealed = this.#sealing.seal(certificate, identities.secret(name, newId));
    const values = [sealId, newId, sealed, topic.host];
    const [row] = await asked<{ kept: boolean }>(this.#pools, database, keepSql, values);
    return row?.kept === true;
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The rows of one statement. Throws Refused if the database cannot be queried. */
export async function asked<Row extends object>(
  pools: Lends,
  database: string,
  text: string,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  let usable = false;
  const client = await pools.connect(database).catch(() => null);
  if (client === null) throw new Refused('engine_unavailable');
  try {
    // The types of node-postgres do not know of this bound.
    const bounded = { text, values: [...values], query_timeout: limits.learnMs };
    const { rows } = await client.query<Row>(bounded);
    usable = true;
    return rows;
  } catch {
    throw new Refused('engine_unavailable');
  } finally {
    client.release(!usable);
  }
}
