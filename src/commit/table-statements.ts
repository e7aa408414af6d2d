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
  relationName,
  removeProbeStatement,
  removeStatement,
  probeStatement,
  storeStatement,
  typeOids,
} from './statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { Parameter } from './wire-message.ts';

/** One statement with its parameters. */
export interface Step {
  readonly statement: Statement;
  readonly parameters: readonly Parameter[];
}

const { bytea, json, oid, text } = typeOids;

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

  constructor(target: Target) {
    this.target = target;
    this.confirm = {
      statement: toStatement(confirmStatement, [text, oid, text]),
      parameters: [textOf(relationName(target)), textOf(String(target.oid)), textOf(target.shape.mark)],
    };
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

  /** The steps that store these rows, in order. */
  steps(runs: readonly Run[]): Step[] {
    const steps: Step[] = [];
    for (const { kept, parts, rows, removes } of runs) {
      const documents = { format: 0, value: parts } as const;
      if (removes === null) {
        steps.push({ statement: this.store(kept), parameters: [documents] });
        continue;
      }
      // What is stored and deleted again is stored first; a key whose last row stores it is not deleted.
      const removed = removes.reduce((sum, flag) => sum + flag, 0);
      if (removed < rows) steps.push({ statement: this.store(kept), parameters: [documents] });
      if (this.remove === null) throw new Error('rows of a table without a key are not deleted');
      const all = { format: 0, value: parts.map((part) => ({ ...part, without: null })) } as const;
      steps.push({ statement: this.remove, parameters: [all, { format: 1, value: removes }] });
    }
    return steps;
  }
}

const setAsynchronous = toStatement(`select set_config('synchronous_commit', 'off', true)`, []);
const setTimeoutTo = toStatement(`select set_config('statement_timeout', $1, true)`, [text]);

/** What holds for one transaction only; `timeoutMs` null: as the connection has it. */
export function settingSteps(waitsForDisk: boolean, timeoutMs: number | null): Step[] {
  const steps: Step[] = [];
  if (!waitsForDisk) steps.push({ statement: setAsynchronous, parameters: [] });
  if (timeoutMs !== null)
    steps.push({ statement: setTimeoutTo, parameters: [textOf(String(Math.ceil(timeoutMs)))] });
  return steps;
}

export function executeSteps(steps: readonly Step[]): Buffer[] {
  return steps.flatMap(({ statement, parameters }) => executeMessages(statement.name, parameters));
}

function textOf(value: string): Parameter {
  return { format: 0, value: Buffer.from(value) };
}
