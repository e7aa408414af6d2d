/**
 * The transaction that stores decoded rows of one group, in one write. Takes requests and the statements of their table; returns what became of all
 * of them together. As a rule these are two statements: one that locks the table and asks whether it is still the same (`holdPlainStep`), and the rows
 * (`storeStatement`). Besides the rows' own statements it holds what code needs that runs in its session: the search_path in a session that others use,
 * too, and what is cleaned up there.
 */
import type { Rows } from '../types/rows.ts';
import { limits } from '../config/limits.ts';
import { isPlain } from './plan-lock.ts';
import { claimSteps } from './deliveries.ts';
import { isForgotten, told } from './interpret-reply.ts';
import { committed, isUndecided } from './newest-statements.ts';
import type { StoreAttempt } from './engine-reply.ts';
import type { StatementStep } from './commit-connection.ts';
import { inTurn } from './session.ts';
import { lost } from './engine-reply.ts';
import type { CommitSession } from './session.ts';
import { cleanUpStatements, forCitus, safePath, settingSteps } from './transaction-statements.ts';
import { toRuns } from './row-runs.ts';
import type { TableStatements } from './table-statements.ts';
import { executeMessages, flushMessage, parseMessage, syncMessage } from './wire-message.ts';

export class DecodedTransaction {
  readonly session: CommitSession;
  readonly table: TableStatements;
  /** One row per statement: set when the engine reports that one statement met a row twice. */
  #singly = false;

  constructor(session: CommitSession, table: TableStatements) {
    this.session = session;
    this.table = table;
  }

  /** Stores the rows of these members in one transaction. `mayTry`: see TableStatements.steps. */
  async store(members: readonly Rows[], mayTry = true): Promise<StoreAttempt> {
    const rows = this.steps(members, mayTry);
    const trials = rows.find((step) => step.trials !== undefined)?.trials;
    const before = this.before(rows);
    const then = this.table.isHeldFor(rows) ? rows : [...rows, ...this.after()];
    const steps = [...before, ...then];
    const first = this.first;
    const last = this.last;
    for (let tries = 1; ; tries++) {
      const opening = this.opening(before, steps);
      // The number of the transaction is sent before its commit begins.
      const messages = inTurn(first.messages, opening, this.session.execute(then), last.messages, [
        flushMessage,
        syncMessage,
      ]);
      const [reply = lost] = await this.session.send(messages, [first.count + steps.length + last.count]);
      if (reply.kind === 'done') {
        this.session.prepared.succeeded();
        trials?.passed();
        return reply.stale === undefined
          ? { kind: 'committed' }
          : committed(reply, steps, first.count, members);
      }
      if (reply.kind === 'failed') {
        if (isForgotten(reply) && tries === 1) {
          this.session.prepared.forgotten();
          continue;
        }
        const known = told(reply, steps, first.count);
        if (known !== reply) return known;
        if (trials !== undefined && isUndecided(reply)) {
          trials.failed();
          return this.store(members, false);
        }
        if (reply.sqlstate === metTwice && !this.#singly) {
          this.#singly = true;
          return this.store(members);
        }
      }
      return this.session.settled(reply);
    }
  }

  /** `again`: see CommitSession.prepare. Where a deletion waits for everybody else (lock-table.ts), nobody waits in a circle if nothing is prepared before. */
  opening(
    before: readonly StatementStep[],
    steps: readonly StatementStep[],
    again = false,
  ): readonly Buffer[] {
    const isLate = this.table.target.shape.newest !== undefined;
    return this.session.opening(before, this.session.prepare(steps, again), isLate);
  }

  /** The first steps of every transaction. */
  before(rows: readonly StatementStep[]): StatementStep[] {
    const { target } = this.table;
    return [...settingSteps(this.session.settings(target)), ...this.table.before(rows)];
  }

  /** The last steps. */
  after(): StatementStep[] {
    return this.table.after(this.session.facts);
  }

  /** What comes before all steps, and after them, in a session that others use. */
  get first(): ResetSettings {
    return this.session.shared ? pathIsSafe : nothing;
  }

  get last(): ResetSettings {
    const { target } = this.table;
    return this.session.shared && !isPlain(target) ? cleanUp(this.session.commitOf(target)) : nothing;
  }

  /** The steps that store the rows of these members. */
  steps(members: readonly Rows[], mayTry = false): StatementStep[] {
    const rowsMax = this.#singly ? 1 : Infinity;
    const runs = toRuns(members, { rowsMax, bytesMax: limits.groupBytesMax });
    const rows = this.table.steps(runs, this.session.facts, this.session.commitOf(this.table.target), mayTry);
    return [...claimSteps(this.table.target, members), ...rows];
  }
}

/** One statement met the same row twice: keys that differ in a document are one key to the engine. */
const metTwice = '21000';

/** Messages that are always the same, and the number of their statements. */
interface ResetSettings {
  readonly messages: readonly Buffer[];
  readonly count: number;
}

const nothing: ResetSettings = { messages: [], count: 0 };

function inOrder(...statements: readonly string[]): ResetSettings {
  const messages = statements.flatMap((sql) => [parseMessage('', sql, []), ...executeMessages('', [])]);
  return { messages, count: statements.length };
}

/** The settings of a session that others use are not known: the path is set before anything is parsed. */
const pathIsSafe = inOrder(
  `select pg_catalog.set_config('search_path', '${safePath}', true), ${forCitus(true)}`,
);

/** Others use the session next: what code has left in it is removed in its own transaction. */
const cleanUp = (commit: string): ResetSettings => inOrder(...cleanUpStatements(commit));
