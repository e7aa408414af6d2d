/** The way of rows of one JSONB column without a key: the documents as they are, in one binary COPY; one that is alone as a prepared INSERT. */
import type { Outcome, Rows, Target } from '../flow.ts';
import { refusal } from '../refusals.ts';
import { copyMessages, groupStatement } from './copy-message.ts';
import { commitIsolating } from './isolate.ts';
import { aborted, isConflict, judgeGroup } from './judge.ts';
import { documentRefusal } from './reasons.ts';
import type { Statement } from './prepared.ts';
import type { Failed } from './round-trip.ts';
import type { Attempt, Session } from './session.ts';
import { singleDocument, singleRowMessages, singleRowStatement } from './single-row.ts';
import type { Settings } from './table-statements.ts';
import { queryMessage } from './wire-message.ts';

/** Attempts of one group that the engine ended for reasons of its own (deadlock, serialization). */
const conflictAttemptsMax = 3;

interface CopyStatement {
  readonly message: Buffer;
  readonly count: number;
}

const statements = new WeakMap<Target, CopyStatement>();
const singles = new WeakMap<Target, Statement>();
/** Tables, or engines, that take a COPY and not that statement: a rule is one reason. They are not asked twice for each row. */
const notSingly = new WeakSet<Target>();

export function commitCopy(
  session: Session,
  target: Target,
  members: readonly Rows[],
  namedRefusalsMax: number,
): Promise<readonly Outcome[]> {
  const settings = session.settings(target);
  const { message, count } = statementOf(target, settings);
  const attempt = async (some: readonly Rows[]): Promise<Attempt> => {
    const single = hasOwn(settings) && !notSingly.has(target) ? singleDocument(some) : null;
    let refusedSingly = false;
    if (single !== null) {
      const statement = singleOf(target);
      const stored = await session.storeSingle(statement, singleRowMessages(statement, single));
      if (stored !== null && stored !== 'not worth it') return stored;
      refusedSingly = stored === null;
    }
    for (let tries = 1; ; tries++) {
      const [reply] = await session.send([message, ...copyMessages(some)], [count]);
      if (reply === undefined) return { kind: 'lost', reason: 'no answer' };
      if (reply.kind === 'done' && refusedSingly) notSingly.add(target);
      if (reply.kind !== 'failed') return session.settled(reply);
      if (!isConflict(reply) || tries === conflictAttemptsMax) return reply;
    }
  };
  return commitIsolating(
    {
      attempt,
      judge: async (failed) => {
        const outcome = judgeGroup(failed);
        if (outcome !== null) return { blame: 'group', outcome };
        if (failed.sqlstate === '23505' && (await session.hasKey(target)))
          return { blame: 'group', outcome: aborted(refusal('table_changed')) };
        return { blame: 'row', outcome: aborted(documentRefusal(failed)) };
      },
      lineOf: (failed) => lineOf(failed, target.table),
      namedRefusalsMax,
    },
    members,
  );
}

function statementOf(target: Target, settings: Settings): CopyStatement {
  // Almost every group has the same settings: those of the connection.
  const usual = settings.timeoutMs === null;
  const known = usual ? statements.get(target) : undefined;
  if (known !== undefined) return known;
  const { sql, count } = groupStatement(target, settings);
  const made = { message: queryMessage(sql), count };
  if (usual) statements.set(target, made);
  return made;
}

function singleOf(target: Target): Statement {
  let statement = singles.get(target);
  if (statement === undefined) {
    statement = singleRowStatement(target);
    singles.set(target, statement);
  }
  return statement;
}

/** A connection of Headgate's own, whose settings are what the group needs: nothing is set for its transaction. */
function hasOwn({ commit, timeoutMs }: Settings): boolean {
  return commit === 'as it is' && timeoutMs === null;
}

/** The row that the engine's CONTEXT names. A name that merely looks like the text must not blame another row. */
function lineOf({ where }: Failed, table: string): number | null {
  const prefix = `COPY ${table}, line `;
  for (const context of where.split('\n')) {
    if (!context.startsWith(prefix)) continue;
    const digits = /^\d{1,9}/.exec(context.slice(prefix.length))?.[0];
    if (digits !== undefined) return Number(digits);
  }
  return null;
}
