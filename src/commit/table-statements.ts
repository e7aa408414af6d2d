/**
 * What is sent for the rows of one version of a table: its statements, made once, and the steps of a transaction.
 * Pure. Rows of a table whose code runs as its owner go through that role's function (executor.ts); between them
 * and COMMIT nothing is used that a session remembers by name, because such code could have put something else there.
 */
import { relationName } from '../kit/sql-text.ts';
import type { Column } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import type { SessionFacts } from './session-facts.ts';
import { limits } from '../config/limits.ts';
import { executorCall, executorCheck, executorLock, permissionCheck } from '../catalog/executor.ts';
import type { Privilege } from '../catalog/executor.ts';
import {
  fireSql,
  heldMessages,
  heldStatement,
  heldTextSql,
  holdInert,
  holdInertMessages,
  holdMessages,
  holdStatement,
  isPlain,
  lockMessages,
  noStatisticsSql,
  staysStatement,
  textOf,
} from './hold.ts';
import { toStatement } from './prepared.ts';
import type { Statement } from './prepared.ts';
import type { Run } from './runs.ts';
import {
  confirmCataloguedStatement,
  confirmStatement,
  isKeyed,
  lockStatements,
  probeStatement,
  removeProbeStatement,
  removeStatement,
  settingStatements,
  storeDocumentsStatement,
  storeStatement,
  storeValuesStatement,
  typeOids,
} from './statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { Parameter, Part } from './wire-message.ts';

/** One statement with its parameters, as it is sent. */
export interface Step {
  /** null: it is unnamed, and parsed each time. */
  readonly statement: Statement | null;
  /** Made when they are about to be written, so that a large request is not held twice. `name`: of the prepared statement. */
  readonly messages: (name?: string) => readonly Buffer[];
  /** It stores nothing, and fails with 22P02 if the table, or what is needed for it, has changed. */
  readonly checks?: true;
  readonly deletes?: true;
  /** It calls the function of the table's owner, which checks the table itself. */
  readonly calls?: true;
  /** It claims the ids of deliveries (deliveries.ts). */
  readonly claims?: true;
  /** It comes between rows, and stores none. */
  readonly between?: true;
}

/** A statement with the types of its parameters. */
interface Sql {
  readonly text: string;
  readonly types: readonly number[];
  /** Made when it is first used. */
  statement: Statement | null;
}

function sql(text: string, types: readonly number[]): Sql {
  return { text, types, statement: null };
}

function named(of: Sql, parameters: readonly Parameter[]): Step {
  of.statement ??= toStatement(of.text, of.types);
  const { statement } = of;
  return { statement, messages: (name = statement.name) => executeMessages(name, parameters) };
}

function nameless({ text: of, types }: Sql, parameters: readonly Parameter[]): Step {
  return {
    statement: null,
    messages: () => [parseMessage('', of, types), ...executeMessages('', parameters)],
  };
}

/**
 * Code of an owner whom Headgate does not trust could put something else under a name, also if it did not exist when the table was read, and
 * so could a new owner of a table that a foreign key looks into.
 */
function stepOf({ code }: Target): typeof named {
  return code.as === 'headgate' && !code.joined ? named : nameless;
}

/** A step that is always the same. */
function fixed(step: Step): Step {
  const made = step.messages();
  return { ...step, messages: (name) => (name === undefined ? made : step.messages(name)) };
}

const { bytea, int8, json, oid, text } = typeOids;

/** Sets of kept columns whose statement is remembered; for others it is made each time. */
const keptVariantsMax = 64;
const executorTypes = [text, oid, text, text, json, text, bytea];
const rowTypes = [json, text, bytea];

export class TableStatements {
  readonly target: Target;
  /** Checks whether the table is still the one of the target. */
  readonly confirm: Step;
  /** Whether rows of this table can be deleted by their key. */
  readonly deletes: boolean;
  readonly #remove: Sql | null;
  readonly #removeProbe: Sql | null;
  readonly #store = new Map<string, Sql>();
  /** Rows, or deliveries, are taken in an order. */
  readonly #ordered: boolean;
  readonly #locks: { readonly shared: Step; readonly alone: Step } | null;
  readonly #hold: readonly Step[];
  /** Before rows that are looked for in the table; null: as before others. */
  readonly #holdScan: readonly Step[] | null;
  /** As confirm, and cheaper: for a table that runs no code. */
  readonly #stays: Step | null;
  readonly #asOwner: boolean;
  /** Between rows that foreign keys join to other tables, and after them: are these still of owners who are trusted? */
  readonly #asked: readonly Step[];

