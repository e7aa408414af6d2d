/**
 * What is sent for the rows of one version of a table: its statements, made once, and the steps that a transaction
 * takes. Pure.
 */
import type { Column, Target } from '../flow.ts';
import { toStatement } from './prepared.ts';
import type { Statement } from './prepared.ts';
import type { Run } from './runs.ts';
import {
  confirmStatement,
  isKeyed,
  lockStatements,
  relationName,
  removeProbeStatement,
  removeStatement,
  settingStatements,
  probeStatement,
  storeStatement,
  typeOids,
} from './statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { Parameter } from './wire-message.ts';

/** One statement with its parameters, as it goes out. */
export interface Step {
  readonly statement: Statement;
  /** Made when they are about to be written, so that a large request is not held twice. */
  readonly messages: () => readonly Buffer[];
}

function toStep(statement: Statement, parameters: readonly Parameter[]): Step {
  return { statement, messages: () => executeMessages(statement.name, parameters) };
}

/** A step that is always the same. */
function fixed({ statement, messages }: Step): Step {
  const made = messages();
  return { statement, messages: () => made };
}

const { bytea, int8, json, oid, text } = typeOids;

/** Sets of kept columns whose statement is remembered; more are made when they come. */
const keptVariantsMax = 64;

export class TableStatements {
  readonly target: Target;
  /** Says whether the table is still the one of the target. */
  readonly confirm: Step;
  /** null: rows of this table cannot be deleted by their key. */
  readonly remove: Statement | null;
  readonly removeProbe: Statement | null;
  readonly #store = new Map<string, Statement>();
  readonly #locks: { readonly shared: Step; readonly alone: Step } | null;

  constructor(target: Target) {
    this.target = target;
    this.confirm = fixed(
      toStep(confirm, [textOf(relationName(target)), textOf(String(target.oid)), textOf(target.shape.mark)]),
    );
    const table = [textOf(String(target.oid))];
    this.#locks = isKeyed(target.shape)
      ? { shared: fixed(toStep(lockShared, table)), alone: fixed(toStep(lockAlone, table)) }
      : null;
    const remove = removeStatement(target);
    this.remove = remove === null ? null : toStatement(remove, [json, bytea]);
    const probe = removeProbeStatement(target);
    this.removeProbe = probe === null ? null : { name: '', messages: [parseMessage('', probe, [json])] };
  }

  store(kept: readonly string[]): Statement {
    const key = kept.join('\0');
    let statement = this.#store.get(key);
    if (statement === undefined) {
      statement = toStatement(storeStatement(this.target, kept), [json]);
      if (this.#store.size < keptVariantsMax) this.#store.set(key, statement);
    }
    return statement;
  }

  /** Decodes these columns and throws them away. */
  probe(columns: readonly Column[]): Statement {
    const sql = probeStatement(columns);
    return { name: '', messages: [parseMessage('', sql, [json])] };
  }

  /** What a transaction begins with that takes these steps; empty where rows have no key. */
  lock(steps: readonly Step[]): Step[] {
    if (this.#locks === null) return [];
    return [steps.length > 1 ? this.#locks.alone : this.#locks.shared];
  }

  /** The steps that store these rows, in order. */
  steps(runs: readonly Run[]): Step[] {
    const steps: Step[] = [];
    for (const { kept, parts, rows, removes } of runs) {
      const documents = { format: 0, value: parts } as const;
      if (removes === null) {
        steps.push(toStep(this.store(kept), [documents]));
        continue;
      }
      // What is stored and deleted again is stored first; a key whose last row stores it is not deleted.
      const removed = removes.reduce((sum, flag) => sum + flag, 0);
      if (removed < rows) steps.push(toStep(this.store(kept), [documents]));
      if (this.remove === null) throw new Error('rows of a table without a key are not deleted');
      const all = { format: 0, value: parts.map((part) => ({ ...part, without: null })) } as const;
      steps.push(toStep(this.remove, [all, { format: 1, value: removes }]));
    }
    return steps;
  }
}

const lockShared = toStatement(lockStatements.shared, [int8]);
const lockAlone = toStatement(lockStatements.alone, [int8]);
const confirm = toStatement(confirmStatement, [text, oid, text]);
const setAsynchronous = fixed(toStep(toStatement(settingStatements.asynchronous, []), []));
const setDurable = fixed(toStep(toStatement(settingStatements.durable, []), []));
const setTimeoutTo = toStatement(settingStatements.timeout, [text]);

/** What holds for one transaction only. */
export interface Settings {
  /** Whether COMMIT waits for the disk: never, as the session has it, or whatever the session has. */
  readonly commit: 'off' | 'as it is' | 'at least on';
  /** Bound on one statement; null: as the session has it. */
  readonly timeoutMs: number | null;
}

export function settingSteps({ commit, timeoutMs }: Settings): Step[] {
  const steps: Step[] = [];
  if (commit === 'off') steps.push(setAsynchronous);
  if (commit === 'at least on') steps.push(setDurable);
  if (timeoutMs !== null) steps.push(toStep(setTimeoutTo, [textOf(String(Math.ceil(timeoutMs)))]));
  return steps;
}

export function* executeSteps(steps: readonly Step[]): Generator<Buffer> {
  for (const step of steps) yield* step.messages();
}

function textOf(value: string): Parameter {
  return { format: 0, value: Buffer.from(value) };
}
