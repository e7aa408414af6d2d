/**
 * EXPLAIN ALTER TABLE table VALIDATE … OVER 'interval': what another check would say of the requests that are kept. Takes tokens, returns a plan that is
 * completed when the statement is sent: the client's own session reads the requests, with its rights and a page at a time, and Headgate judges them. Nothing is
 * changed. Refuses what ALTER TABLE … VALIDATE would refuse.
 *
 *   open two cursors, in a transaction → compile the check → fetch a page, judge it, in turns with other work → … → the lines
 */
import { limits } from '../config/limits.ts';
import { SqlFailure } from '../errors/refusals.ts';
import type { Candidate, NamedSecret } from '../catalog/altered-check.ts';
import { Comparison } from '../ingest/explain-over.ts';
import type { OverLine, RefusedRow, StoredRow } from '../ingest/explain-over.ts';
import { longWork } from '../kit/time-slices.ts';
import type { SessionQueries, SqlSession } from '../types/sql.ts';
import { Explainer } from '../validate/explain.ts';
import { type Cursor, type Name, StatementError } from './cursor.ts';
import {
  type StatementPlan,
  callerSchemas,
  displayName,
  functionCall,
  linesPlan,
  relationArgument,
} from './plan.ts';
import type { DdlContext, ParsedCheck } from './statement-context.ts';
import { type ValidateClause, parseClause, parseValidate } from './validate-clause.ts';

const columns = [
  ['requests', 'int8'],
  ['request', 'text'],
  ['received_at', 'timestamptz'],
  ['before', 'text'],
  ['after', 'text'],
  ['reason', 'text'],
] as const;

/** After VALIDATE. */
const ends: ReadonlySet<string> = new Set(['over', 'answer']);

export function explainOver(cursor: Cursor, session: SqlSession, context: DdlContext): StatementPlan {
  cursor.refuseForeign('EXPLAIN ALTER TABLE');
  const name = cursor.qualifiedName(3);
  cursor.expect('validate');
  const clause = parseValidate(cursor, ends);
  if (cursor.peek() === 'answer')
    throw new StatementError('0A000', 'EXPLAIN ALTER TABLE takes no ANSWER', cursor.offset);
  const check = parseClause(clause, context);
  cursor.expect('over');
  const at = cursor.offset;
  const span = cursor.literal(false);
  if (span === null)
    cursor.unexpected("OVER takes how far back requests are looked at, for example OVER '7 days'.");
  cursor.expectEnd();
  return linesPlan(columns, async () => {
    const { queries } = session;
    if (queries === undefined)
      throw new StatementError('0A000', 'EXPLAIN ALTER TABLE is a statement of the SQL port', at);
    const lines = await atMost(() =>
      over({ name, clause, check, span }, session.database, queries(), context),
    );
    return lines.map(({ receivedAt: received_at, ...line }) => ({ ...line, received_at }));
  });
}

let running = 0;

async function atMost<T>(work: () => Promise<T>): Promise<T> {
  if (running >= limits.explainOverAtOnceMax)
    throw new SqlFailure({
      sqlstate: '53400',
      message: `${running} statements EXPLAIN ALTER TABLE ... OVER run already`,
      hint: 'Try again when one of them has ended.',
    });
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
  }
}

interface ExplainedCheck {
  readonly name: Name;
  readonly clause: ValidateClause;
  readonly check: ParsedCheck;
  readonly span: string;
}

/** What headgate.open_kept() returns. */
interface OpenedCursors {
  readonly oid: number;
  readonly me: number;
  readonly bodyName: string;
  readonly batched: boolean;
  readonly keeps: readonly string[];
  readonly secrets: readonly NamedSecret[];
}