  constructor(target: Target) {
    this.target = target;
    const { code } = target;
    this.#asOwner = code.as === 'owner';
    this.#asked =
      code.joined && code.as === 'headgate'
        ? [fixed({ ...nameless(sql(heldTextSql(target), []), []), checks: true, between: true })]
        : [];
    const step = stepOf(target);
    const ask = code.functionsIn === 'headgate' ? confirmCatalogued : confirm;
    this.confirm = { ...fixed(step(ask, confirmParameters(target))), checks: true };
    const table = [textOf(String(target.oid))];
    this.#ordered = isKeyed(target.shape) || target.dedupe !== undefined;
    // What all tables share is for those whose owners Headgate trusts: the others might hold it.
    this.#locks =
      target.hasLocks && this.#ordered && code.as === 'headgate'
        ? { shared: fixed(named(lockShared, table)), alone: fixed(named(lockAlone, table)) }
        : null;
    const remove = removeStatement(target);
    this.deletes = remove !== null;
    this.#remove = remove === null ? null : sql(remove, rowTypes);
    const probe = removeProbeStatement(target);
    this.#removeProbe = probe === null ? null : sql(probe, rowTypes);
    this.#stays = staysStep(target);
    this.#hold = holdSteps(target, this.confirm, this.#stays);
    this.#holdScan = code.as === 'nobody' ? holdScanSteps(target, this.confirm) : null;
  }

  /** Decodes these columns of some rows and discards them. */
  probe(columns: readonly Column[], parts: readonly Part[], facts: SessionFacts): Question {
    return this.#probe(sql(probeStatement(this.target, columns), rowTypes), parts, facts);
  }

  /** Decodes the keys of rows that are to be deleted; null: none can be. */
  removeProbe(parts: readonly Part[], facts: SessionFacts): Question | null {
    return this.#removeProbe === null ? null : this.#probe(this.#removeProbe, parts, facts);
  }

