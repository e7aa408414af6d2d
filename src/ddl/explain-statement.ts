/**
 * EXPLAIN ALTER TABLE … OVER (explain-over.ts), and EXPLAIN VALIDATE table WITH (headers = '{…}', body = '…', …). Takes tokens, returns a plan that is completed when the
 * statement is sent, because Headgate evaluates and the client's session decides which table is meant and whether the
 * client may ask. Refuses options that do not describe a request (22023, 22P02). What it sends on contains no secret.
 */
import type { ExplainRequest, ExplainedTable, SqlSession } from '../types/sql.ts';
import { StatementError, type Cursor, encodeText } from './cursor.ts';
import { type Option, parseOptions, refuseUnknown } from './options.ts';
import { type StatementPlan, displayName, explainPlan } from './plan.ts';
import type { DdlContext } from './statement-context.ts';
import { explainOver } from './explain-over.ts';
import { refuseSecretInside } from './secret-statements.ts';

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
