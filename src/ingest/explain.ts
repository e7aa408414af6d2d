/**
 * How EXPLAIN VALIDATE is answered: the tables that may be meant → the sources of their checks → the request, evaluated by
 * the very closure that guards the table.
 *
 * Takes a question from the SQL door; returns one answer per table, with no secret in it; throws SqlFailure if the
 * question cannot be parsed, and what the catalog throws. Keeps nothing.
 */
import type { Catalog } from '../catalog/catalog.ts';
import { tablesToExplain } from '../catalog/role-queries.ts';
import type { CatalogTable } from '../catalog/role-queries.ts';
import type { CheckSource, TableCompiler } from '../catalog/table-compiler.ts';
import { deliveryOf } from '../decode/delivery.ts';
import type { Dedupe } from '../types/table-options.ts';
import type { CheckRequest } from '../types/request.ts';
import type { HandshakeRule } from '../types/answers.ts';
import type { ExplainQuestion, ExplainRequest, ExplainedTable } from '../types/sql.ts';
import { limits } from '../config/limits.ts';
import { only } from './routes.ts';
import type { TableName } from '../observe/observations.ts';
import { SqlFailure } from '../errors/refusals.ts';
import { longWork } from '../kit/time-slices.ts';
import { explainExpression } from '../validate/explain.ts';
import { parseExpression } from '../validate/expression.ts';
import { parseTimestamp } from '../validate/timestamp.ts';

/** `publicUrl`: HEADGATE_PUBLIC_URL. */
export async function explainRequest(
  databases: Pick<Catalog, 'client' | 'compiler'>,
  publicUrl: string | null,
  question: ExplainQuestion,
): Promise<readonly ExplainedTable[]> {
  const arrivedAtMs = arrivalOf(question.request.now, Date.now);
  const sources = await tablesToExplain(databases, question);
  const explained: ExplainedTable[] = [];
  for (const source of sources) {
    const unusable = source.unusable ?? (await keysProblem(source.source, databases.compiler));
    await longWork.turn(question.request.body.length + (source.source?.expression.length ?? 0));
    explained.push(
      explainTable({ ...source, unusable }, question.request, arrivedAtMs, publicUrl, databases.compiler),
    );
  }
  return explained;
}

/** Waits for the keys that a check needs; what was not fetched is said by the step that needs it. */
async function keysProblem(
  check: CheckSource | null,
  { keySets }: Pick<TableCompiler, 'keySets'>,
): Promise<string | null> {
  if (check === null) return null;
  const { keyUrls } = parseExpression(check.expression, { secrets: [...check.secrets.keys()] });
  const problem = keySets.problem(keyUrls);
  if (problem === null)
    await keySets
      .of(keyUrls)
      ?.ready()
      ?.catch(() => undefined);
  return problem;
}

function explainTable(
  { oid, unusable, source, answers, dedupe, methods, ...name }: CatalogTable,
  asked: ExplainRequest,
  arrivedAtMs: number,
  knownUrl: string | null,
  { keySets }: Pick<TableCompiler, 'keySets'>,
): ExplainedTable {
  if (unusable !== null) {
    return { oid, accepted: false, reason: `503, the table cannot be used: ${unusable}`, steps: [] };
  }
  const { publicUrl, target } = splitUrl(asked.url ?? pathOf(name), knownUrl);
  const { method, rawHeaders, body } = asked;
  const request: CheckRequest = { method, target, rawHeaders, arrivedAtMs, body };
  const first =
    answers === null ? nothingAsked : tried(answers.unchecked, request, limits.handshakeBodyBytesMax);
  const checked =
    source === null
      ? { accepted: true, reason: 'the table has no VALIDATE: everybody may write', steps: [] }
      : explainExpression(
          source.expression,
          { secrets: source.secrets, publicUrl, publishedKeys: keySets.open },
          request,
          undefined,
          asked.notKept,
        );
  const second =
    answers === null || first.answer !== null || !checked.accepted
      ? nothingAsked
      : tried(answers.checked, request, Infinity);
  const answer = first.answer ?? second.answer;
  const steps = [...first.steps, ...checked.steps, ...second.steps];
  if (answer !== null) return { oid, accepted: false, answered: true, reason: answer, steps };
  const isStored = methods === undefined ? method === 'POST' : methods.has(method);
  if (!isStored && (answers !== null || methods !== undefined)) {
    const stored = `only ${only(methods ?? new Set(['POST']))} stored`;
    return {
      oid,
      accepted: false,
      reason: `${answers === null ? '' : 'no ANSWER matches it, and '}${stored}`,
      steps,
    };
  }
  if (checked.accepted && dedupe !== null) steps.push(deliveryStep(dedupe, request));
  return { oid, ...checked, steps };
}

/** Shows neither the id of the delivery nor whether it is already known. */
function deliveryStep(dedupe: Dedupe, request: CheckRequest): ExplainedTable['steps'][number] {
  const expression = `dedupe ${dedupe.shown}`;
  try {
    const body = request.body[0] === 0x7b || request.body[0] === 0x5b ? 'json' : 'form';
    deliveryOf(dedupe, body, request);
    return { expression, value: 'has an id' };
  } catch {
    return { expression, value: 'no id: 422 delivery_id_missing' };
  }
}

interface TriedRules {
  /** Which rule matches, and its answer; null: none. */
  readonly answer: string | null;
  readonly steps: ExplainedTable['steps'];
}

const nothingAsked: TriedRules = { answer: null, steps: [] };

/** The content of an answer is not shown: it may be signed, and could be sent. */
function tried(rules: readonly HandshakeRule[], request: CheckRequest, bytesMax: number): TriedRules {
  const steps: { expression: string; value: string }[] = [];
  for (const { place, methods, answer } of rules) {
    const fits = request.body.length <= bytesMax;
    const made = fits && methods?.has(request.method) !== false ? answer(request) : null;
    steps.push({ expression: `ANSWER ${place}`, value: made === null ? 'does not match' : 'matches' });
    if (made === null) continue;
    const content = made.body === '' ? 'no body' : `${made.body.length} bytes`;
    const reason = `ANSWER ${place} takes it: ${made.status}, ${made.type ?? 'no Content-Type'}, ${content}; nothing is stored`;
    return { answer: reason, steps };
  }
  return { answer: null, steps };
}

function pathOf({ database, schema, table }: TableName): string {
  return `/webhook/${[database, schema, table].map(encodeURIComponent).join('/')}`;
}

/** An absolute URL itself says under which name Headgate is called; nothing in it is decoded or normalized. */
function splitUrl(url: string, known: string | null): { publicUrl: string | null; target: string } {
  const base = known?.replace(/\/$/, '') ?? null;
  if (base !== null && url.startsWith(`${base}/`))
    return { publicUrl: known, target: url.slice(base.length) };
  const origin = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(url)?.[0];
  if (origin === undefined) return { publicUrl: known, target: url };
  return { publicUrl: origin, target: url.slice(origin.length) || '/' };
}

function arrivalOf(now: string | null, nowMs: () => number): number {
  if (now === null) return nowMs();
  const text = now.trim();
  if (/^\d{1,12}(?:\.\d{1,9})?$/.test(text)) return Number(text) * 1000;
  try {
    return Number(parseTimestamp(text) / 1000n);
  } catch {
    throw new SqlFailure({
      sqlstate: '22007',
      message: 'option "now" takes a timestamp, or seconds since 1970',
      hint: "For example now = '2026-01-31 12:00:00Z' or now = 1769860800.",
    });
  }
}