  /** The first steps of a transaction that takes these steps. `isVerified`: see executorCheck. */
  before(steps: readonly Step[], { role }: SessionFacts, isVerified: boolean): Step[] {
    const count = steps.filter(({ between, claims }) => between !== true && claims !== true).length;
    if (!this.#asOwner) {
      const known = this.#locks === null ? [] : [count > 1 ? this.#locks.alone : this.#locks.shared];
      const deletes = steps.some((it) => it.deletes === true);
      return [...known, ...(deletes && this.#holdScan !== null ? this.#holdScan : this.#hold)];
    }
    // The function locks the table and checks it itself.
    const { code, oid: table, shape } = this.target;
    const lock = this.#ordered
      ? [nameless(sql(executorLock(role, code, table, count > 1 ? 'alone' : 'shared'), []), [])]
      : [];
    const privileges: Privilege[] = ['INSERT'];
    if (shape.writeMode === 'upsert') privileges.push('UPDATE');
    if (steps.some(({ deletes }) => deletes === true)) privileges.push('DELETE');
    const checks = isVerified ? [] : [executorCheck(role, code)];
    checks.push(permissionCheck(table, privileges));
    return [...lock, ...checks.map((it) => ({ ...nameless(sql(it, []), []), checks: true }) as const)];
  }

  /** The step that stores no rows. */
  noRows(facts: SessionFacts, commit: string): Step[] {
    return [this.#rows(this.#storing([], 0), [], null, facts), ...this.#asked, ...this.#pins(commit)];
  }

  /** The steps that store these rows, in order. */
  steps(runs: readonly Run[], facts: SessionFacts, commit: string): Step[] {
    const steps: Step[] = [];
    // After the last rows the transaction's end, or their mark (session-care.ts), asks.
    const add = (step: Step) =>
      steps.push(...(steps.length === 0 ? [] : this.#asked), step, ...this.#pins(commit));
    for (const { kept, parts, rows, deletes } of runs) {
      if (deletes === null) {
        add(this.#rows(this.#storing(kept, rows), parts, null, facts));
        continue;
      }
      // What is stored and deleted again is stored first; a key whose last row stores it is not deleted.
      const removed = deletes.reduce((sum, flag) => sum + flag, 0);
      if (removed < rows) add(this.#rows(this.#storing(kept, rows - removed), parts, null, facts));
      if (this.#remove === null) throw new Error('rows of a table without a key are not deleted');
      const all = parts.map((part) => ({ ...part, without: null }));
      add({ ...this.#rows(this.#remove, all, deletes, facts), deletes: true });
    }
    return steps;
  }

  /** The last steps of a transaction. */
  after(facts: SessionFacts, commit: string): Step[] {
    const { inert, joined } = this.target.code;
    // The function has checked whether the table is what it was, and the path is safe again.
    if (this.#asOwner) return [nameless(pins, [textOf(commit)])];
    if (this.#stays !== null) return [this.#stays];
    // Triggers that fire at COMMIT see the same path as those before them.
    const own = inert ? [] : [stepOf(this.target)(path, [textOf(facts.path)])];
    const fired = joined
      ? [...own, nameless(sql(fireSql, []), []), ...this.#asked, ...this.#pins(commit)]
      : [];
    return [...fired, this.confirm, ...own];
  }

  /** What code has set must not apply to what comes next. */
  #pins(commit: string): Step[] {
    if (this.#asOwner || this.target.code.inert) return [];
    return [{ ...stepOf(this.target)(pins, [textOf(commit)]), between: true }];
  }

  #storing(kept: readonly string[], rows: number): Sql {
    const byValues = goesByValues(this.target, rows);
    const key = [String(byValues), ...kept].join('\0');
    let storing = this.#store.get(key);
    if (storing === undefined) {
      storing = sql(storingSql(this.target, kept, byValues), rowTypes);
      if (this.#store.size < keptVariantsMax) this.#store.set(key, storing);
    }
    return storing;
  }

  #rows(of: Sql, parts: readonly Part[], deletes: Buffer | null, facts: SessionFacts): Step {
    const documents = { format: 0, value: parts } as const;
    if (this.#asOwner) {
      const { call, parameters } = this.#call(of, documents, deletes, facts);
      return { ...nameless(call, parameters), calls: true };
    }
    return stepOf(this.target)(of, [documents, textOf(facts.path), { format: 1, value: deletes }]);
  }

  #call(of: Sql, documents: Parameter, deletes: Buffer | null, facts: SessionFacts) {
    const [name, place, version] = confirmParameters(this.target);
    const call = sql(executorCall(facts.role, this.target.code), executorTypes);
    const last = [textOf(facts.path), { format: 1, value: deletes } as const];
    return { call, parameters: [name, place, version, textOf(of.text), documents, ...last] };
  }

  #probe(of: Sql, parts: readonly Part[], facts: SessionFacts): Question {
    const documents = { format: 0, value: parts } as const;
    const nothing = { format: 1, value: null } as const;
    const { call, parameters } = this.#asOwner
      ? this.#call(of, documents, null, facts)
      : { call: of, parameters: [documents, textOf(facts.path), nothing] };
    const parse = parseMessage('', call.text, call.types);
    const messages = executeMessages('', parameters);
    const { as, inert } = this.target.code;
    if (as !== 'headgate' || inert) return { parse, messages, count: 1 };
    // Its types may run code, which may be another owner's by now.
    const held = this.#hold.flatMap((step) => [...(step.statement?.messages ?? []), ...step.messages()]);
    return { parse: noMessage, messages: [...held, parse, ...messages], count: this.#hold.length + 1 };
  }
}

/** An unnamed statement, and its execution, apart: the next question may be put with the same statement. */
export interface Question {
  readonly parse: Buffer;
  readonly messages: readonly Buffer[];
  /** How many statements are executed; all but the last check the table. */
  readonly count: number;
}

const noMessage = Buffer.alloc(0);

/** The steps before anything of a table runs in Headgate's own session. */
function holdSteps(target: Target, confirm: Step, stays: Step | null): readonly Step[] {
  const { as, functionsIn } = target.code;
  const messages = (name?: string) => holdInertMessages(target, name);
  if (stays !== null) return [fixed({ statement: holdInert(target), messages, checks: true }), stays];
  const lock: Step =
    functionsIn === 'headgate'
      ? { statement: holdStatement, messages: (name?: string) => holdMessages(target, name), checks: true }
      : { statement: null, messages: () => lockMessages(target) };
  // If nobody may act for the owner, the table is checked as a whole before any row.
  if (as === 'nobody') return [{ statement: null, messages: () => lockMessages(target) }, confirm];
  const question = heldStatement(target);
  const held = {
    statement: question,
    messages: (name = question.name) => heldMessages(name, target),
    checks: true,
  } as const;
  return [fixed(lock), fixed(held)];
}

/**
 * Nobody may act for the owner, and planning a statement that reads the table would run the expressions of its statistics: there are none, and
 * none are made meanwhile.
 */
function holdScanSteps(target: Target, confirm: Step): readonly Step[] {
  const lock: Step = { statement: null, messages: () => lockMessages(target, 'share update exclusive') };
  return [fixed(lock), fixed({ ...nameless(sql(noStatisticsSql(target), []), []), checks: true }), confirm];
}

function staysStep(target: Target): Step | null {
  const { as, functionsIn } = target.code;
  if (as !== 'headgate' || !isPlain(target.code) || functionsIn === null) return null;
  const statement = staysStatement(target);
  return fixed({ statement, messages: (name = statement.name) => executeMessages(name, []), checks: true });
}

/** For a row that meets no other the SQLSTATE matters: Citus loses it when it copies. */
function goesByValues({ shape, code }: Target, rows: number): boolean {
  if (shape.distributedByCitus !== true || shape.writeMode === 'copy' || code.functionsIn !== 'headgate')
    return false;
  return rows > 0 && rows <= (shape.writeMode === 'insert' ? 1 : limits.distributedValuesMax);
}

function storingSql(target: Target, kept: readonly string[], byValues: boolean): string {
  if (target.shape.writeMode === 'copy') return storeDocumentsStatement(target);
  return byValues ? storeValuesStatement(target, kept) : storeStatement(target, kept);
}

function confirmParameters({ schema, table, oid: place, shape, code }: Target) {
  return [
    textOf(relationName({ schema, table })),
    textOf(String(place)),
    textOf(shape.version),
    textOf(String(code.owner)),
  ] as const;
}

const lockShared = sql(lockStatements.shared, [int8]);
const lockAlone = sql(lockStatements.alone, [int8]);
const confirmCatalogued = sql(confirmCataloguedStatement, [text, oid, text, oid]);
const confirm = sql(confirmStatement, [text, oid, text, oid]);
const setAsynchronous = sql(settingStatements.asynchronous, []);
const setDurable = sql(settingStatements.durable, []);
const setTimeoutTo = sql(settingStatements.timeout, [text]);
const path = sql(settingStatements.path, [text]);
const pins = sql(settingStatements.pins, [text]);

/** Settings for one transaction only. */
export interface Settings {
  /** Whether COMMIT waits for the disk: never, as the session is set, or whatever the session is set to. */
  readonly commit: 'off' | 'as it is' | 'at least on';
  /** Bound on one statement; null: as the session is set. */
  readonly timeoutMs: number | null;
}

export function settingSteps({ commit, timeoutMs }: Settings, target: Target): Step[] {
  const step = stepOf(target);
  const steps: Step[] = [];
  if (commit === 'off') steps.push(step(setAsynchronous, []));
  if (commit === 'at least on') steps.push(step(setDurable, []));
  if (timeoutMs !== null) steps.push(step(setTimeoutTo, [textOf(String(Math.ceil(timeoutMs)))]));
  return steps;
}

/** `isNameless`: each statement is parsed where it is executed, and depends on nothing that a session remembers. */
export function* executeSteps(steps: readonly Step[], isNameless: boolean): Generator<Buffer> {
  for (const { statement, messages } of steps) {
    if (!isNameless || statement === null) yield* messages();
    else {
      yield statement.nameless;
      yield* messages('');
    }
  }
}

export function* statementsOf(steps: readonly Step[]): Generator<Statement> {
  for (const { statement } of steps) if (statement !== null) yield statement;
}
