/**
 * What is sent for the rows of one version of a table: its statements, made once, and the steps of a transaction, one for each run of rows. Pure.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { typeOids } from '../relations/shape.ts';
import { runsNoCode, lockAndConfirmStep, confirmsInInsert, isMeantFirst } from './plan-lock.ts';
import type { SessionFacts } from './commit-connection.ts';
import type { PreparedStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { CountedBackoff } from './counted-backoff.ts';
import { holdSteps, lockMessages } from './lock-table.ts';
import { textOf } from './wire-message.ts';
import {
  isNewestOnly,
  removeOlderStatement,
  storeNewerStatement,
  storeNewestStatement,
} from './newest-statements.ts';
import { namelessStep, stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import {
  isKeyed,
  removeStatement,
  storeDocumentsStatement,
  storeStatement,
  storingTypes,
  storeValuesStatement,
} from './statements.ts';
import { toRuns } from './row-runs.ts';
import type { RowRun } from './row-runs.ts';
import { confirmStep, keyLocks, pathStep, pinsStep } from './transaction-statements.ts';
import type { KeyLocks } from './transaction-statements.ts';
import type { RowRange } from './wire-message.ts';

type Short = 'one' | 'many';

const trialsOf = rememberedOf<Target, Readonly<Record<Short, CountedBackoff>>>(() => ({
  one: new CountedBackoff(),
  many: new CountedBackoff(),
}));

const { bytea, json, text } = typeOids;

/** Sets of kept columns whose statement is remembered; for others it is made each time. */
const keptVariantsMax = 64;
/** Of the parameters of statements that take rows: the documents, the path of the code, which rows are deleted. */
export const rowTypes = [json, text, bytea];
const noValue = { format: 1, value: null } as const;

/**
 * As a rule (`lockAndConfirmStep`: no code, no key, nothing deleted) a transaction has two steps: one locks and confirms the table (`before`), one stores the rows
 * (`steps`), and none comes after them.
 */
export class TableStatements {
  readonly target: Target;
  /** Checks whether the table is still the one of the target. */
  readonly confirm: StatementStep;
  /** Whether rows of this table can be deleted by their key. */
  readonly deletes: boolean;
  readonly #removeSql: string | null;
  /** Made when it is first used. */
  #remove: PreparedStatement | null = null;
  readonly #store = new Map<string, PreparedStatement>();
  readonly #locks: KeyLocks | null;
  /** The lock and the question in one, for a table that runs no code; null: each is asked for itself. */
  readonly #lockAndConfirm: StatementStep | null;
  readonly #isNewest: boolean;
  /** Of the short statements; null: the rows are stored without. */
  readonly #trials: Readonly<Record<Short, CountedBackoff>> | null;

  constructor(target: Target) {
    this.target = target;
    this.confirm = confirmStep(target);
    const ordered = isKeyed(target.shape) || target.dedupe !== undefined;
    // What all tables share is for sessions in which no owner's code runs: others might hold it.
    this.#locks = target.hasLocks && ordered && target.code.as !== 'owner' ? keyLocks(target) : null;
    const isNewest = isNewestOnly(target);
    this.#isNewest = isNewest;
    this.#removeSql = isNewest ? removeOlderStatement(target) : removeStatement(target);
    this.deletes = this.#removeSql !== null;
    this.#trials = isNewest && runsNoCode(target) ? trialsOf(target) : null;
    this.#lockAndConfirm = confirmsInInsert(target) ? lockAndConfirmStep(target) : null;
  }

  /** Whether statements are prepared after the first steps. Where a deletion waits for everybody else (lock-table.ts), nobody waits in a circle then. */
  get preparesLate(): boolean {
    return this.target.shape.newest !== undefined;
  }

