/**
 * Several Headgates of a database see the same alerts, and one of them reports each: it claims the alert in the database concerned
 * (functions/alerts.sql). Takes conditions, returns what to do with each; refuses nothing. While that database cannot be queried,
 * each Headgate reports what it sees; alerts about this Headgate alone are always reported.
 */
import { randomUUID } from 'node:crypto';
import type { Catalog } from '../catalog/catalog.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { keyOf } from './conditions.ts';
import type { AlertCondition } from './conditions.ts';
import { isKept } from './state-file.ts';
import type { SavedCondition } from './state-file.ts';

/** `told`: another Headgate has reported it. `wait`: another one is doing so, or still sees it. */
type ClaimResult = 'tell' | 'told' | 'wait';

export interface ClaimSource {
  /**
   * A verdict for each condition. Call it now and then for reported conditions as well: this is how a Headgate says that it still sees
   * them.
   */
  readonly claim: (conditions: readonly AlertCondition[]) => Promise<readonly ClaimResult[]>;
  /** The receiver has accepted them. */
  readonly told: (conditions: readonly AlertCondition[]) => Promise<void>;
  /** Conditions reported by other Headgates that are gone. */
  readonly left: (database: string) => Promise<readonly SavedCondition[]>;
}

export class SharedAlerts implements ClaimSource {
  readonly #databases: Pick<Catalog, 'asked'>;
  readonly #me = randomUUID();

  constructor(databases: Pick<Catalog, 'asked'>) {
    this.#databases = databases;
  }

  async claim(conditions: readonly AlertCondition[]): Promise<readonly ClaimResult[]> {
    const verdicts = new Map<string, ClaimResult>();
    for (const [database, shared] of byDatabase(conditions)) {
      const call = `select condition, verdict from headgate.claim_alerts('${this.#me}', ${jsonOf(shared)})`;
      for (const { condition, verdict } of await this.#rows<{ condition: string; verdict: ClaimResult }>(
        database,
        call,
      ))
        verdicts.set(condition, verdict);
    }
    return conditions.map(({ rule, labels }) => verdicts.get(keyOf(rule.name, labels)) ?? 'tell');
  }

  async told(conditions: readonly AlertCondition[]): Promise<void> {
    for (const [database, shared] of byDatabase(conditions))
      await this.#rows(database, `select headgate.told_alerts('${this.#me}', ${jsonOf(shared)})`);
  }

  async left(database: string): Promise<readonly SavedCondition[]> {
    const rows = await this.#rows<{ condition: string; since: string; says: string }>(
      database,
      'select condition, (extract(epoch from since) * 1000)::bigint::text as since, says from headgate.left_alerts()',
    );
    return rows.flatMap(({ condition, since, says }) => {
      const [rule, labels] = JSON.parse(condition) as unknown[];
      const kept = { rule, labels, sinceMs: Number(since), says };
      return isKept(kept) && kept.labels['database'] === database ? [kept] : [];
    });
  }

  /** Empty if the database cannot be queried. */
  async #rows<Row extends object>(database: string, sql: string): Promise<readonly Row[]> {
    return (await this.#databases.asked<Row>(database, sql).catch(() => null)) ?? [];
  }
}

function byDatabase(conditions: readonly AlertCondition[]): ReadonlyMap<string, readonly AlertCondition[]> {
  const found = new Map<string, AlertCondition[]>();
  for (const condition of conditions) {
    const { database } = condition.labels;
    if (condition.rule.shared !== true || database === undefined) continue;
    const known = found.get(database);
    if (known !== undefined) known.push(condition);
    else if (found.size < limits.alertDatabasesMax) found.set(database, [condition]);
  }
  return found;
}

function jsonOf(conditions: readonly AlertCondition[]): string {
  const given = conditions.map((condition) => ({
    condition: keyOf(condition.rule.name, condition.labels),
    firing: condition.state !== 'over',
    told: condition.told,
    since: new Date(condition.sinceMs).toISOString(),
    says: condition.says.slice(0, 500),
  }));
  return `${quoteLiteral(JSON.stringify(given))}::pg_catalog.jsonb`;
}