async function over(
  asked: ExplainedCheck,
  database: string,
  queries: SessionQueries,
  context: DdlContext,
): Promise<readonly OverLine[]> {
  const { inTransaction } = queries;
  // Both cursors and all pages see the same moment.
  if (!inTransaction) await queries.run('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  let end = inTransaction ? '' : 'ROLLBACK';
  try {
    const opened = await open(asked, queries);
    if (inTransaction)
      end = cursorsOf(opened)
        .map((kind) => `CLOSE "headgate ${kind}"`)
        .join('; ');
    const candidate = await compiled(asked, opened, database, context);
    const explainer = new Explainer(asked.clause.text, {
      secrets: candidate.secrets,
      publicUrl: context.publicUrl,
    });
    const comparison = new Comparison(candidate, explainer, asked.check, opened);
    await new CursorReading(queries, context).all(opened, comparison);
    return comparison.lines();
  } finally {
    // An error within the client's own transaction has ended the cursors already.
    if (end !== '') await queries.run(end, true).catch(() => undefined);
  }
}

const cursorsOf = ({ keeps }: Pick<OpenedCursors, 'keeps'>): readonly ('refused' | 'stored')[] =>
  keeps.includes('timestamp') ? ['refused', 'stored'] : ['refused'];

async function open({ name, clause, span }: ExplainedCheck, queries: SessionQueries): Promise<OpenedCursors> {
  const call = functionCall('open_kept', [
    relationArgument(name),
    displayName(name),
    span,
    { json: clause.secrets.map(({ schema, name: secret }) => ({ schema, name: secret })) },
    callerSchemas,
    { sql: String(limits.explainOverRequestsMax + 1) },
    { sql: String(limits.bodyBytesMax) },
  ]);
  const [row] = await queries.run(call);
  return unpacked(row) as OpenedCursors;
}

async function compiled(
  { check, clause }: ExplainedCheck,
  { oid, me, bodyName, secrets }: OpenedCursors,
  database: string,
  context: DdlContext,
): Promise<Candidate> {
  const { payloadName } = check;
  if (payloadName !== null && payloadName !== 'payload' && payloadName !== bodyName)
    throw new StatementError('42703', `column "${payloadName}" does not exist`, clause.start, {
      hint: `In VALIDATE the body of the request is called ${[...new Set([bodyName, 'payload'])].map((it) => `"${it}"`).join(' or ')}.`,
    });
  const question = { database, oid, me, expression: clause.text, payload: bodyName, secrets };
  return context.candidate(question);
}

/** A row of the cursors is one text. */
function unpacked(row: readonly (string | null)[] | undefined): unknown {
  return JSON.parse(Buffer.from(row?.[0] ?? '', 'base64').toString('utf8'));
}

class CursorReading {
  readonly #queries: SessionQueries;
  readonly #now: () => number;
  readonly #until: number;
  #turnUntil: number;

  constructor(queries: SessionQueries, { now }: Pick<DdlContext, 'now'>) {
    this.#queries = queries;
    this.#now = now;
    this.#until = now() + limits.explainOverMs;
    this.#turnUntil = now() + limits.explainOverTurnMs;
  }

  async all(opened: OpenedCursors, comparison: Comparison): Promise<void> {
    await this.#of('refused', comparison, (row) => comparison.refused(row as RefusedRow));
    if (cursorsOf(opened).includes('stored'))
      await this.#of('stored', comparison, (row) => comparison.stored(row as StoredRow));
    else comparison.skip('stored: the table does not keep when they came; INCLUDE TIMESTAMP AS column does');
  }

  async #of(kind: string, comparison: Comparison, judge: (row: unknown) => void): Promise<void> {
    const { explainOverPageRowsMax, explainOverPageBytesMax, explainOverRequestsMax } = limits;
    let seen = 0;
    let count = 1;
    for (;;) {
      const rows = await this.#queries.run(`FETCH ${count} FROM "headgate ${kind}"`);
      let largest = 1;
      for (const row of rows) {
        seen += 1;
        const isLast = seen > explainOverRequestsMax;
        if (isLast || this.#now() > this.#until) {
          comparison.skip(
            `${kind}: older ones than the newest ${seen - 1}, which is as many as are looked at`,
          );
          return;
        }
        const bytes = row[0]?.length ?? 0;
        largest = Math.max(largest, bytes);
        judge(unpacked(row));
        await this.#rest(bytes);
      }
      if (rows.length < count) return;
      count = Math.max(
        1,
        Math.min(explainOverPageRowsMax, 8 * count, Math.floor(explainOverPageBytesMax / largest)),
      );
    }
  }

  async #rest(bytes: number): Promise<void> {
    if (this.#now() < this.#turnUntil) return;
    await longWork.turn(bytes);
    const { stopped } = this.#queries;
    if (stopped !== null) throw stopped;
    this.#turnUntil = this.#now() + limits.explainOverTurnMs;
  }
}