  /** The first steps of a transaction that takes these steps: as a rule one, which locks and confirms the table. */
  before(steps: readonly StatementStep[]): readonly StatementStep[] {
    const count = steps.filter(({ between, claims }) => between !== true && claims !== true).length;
    const deletes = steps.some((it) => it.deletes === true);
    // It will have the table to itself: nobody else's keys, or ids, are in its way.
    if (this.#locks === null || (deletes && this.#isNewest)) return this.lock(deletes);
    return [count > 1 ? this.#locks.alone : this.#locks.shared, ...this.lock(deletes)];
  }

  /** Before anything of the table runs. */
  lock(deletes: boolean): readonly StatementStep[] {
    if (this.#lockAndConfirm !== null && !deletes) return [this.#lockAndConfirm];
    return holdSteps(this.target, this.confirm, deletes, this.#isNewest);
  }

  /** The step that stores no rows. */
  noRows(facts: SessionFacts, commit: string): StatementStep[] {
    return [this.#rows(this.#storing([], 0), [], null, facts), ...this.#pins(commit)];
  }

  /**
   * The steps that store the rows of these members, in order. `rowsMax`: of one statement. `mayTry`: by a statement that may leave it undecided
   * which are newer.
   */
  steps(
    members: readonly Rows[],
    rowsMax: number,
    facts: SessionFacts,
    commit: string,
    mayTry: boolean,
  ): StatementStep[] {
    const runs = toRuns(members, { rowsMax, bytesMax: limits.groupBytesMax });
    const [only] = runs;
    const short = mayTry && runs.length === 1 && only !== undefined ? this.#short(only, facts) : null;
    if (short !== null) return [short];
    const steps: StatementStep[] = [];
    const add = (step: StatementStep) => steps.push(step, ...this.#pins(commit));
    let before = 0;
    for (const { kept, parts, rows, deletes } of runs) {
      const first = before;
      before += rows;
      const rowAt = (place: number) => first + place;
      const said = this.#isNewest ? { rowAt } : null;
      if (deletes === null) {
        add({ ...this.#rows(this.#storing(kept, rows), parts, null, facts), ...said });
        continue;
      }
      // What is stored and deleted again is stored first; a key whose last row stores it is not deleted.
      const removed = deletes.reduce((sum, flag) => sum + flag, 0);
      if (removed < rows)
        add({
          ...this.#rows(this.#storing(kept, rows - removed), parts, null, facts),
          ...(said !== null && { rowAt: (place) => first + storedAt(deletes, place) }),
        });
      if (this.#removeSql === null) throw new Error('rows of a table without a key are not deleted');
      const all = parts.map((part) => ({ ...part, without: null }));
      const [, meant] = isMeantFirst(this.target);
      if (meant !== undefined)
        steps.push(
          { statement: null, messages: () => lockMessages(this.target), between: true },
          { ...namelessStep(meant), checks: true, between: true },
        );
      this.#remove ??= toStatement(this.#removeSql, rowTypes);
      add({ ...this.#rows(this.#remove, all, deletes, facts), deletes: true, ...said });
    }
    return steps;
  }

  #short({ kept, parts, rows, deletes }: RowRun, facts: SessionFacts): StatementStep | null {
    if (this.#trials === null || deletes !== null) return null;
    const short = rows === 1 ? 'one' : 'many';
    const trials = this.#trials[short];
    if (!trials.next()) return null;
    const step = this.#rows(this.#storing(kept, rows, short), parts, null, facts);
    return { ...step, rowAt: (place) => place, trials };
  }

  /** The last steps of a transaction that takes these steps; null: whatever they are. As a rule none: the first step has locked the table, which each step names by its number, too. */
  after(facts: SessionFacts, steps: readonly StatementStep[] | null): StatementStep[] {
    if (this.#lockAndConfirm !== null)
      return steps === null || steps.some(({ deletes }) => deletes === true) ? [this.#lockAndConfirm] : [];
    // Triggers that fire at COMMIT see the same path as those before them.
    const own = runsNoCode(this.target) ? [] : [pathStep(facts.path)];
    return [this.confirm, ...own];
  }

  /** What code has set must not apply to what comes next. */
  #pins(commit: string): StatementStep[] {
    return runsNoCode(this.target) ? [] : [pinsStep(commit)];
  }

  #storing(kept: readonly string[], rows: number, short?: Short): PreparedStatement {
    const byValues = goesByValues(this.target, rows);
    const key = [short ?? String(byValues), ...kept].join('\0');
    let storing = this.#store.get(key);
    if (storing === undefined) {
      const text = short === undefined ? storingSql(this.target, kept, byValues) : null;
      storing = toStatement(
        text ?? storeNewerStatement(this.target, kept, short === 'one'),
        storingTypes(this.target),
      );
      if (this.#store.size < keptVariantsMax) this.#store.set(key, storing);
    }
    return storing;
  }

  #rows(
    statement: PreparedStatement,
    parts: readonly RowRange[],
    deletes: Buffer | null,
    facts: SessionFacts,
  ): StatementStep {
    const documents = { format: 0, value: parts } as const;
    const parameters = [documents, textOf(facts.path), { format: 1, value: deletes }] as const;
    const hasRowsType = deletes === null && this.target.code.rowsType !== undefined;
    return stepOf(statement, hasRowsType ? [...parameters, noValue] : parameters);
  }
}

export const tableStatements = rememberedOf((target: Target) => new TableStatements(target));

/** For a row that meets no other the SQLSTATE matters: Citus loses it when it copies. */
function goesByValues({ shape, code }: Target, rows: number): boolean {
  if (shape.distributedByCitus !== true || shape.writeMode === 'documents' || code.functionsIn !== 'headgate')
    return false;
  return rows > 0 && rows <= (shape.writeMode === 'insert' ? 1 : limits.distributedValuesMax);
}

/** The place of the stored row with this number among rows of which some are deleted. */
function storedAt(deletes: Buffer, number: number): number {
  let left = number;
  return deletes.findIndex((flag) => flag === 0 && left-- === 0);
}

function storingSql(target: Target, kept: readonly string[], byValues: boolean): string {
  if (isNewestOnly(target)) return storeNewestStatement(target, kept);
  if (target.shape.writeMode === 'documents') return storeDocumentsStatement(target);
  return byValues ? storeValuesStatement(target, kept) : storeStatement(target, kept);
}
