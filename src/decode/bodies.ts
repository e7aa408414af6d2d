/**
 * Bodies that are not JSON, made into one JSON document: a form becomes an object of strings and descriptions of files, text and bytes
 * become one string. May refuse with the code it is given, `body_not_form`, `body_too_large` and `table_unusable`.
 */
import { isUtf8 } from 'node:buffer';
import type { DecodeRequest } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { type FormField, type FormFile, formFields, readsLikeForm, urlencodedFields } from '../kit/form.ts';
import { firstHeader } from '../kit/header.ts';
import { skipSpace } from '../kit/json-walk.ts';
import { FormProblem, openingBoundary, type PartLimits } from '../kit/multipart.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { scanJson } from './json-scan.ts';
import { type BodyCode, refuseBody } from './messages.ts';

export function* documentOf(target: Target, request: DecodeRequest, code: BodyCode): Generator<void, Buffer> {
  const { body } = request;
  // JSON's escapes can make a character six times as long.
  if (body.length * 2 > limits.decodeGrowthBytesMax)
    throw new Refused(
      'body_too_large',
      `a body of this format has at most ${limits.decodeGrowthBytesMax / 2} bytes`,
    );
  const rules = rulesOf(target, code);
  if (target.intake.format === 'form') return Buffer.from(yield* formDocument(request, rules));
  return wholeDocument(target, body, rules);
}

/** What follows the `?`, as it arrived: node:http passes each byte as one character. */
export function queryOf({ target }: Pick<DecodeRequest, 'target'>): Buffer {
  const at = target.indexOf('?');
  return Buffer.from(at < 0 ? '' : target.slice(at + 1), 'latin1');
}

/** The same of a query string, which is written as a form is. */
export function* documentOfQuery(target: Target, query: Buffer, code: BodyCode): Generator<void, Buffer> {
  const rules = rulesOf(target, code);
  if (target.intake.format !== 'form') return wholeDocument(target, query, rules);
  try {
    return Buffer.from(yield* objectOf(urlencodedFields(query, null, formLimits), rules));
  } catch (error) {
    throw error instanceof FormProblem ? refusedForm(error, code) : error;
  }
}

function rulesOf({ intake }: Target, code: BodyCode): Rules {
  return { code, replaces: intake.replaces === true, withContent: intake.files === 'content' };
}

/** Text or bytes. */
function wholeDocument(target: Target, body: Buffer, rules: Rules): Buffer {
  const { format, document } = target.intake;
  const value = format === 'bytes' ? `"\\\\x${body.toString('hex')}"` : stringOf(textOf(body, rules), rules);
  if (document !== null) return Buffer.from(value);
  return Buffer.from(`{${JSON.stringify(bodyColumn(target))}:${value}}`);
}

function refusedForm({ kind, message }: FormProblem, code: BodyCode): Refused {
  if (kind === 'size') return new Refused('body_too_large', message);
  return refuseBody(kind === 'text' ? code : 'body_not_form', message);
}

function* formDocument(request: DecodeRequest, rules: Rules): Generator<void, string> {
  const { body } = request;
  const contentType = contentTypeOf(request);
  try {
    refuseOther(request);
    return yield* objectOf(formFields(body, contentType, formLimits), rules);
  } catch (error) {
    if (!(error instanceof FormProblem)) throw error;
    // An earlier version has answered 202 for it, and would have read it so.
    if (error.kind === 'form' && request.accepted === true)
      return yield* objectOf(urlencodedFields(body, null, formLimits), rules);
    throw refusedForm(error, rules.code);
  }
}

/** Members of the same name are all written; the last wins, as for `form()` in VALIDATE. Several files of one name are one list. */
function* objectOf(fields: Iterable<FormField | null>, rules: Rules): Generator<void, string> {
  const members: string[] = [];
  const files = new Map<string, { readonly at: number; readonly all: string[] }>();
  for (const field of fields) {
    if (field === null) {
      yield;
      continue;
    }
    const [name, value] = field;
    const key = stringOf(name, rules);
    if (typeof value === 'string') {
      members.push(`${key}:${stringOf(value, rules)}`);
      continue;
    }
    const file = fileOf(value, rules);
    const known = files.get(name);
    if (known === undefined) {
      files.set(name, { at: members.length, all: [file] });
      members.push(`${key}:${file}`);
    } else known.all.push(file);
    // Writing a large content takes as long as reading it.
    if (rules.withContent && value.content.length > limits.decodeSliceBytes) yield;
  }
  for (const [name, { at, all }] of files)
    if (all.length > 1) members[at] = `${stringOf(name, rules)}:[${all.join(',')}]`;
  return `{${members.join(',')}}`;
}

