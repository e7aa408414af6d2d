/** Form bodies and query strings: `name=value&…`, `+` for a blank, `%XX` for bytes, all of it UTF-8. */
import { formPartBytes, formParts, isEscapedPart } from '../kit/form.ts';
import { limits } from '../config/limits.ts';
import { bytesToText } from './bytea.ts';
import { EvaluationError } from './errors.ts';
import { compareTexts } from './text.ts';

function decodePart(part: string): string {
  return isEscapedPart(part) ? bytesToText(formPartBytes(part), 'UTF8') : part;
}

function formFields(text: string): (readonly [string, string])[] {
  const fields: (readonly [string, string])[] = [];
  for (const [name, value] of formParts(text)) {
    if (fields.length >= limits.expressionFormFieldsMax) {
      throw new EvaluationError('54000', `a form of more than ${limits.expressionFormFieldsMax} fields`);
    }
    fields.push([decodePart(name), decodePart(value)]);
  }
  return fields;
}

/** Of several fields with the same name the last is used, as with duplicate keys in jsonb. */
export function formObject(text: string): Record<string, string> {
  const object = Object.create(null) as Record<string, string>;
  for (const [name, value] of formFields(text)) object[name] = value;
  return object;
}

/** Name and value of every field, ordered by name, then value; identical pairs count once (Twilio, Mandrill). */
export function formSorted(text: string): string {
  const fields = formFields(text).sort((a, b) => compareTexts(a[0], b[0]) || compareTexts(a[1], b[1]));
  return fields
    .filter((field, i) => i === 0 || field[0] !== fields[i - 1]?.[0] || field[1] !== fields[i - 1]?.[1])
    .map(([name, value]) => name + value)
    .join('');
}
