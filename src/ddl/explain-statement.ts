/**
 * EXPLAIN VALIDATE table WITH (headers = '{…}', body = '…', …), and EXPLAIN ALTER TABLE table VALIDATE … OVER 'interval': what another check would say of
 * the requests that are kept. Takes tokens, returns a plan that is completed when the statement is sent, because Headgate evaluates and the client's
 * session decides which table is meant and whether the client may ask. Refuses options that do not describe a request (22023, 22P02), and what
 * ALTER TABLE … VALIDATE would refuse. What it sends on contains no secret, and nothing is changed.
 *
 * Of kept requests the client's own session reads a page at a time, with its rights, and Headgate judges them:
 *
 *   open two cursors, in a transaction → compile the check → fetch a page, judge it, in turns with other work → … → the lines
 */
import type { ExplainRequest, ExplainedTable, SqlSession, SessionQueries } from '../types/sql.ts';
import { StatementError, type Cursor, type Name } from './cursor.ts';
import { encodeText } from './literals.ts';
import { type Option, parseOptions, refuseUnknown } from './options.ts';
import { type StatementPlan, displayName, callerSchemas, relationArgument } from './plan.ts';
import { explainPlan, functionCall, linesPlan } from './result-plans.ts';
import type { DdlContext, ParsedCheck } from './statement-context.ts';
import { refuseSecretInside } from './secret-statements.ts';
import { limits } from '../config/limits.ts';
import { SqlFailure } from '../errors/refusals.ts';
import type { Candidate, NamedSecret } from '../catalog/altered-check.ts';
import { Comparison } from '../ingest/explain-over.ts';
import type { OverLine, RefusedRow, StoredRow } from '../ingest/explain-over.ts';
import { longWork } from '../kit/time-slices.ts';
import { Explainer } from '../validate/explain.ts';
import { type ValidateClause, parseClause, parseValidate } from './validate-clause.ts';

const known = ['headers', 'headers_not_kept', 'body', 'body_base64', 'method', 'url', 'now'];

export function explainStatement(
  cursor: Cursor,
  session: SqlSession,
  context: DdlContext,
): StatementPlan | null {
  cursor.expect('explain');
  if (cursor.accept('alter', 'table')) return explainOver(cursor, session, context);
  if (!cursor.accept('validate')) {
    refuseSecretInside(cursor);
    return null;
  }
  cursor.refuseForeign('EXPLAIN VALIDATE');
  const name = cursor.qualifiedName(3);
  const options = cursor.accept('with') ? parseOptions(cursor) : [];
  cursor.expectEnd();
  const request = readRequest(options);
  return explainPlan(name, displayName(name), async () => {
    const { database, user } = session;
    return linesOf(await context.explain({ database, user, schema: name.schema, table: name.name, request }));
  });
}

function readRequest(options: readonly Option[]): ExplainRequest {
  refuseUnknown(options, known, 'EXPLAIN VALIDATE');
  const option = (name: string): Option | null => options.find((it) => it.name === name) ?? null;
  const headers = option('headers');
  return {
    rawHeaders: headers === null ? [] : readHeaders(headers),
    body: readBody(option('body'), option('body_base64')),
    method: option('method')?.value ?? 'POST',
    url: option('url')?.value ?? null,
    now: option('now')?.value ?? null,
    notKept: (option('headers_not_kept')?.value ?? '')
      .split(',')
      .map((name) => encodeText(name.trim()))
      .filter((name) => name !== ''),
  };
}

/** {"name": "value"}; a list is a header that arrives several times. */
function readHeaders({ value, valueAt }: Option): string[] {
  const refuse = (message: string): never => {
    throw new StatementError('22P02', message, valueAt, {
      hint: `For example headers = '{"content-type": "application/json"}'.`,
    });
  };
  let object: unknown;
  try {
    object = JSON.parse(value);
  } catch {
    refuse('option "headers" takes a JSON object');
  }
  if (typeof object !== 'object' || object === null || Array.isArray(object)) {
    return refuse('option "headers" takes a JSON object');
  }
  const rawHeaders: string[] = [];
  for (const [name, given] of Object.entries(object as Record<string, unknown>)) {
    for (const item of Array.isArray(given) ? (given as unknown[]) : [given]) {
      if (typeof item !== 'string') return refuse('the value of a header is a text, or a list of texts');
      // A listener strips the white space around a value.
      rawHeaders.push(encodeText(name), encodeText(item).replace(/^[ \t]+|[ \t]+$/g, ''));
    }
  }
  return rawHeaders;
}

function readBody(text: Option | null, base64: Option | null): Buffer {
  if (base64 === null) return Buffer.from(text?.value ?? '', 'utf8');
  if (text !== null) {
    throw new StatementError('22023', 'a request has one body: body or body_base64', base64.nameAt);
  }
  const packed = base64.value.replaceAll(/\s/g, '');
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/.test(packed)) {
    throw new StatementError('22P02', 'option "body_base64" is not base64', base64.valueAt);
  }
  return Buffer.from(packed, 'base64');
}

/** By oid: the verdict and its reason, then each step and its value. */
function linesOf(tables: readonly ExplainedTable[]): Readonly<Record<string, readonly [string, string][]>> {
  return Object.fromEntries(
    tables.map(({ oid, accepted, answered, known: isKnown, reason, steps }) => [
      String(oid),
      [
        [
          answered === true
            ? 'answered'
            : isKnown === false
              ? 'not known'
              : accepted
                ? 'accepted'
                : 'refused',
          reason,
        ],
        ...steps.map(({ expression, value }): [string, string] => [expression, value]),
      ],
    ]),
  );
}

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

function explainOver(cursor: Cursor, session: SqlSession, context: DdlContext): StatementPlan {
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