export const formLimits: PartLimits = {
  fieldsMax: limits.formFieldsMax,
  headBytesMax: limits.formPartHeadBytesMax,
  sliceBytes: limits.decodeSliceBytes,
};

function fileOf({ name, type, content }: FormFile, rules: Rules): string {
  const described = `"name":${stringOf(name, rules)},"type":${stringOf(type, rules)},"size":${content.length}`;
  return rules.withContent ? `{${described},"content":"${content.toString('base64')}"}` : `{${described}}`;
}

/** The text as JSON; `given` without what cannot be stored, if the table says so. */
function stringOf(given: string, { code, replaces }: Rules): string {
  const text = replaces ? given.replaceAll('\0', '\ufffd') : given;
  if (text.includes('\0')) throw refuseBody(code, 'a NUL character cannot be stored');
  return JSON.stringify(text);
}

interface Rules {
  readonly code: BodyCode;
  readonly replaces: boolean;
  /** Files are stored with their bytes. */
  readonly withContent: boolean;
}

function contentTypeOf(request: DecodeRequest): string | null {
  return firstHeader(request, 'content-type');
}

/** Everything else than a form would become a field with a mangled name. */
function refuseOther(request: DecodeRequest): void {
  const form = withoutMark(request.body);
  const type = (contentTypeOf(request) ?? '').split(';', 1)[0]?.trim().toLowerCase();
  const isMultipart = openingBoundary(form) !== null;
  if (type === 'multipart/form-data') {
    if (!isMultipart) throw new FormProblem('it does not begin with the boundary of its parts');
    if (!namesBoundary(request, form))
      throw new FormProblem('it does not begin with the boundary of its Content-Type');
  } else if (type === 'application/x-www-form-urlencoded') {
    if (isMultipart)
      throw new FormProblem('it is multipart/form-data, and its Content-Type says something else');
    if (isDocument(form)) throw new FormProblem('it is a JSON document');
  } else if (form.length > 0 && !isMultipart && !readsLikeForm(form)) {
    throw new FormProblem(
      'its Content-Type is neither application/x-www-form-urlencoded nor multipart/form-data',
    );
  }
}

function namesBoundary(request: DecodeRequest, form: Buffer): boolean {
  const [, quoted, plain] =
    /;\s*boundary\s*=\s*(?:"([^"]*)"|([^;\s]*))/i.exec(contentTypeOf(request) ?? '') ?? [];
  return openingBoundary(form) === (quoted ?? plain);
}

/** curl -d calls everything a form, and a form may begin with a brace: only what is JSON as a whole is meant as JSON. */
function isDocument(form: Buffer): boolean {
  const first = form[skipSpace(form, 0)];
  return (first === 0x7b || first === 0x5b) && scanJson(form, { depthMax: limits.jsonDepthMax }) === null;
}

function textOf(bytes: Buffer, { code, replaces }: Rules): string {
  if (!replaces && !isUtf8(bytes)) throw refuseBody(code, 'it is not valid UTF-8');
  return bytes.toString('utf8');
}

const textTypes = new Set([25 /* text */, 1043 /* varchar */, 1042 /* char */]);
const byteType = 17;

/** The column that takes a whole body of text or bytes: the first with a type for it. */
function bodyColumn({ shape, intake }: Target): string {
  const included = new Set(intake.includes.map((include) => include.column));
  const candidates = shape.columns.filter(({ name }) => !included.has(name));
  const column =
    candidates.find(({ baseType }) =>
      intake.format === 'bytes' ? baseType === byteType : textTypes.has(baseType),
    ) ?? candidates[0];
  if (column === undefined) throw new Refused('table_unusable', 'the table has no column for the body');
  return column.name;
}
