/** Form bodies and query strings, read as decode reads them: what a check has seen is what is stored. */
import { formFields, type FormField, urlencodedFields } from '../kit/form.ts';
import { FormProblem, type PartLimits } from '../kit/multipart.ts';
import { limits } from '../config/limits.ts';
import { EvaluationError } from './errors.ts';
import { compareTexts } from './text.ts';

const formLimits: PartLimits = {
  fieldsMax: limits.expressionFormFieldsMax,
  headBytesMax: limits.formPartHeadBytesMax,
  sliceBytes: limits.decodeSliceBytes,
};

function read(fields: Iterable<FormField | null>): FormField[] {
  const all: FormField[] = [];
  try {
    for (const field of fields) {
      if (field === null) continue;
      if (field[0].includes('\0') || (typeof field[1] === 'string' && field[1].includes('\0')))
        throw new EvaluationError('22021', 'invalid byte sequence for encoding "UTF8"');
      all.push(field);
    }
  } catch (error) {
    if (!(error instanceof FormProblem)) throw error;
    throw new EvaluationError(error.kind === 'size' ? '54000' : '22021', error.message);
  }
  return all;
}

function objectOf(fields: readonly FormField[]): Record<string, string | object> {
  const object = Object.create(null) as Record<string, string | object>;
  for (const [name, value] of fields)
    object[name] =
      typeof value === 'string' ? value : { name: value.name, type: value.type, size: value.content.length };
  return object;
}

/** Of several fields with the same name the last is used, as with duplicate keys in jsonb. */
export function queryObject(text: string): Record<string, string | object> {
  return objectOf(read(urlencodedFields(Buffer.from(text), null, formLimits)));
}

/** The same of a body, which may be multipart/form-data: a file is an object of its name, type and size. */
export function formObject(body: Buffer): Record<string, string | object> {
  return objectOf(read(formFields(body, null, formLimits)));
}

/** Name and value of every field, ordered by name, then value; identical pairs count once (Twilio, Mandrill). */
export function formSorted(body: Buffer): string {
  const fields = read(formFields(body, null, formLimits)).map(([name, value]): readonly [string, string] => {
    if (typeof value === 'string') return [name, value];
    // Nothing of it would be signed.
    throw new EvaluationError('22023', 'form_sorted() takes a form without files');
  });
  fields.sort((a, b) => compareTexts(a[0], b[0]) || compareTexts(a[1], b[1]));
  return fields
    .filter((field, i) => i === 0 || field[0] !== fields[i - 1]?.[0] || field[1] !== fields[i - 1]?.[1])
    .map(([name, value]) => name + value)
    .join('');
}
