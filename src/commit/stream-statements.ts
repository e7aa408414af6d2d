/**
 * The SQL of a transaction that takes the rows of one table chunk by chunk; pure: takes a target, returns texts with their values.
 * It guarantees the same as that of a group (table-statements.ts): the owner is checked before anything of the table runs, and what code has
 * set does not apply to what comes next.
 */
import { relationName } from '../kit/sql-text.ts';
import type { Column } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import type { SessionFacts } from './commit-connection.ts';
import { holdCodeSql, lockSql } from './lock-table.ts';
import type { Privilege } from './lock-table.ts';
import { isNewestOnly, storeNewestStatement } from './newest-statements.ts';
import { probeStatement } from './value-at-fault.ts';
import { storeStatement, storingTypes } from './statements.ts';
import {
  cleanUpStatements,
  confirmStatement,
  safePath,
  settingStatements,
} from './transaction-statements.ts';
import { executeMessages, parseMessage, syncMessage } from './wire-message.ts';
import type { RowRange } from './wire-message.ts';
import { runsNoCode } from './plan-lock.ts';

export interface StreamSql {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** A statement that takes documents: a Part is a JSON array. */
export interface PartSql {
  readonly text: string;
  readonly values: readonly (string | RowRange | null)[];
  /** Of its parameters; absent: PostgreSQL infers them. */
  readonly types?: readonly number[];
}

export interface StreamStatements {
  /** After BEGIN; 22P02 or HG001: the table, or who may write to it, has changed. */
  readonly first: readonly StreamSql[];
  readonly store: (documents: RowRange) => PartSql;
  /** After rows that were stored. */
  readonly stored: readonly StreamSql[];
  /** Decodes one column and changes nothing. */
  readonly probe: (column: Column, documents: RowRange) => PartSql;
  /** Fails with 22P02 if the table is not the one of the target. */
  readonly confirm: StreamSql;
  /** Before COMMIT. */
  readonly last: readonly StreamSql[];
}

/** Its messages in the extended protocol, unnamed. */
export function partMessages({ text, values, types = [] }: PartSql): Buffer[] {
  const parameters = values.map((value) =>
    typeof value === 'string' || value === null
      ? { format: 0 as const, value: value === null ? null : Buffer.from(value) }
      : { format: 1 as const, value: [value] },
  );
  return [parseMessage('', text, types), ...executeMessages('', parameters), syncMessage];
}

const plain = (text: string): StreamSql => ({ text, values: [] });

export function streamStatements(target: Target, facts: SessionFacts, shared: boolean): StreamStatements {
  const { code, shape } = target;
  const isInert = runsNoCode(target);
  const confirm = {
    text: confirmStatement,
    values: [relationName(target), String(target.oid), shape.version, String(code.owner)],
  };
  const needs: Privilege[] = shape.writeMode === 'upsert' ? ['INSERT', 'UPDATE'] : ['INSERT'];
  const setPath = (path: string): StreamSql => ({ text: settingStatements.path, values: [path] });
  const put = (statement: string, documents: RowRange): PartSql => ({
    text: statement,
    values: isInert ? [documents] : [documents, facts.path],
  });
  const store = isNewestOnly(target) ? storeNewestStatement(target) : storeStatement(target);
  const commit = { text: settingStatements.pins, values: [facts.commit] };
  return {
    first: [
      ...(shared ? [setPath(safePath)] : []),
      ...(isInert ? [plain(lockSql(target)), confirm] : [plain(holdCodeSql(target, needs))]),
    ],
    store: (documents) =>
      code.rowsType === undefined
        ? put(store, documents)
        : { text: store, types: storingTypes(target), values: [documents, facts.path, null, null] },
    stored: isInert ? [] : [commit],
    probe: (column, documents) => put(probeStatement(target, [column]), documents),
    confirm,
    last: isInert
      ? []
      : [commit, ...(shared ? cleanUpStatements(facts.commit).map(plain) : [setPath(facts.path)])],
  };
}
