/**
 * The body of POST /v1/sql: plain SQL, {"sql": "…", "params": […]}, or {"sql": "…", "each": [[…], …]}. Takes bytes, returns the statement's bytes and
 * its parameters; refuses with `malformed_query`. The first character tells which of the two it is, not the
 * Content-Type, which `curl -d` sets to that of a form: no statement begins with a brace. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { arrayText } from '../kit/array-text.ts';
import type { ArrayValue } from '../kit/array-text.ts';
import { arrayItems, objectMembers } from '../kit/json-values.ts';
import { isJson } from './sql-types.ts';

export interface SqlRequest {
  /** In UTF-8, without a zero byte. */
  readonly sql: Buffer;
  /** Raw JSON, for each of its executions; null: the simple protocol, which allows several statements. */
  readonly params: readonly (readonly string[])[] | null;
}

export function parseSqlRequest(body: Buffer): SqlRequest {
  const refuse = (why: string): never => {
    throw new Refused('malformed_query', why);
  };
  if (!isUtf8(body)) refuse('the body is not valid UTF-8');
  const first = /[^ \t\r\n]/.exec(body.toString('latin1', 0, 4_096))?.[0];
  if (first !== '{') {
    if (body.includes(0)) refuse('the body holds a zero byte');
    if (first === undefined && body.length <= 4_096) refuse('the body holds no SQL');
    return { sql: body, params: null };
  }
  const text = body.toString('utf8');
  try {
    JSON.parse(text);
  } catch {
    refuse('the body begins like JSON and is none: send SQL, or {"sql": "…", "params": […]}');
  }
  const members = objectMembers(text);
  const unknown = [...members.keys()].find((name) => !['sql', 'params', 'each'].includes(name));
  if (unknown !== undefined) {
    const shown = JSON.stringify(unknown.slice(0, 60));
    refuse(`unknown member ${shown}: the JSON form of the body has the members sql, params and each only`);
  }
  const sqlText: unknown = JSON.parse(members.get('sql') ?? 'null');
  if (typeof sqlText !== 'string') return refuse('the JSON form of the body is {"sql": "…", "params": […]}');
  if (sqlText.trim() === '') refuse('the body holds no SQL');
  if (sqlText.includes('\0')) refuse('the SQL holds a zero byte');
  const sql = Buffer.from(sqlText, 'utf8');
  const each = members.get('each');
  if (each === undefined) {
    const params = paramsIn(members.get('params') ?? 'null', refuse);
    return { sql, params: params.length === 0 ? null : [params] };
  }
  if (members.has('params')) refuse('there are params or each, not both');
  const { gatewaySqlExecutionsMax: most } = limits;
  const sets = each.startsWith('[') ? arrayItems(each) : [];
  if (sets.length === 0 || sets.length > most || !sets.every((set) => set.startsWith('[')))
    refuse(`each is an array of 1 to ${most} arrays of parameters`);
  return { sql, params: sets.map((set) => paramsIn(set, refuse)) };
}

function paramsIn(raw: string, refuse: (why: string) => never): readonly string[] {
  if (raw !== 'null' && !raw.startsWith('[')) refuse('params is an array');
  const params = raw === 'null' ? [] : arrayItems(raw);
  if (params.length > limits.gatewaySqlParamsMax)
    refuse(`a statement has at most ${limits.gatewaySqlParamsMax} parameters`);
  return params;
}

/** Only an array's text depends on the parameter's type: a PostgreSQL array, or a JSON document. */
export function needsTypes(params: readonly string[]): boolean {
  return params.some((param) => param.startsWith('['));
}

/**
 * Converts a raw JSON value to the text of a parameter: strings unchanged, numbers with every digit, objects as JSON,
 * arrays as JSON for a json parameter and as a PostgreSQL array for any other.
 */
export function paramText(raw: string, typeOid: number): string | null {
  if (raw === 'null') return null;
  if (raw.startsWith('"')) {
    const text = JSON.parse(raw) as string;
    if (text.includes('\0')) throw new Refused('malformed_query', 'a parameter holds \\u0000');
    return text;
  }
  if (raw.startsWith('[') && !isJson(typeOid)) return arrayText(arrayValue(raw, 1));
  return raw;
}

/** PostgreSQL's arrays have at most six dimensions. */
const dimensionsMax = 6;

function arrayValue(raw: string, dimension: number): ArrayValue {
  if (dimension > dimensionsMax) {
    throw new Refused('malformed_query', `a parameter is an array of more than ${dimensionsMax} dimensions`);
  }
  return arrayItems(raw).map((item) =>
    item.startsWith('[') ? arrayValue(item, dimension + 1) : paramText(item, 0),
  );
}
