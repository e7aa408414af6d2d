/**
 * The SQL of a transaction that takes the rows of one table chunk by chunk; pure: takes a target, returns texts with their values.
 * It guarantees the same as that of a group (table-statements.ts): the owner is checked before anything of the table runs, code of
 * an owner who is not trusted runs in that role's function, and what code has set does not apply to what comes next.
 */
import { relationName } from '../kit/sql-text.ts';
import type { Column } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import { executorCall, executorCheck, makeExecutorSql, permissionCheck } from '../catalog/executor.ts';
import type { Privilege } from '../catalog/executor.ts';
import type { SessionFacts } from './session-facts.ts';
import { fireSql, heldSql, lockSql } from './hold.ts';
import { mayRunCode } from './session-care.ts';
import {
  cleanUpStatements,
  confirmStatement,
  probeStatement,
  safePath,
  settingStatements,
  storeStatement,
} from './statements.ts';
import { executeMessages, parseMessage, syncMessage } from './wire-message.ts';
import type { Part } from './wire-message.ts';

export interface StreamSql {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** A statement that takes documents: a Part is a JSON array. */
export interface PartSql {
  readonly text: string;
  readonly values: readonly (string | Part | null)[];
}

export interface StreamStatements {
  /** Before the transaction: fails with 22P02 if `make` has to run first. null: nothing is needed. */
  readonly check: StreamSql | null;
  readonly make: StreamSql | null;
  /** After BEGIN; 22P02: the table, or who may write to it, has changed. */
  readonly first: readonly StreamSql[];
  readonly store: (documents: Part) => PartSql;
  /** After rows that were stored. */
  readonly stored: readonly StreamSql[];
  /** Decodes one column and changes nothing. */
  readonly probe: (column: Column, documents: Part) => PartSql;
  /** Fails with 22P02 if the table is not the one of the target. */
  readonly confirm: StreamSql;
  /** Before COMMIT. */
  readonly last: readonly StreamSql[];
}

/** Its messages in the extended protocol, unnamed. */
export function partMessages({ text, values }: PartSql): Buffer[] {
  const parameters = values.map((value) =>
    typeof value === 'string' || value === null
      ? { format: 0 as const, value: value === null ? null : Buffer.from(value) }
      : { format: 1 as const, value: [value] },
  );
  return [parseMessage('', text, []), ...executeMessages('', parameters), syncMessage];
}

const plain = (text: string): StreamSql => ({ text, values: [] });

export function streamStatements(target: Target, facts: SessionFacts, shared: boolean): StreamStatements {
  const { code, shape } = target;
  const names = [relationName(target), String(target.oid), shape.version] as const;
  const owner = String(code.owner);
  const confirm = { text: confirmStatement, values: [...names, owner] };
  const privileges: Privilege[] = shape.writeMode === 'upsert' ? ['INSERT', 'UPDATE'] : ['INSERT'];
  const asOwner = code.as === 'owner';
  const setPath = (path: string): StreamSql => ({ text: settingStatements.path, values: [path] });
  const held = {
    text: `select ${heldSql(code, '$1', '$2', '$3')}`,
    values: [names[0], names[1], owner],
  };
  // Once more after what foreign keys have looked at.
  const asked = code.joined && code.as === 'headgate' ? [held] : [];
  const put = (statement: string, documents: Part): PartSql => {
    if (asOwner) {
      const values = [...names, statement, documents, facts.path, null];
      return { text: executorCall(facts.role, code), values };
    }
    return { text: statement, values: code.inert ? [documents] : [documents, facts.path] };
  };
  const store = storeStatement(target);
  const commit = { text: settingStatements.pins, values: [facts.commit] };
  const ending = shared ? cleanUpStatements(facts.commit).map(plain) : [setPath(facts.path)];
  return {
    check: asOwner ? plain(executorCheck(facts.role, code)) : null,
    make: asOwner ? plain(makeExecutorSql(facts.role, code)) : null,
    first: [
      ...(shared ? [setPath(safePath)] : []),
      ...(asOwner
        ? [plain(executorCheck(facts.role, code)), plain(permissionCheck(target.oid, privileges))]
        : [plain(lockSql(target)), code.as === 'nobody' ? confirm : held]),
    ],
    store: (documents) => put(store, documents),
    stored: [...asked, ...(code.inert || asOwner ? [] : [commit])],
    probe: (column, documents) => put(probeStatement(target, [column]), documents),
    confirm,
    last: [
      ...(asked.length === 0 ? [] : [...(code.inert ? [] : [setPath(facts.path)]), plain(fireSql), ...asked]),
      ...(!asOwner && code.inert && !(shared && mayRunCode(code))
        ? []
        : asOwner && !shared
          ? [commit]
          : [commit, ...ending]),
    ],
  };
}
