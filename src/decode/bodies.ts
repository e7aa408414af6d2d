/**
 * Bodies that are not JSON, made into one JSON document: a form becomes an object of strings, text and bytes become one
 * string. May refuse with the code it is given, `body_too_large` and `table_unusable`.
 */
import { isUtf8 } from 'node:buffer';
import type { Target } from '../types/target.ts';
import { formPartBytes, formParts, isEscapedPart } from '../kit/form.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { type BodyCode, refuseBody } from './messages.ts';

export function documentOf(target: Target, body: Buffer, code: BodyCode): Buffer {
  // JSON's escapes can make a character six times as long.
  if (body.length * 2 > limits.decodeGrowthBytesMax)
    throw new Refused(
      'body_too_large',
      `a body of this format has at most ${limits.decodeGrowthBytesMax / 2} bytes`,
    );
  const { format, document } = target.intake;
  if (format === 'form') return Buffer.from(formDocument(body, code));
  const value = format === 'bytes' ? `"\\\\x${body.toString('hex')}"` : JSON.stringify(textOf(body, code));
  if (document !== null) return Buffer.from(value);
  return Buffer.from(`{${JSON.stringify(bodyColumn(target))}:${value}}`);
}

/** Members of the same name are all written; the last wins, as for `form()` in VALIDATE. */
function formDocument(body: Buffer, code: BodyCode): string {
  const members: string[] = [];
  for (const [name, value] of formParts(textOf(body, code))) {
    if (members.length === limits.formFieldsMax)
      throw new Refused('body_too_large', `a form has at most ${limits.formFieldsMax} fields`);
    members.push(`${JSON.stringify(formPart(name, code))}:${JSON.stringify(formPart(value, code))}`);
  }
  return `{${members.join(',')}}`;
}

function formPart(part: string, code: BodyCode): string {
  return isEscapedPart(part) ? textOf(formPartBytes(part), code) : part;
}

function textOf(bytes: Buffer, code: BodyCode): string {
  if (!isUtf8(bytes)) throw refuseBody(code, 'it is not valid UTF-8');
  if (bytes.includes(0)) throw refuseBody(code, 'a NUL character cannot be stored');
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
