/**
 * The steps of EXPLAIN VALIDATE that a person asks about, in words: is the header there, is the time near enough, does the signature fit. Each is
 * one row of that statement, and says what its value says. Rows of other shapes have no words. Pure.
 */

export interface StepInWords {
  readonly kind: 'good' | 'bad' | 'open';
  readonly what: string;
  readonly detail: string;
}

interface CheckStep {
  readonly expression: string;
  readonly value: string;
}

export function stepsInWords(rows: readonly CheckStep[]): StepInWords[] {
  const found = rows.flatMap(
    (row, i) => headerStep(row) ?? clockStep(row, rows[i - 1]) ?? signatureStep(row) ?? [],
  );
  // A header that is read twice is one step.
  return found.filter((step, i) => found.findIndex(({ what }) => what === step.what) === i);
}

const header = /^headers->>'([^']+)'$/;

function headerStep({ expression, value }: CheckStep): StepInWords | null {
  const name = header.exec(expression)?.[1];
  if (name === undefined) return null;
  if (value === 'NULL') return { kind: 'bad', what: `The request has no header ${name}`, detail: '' };
  if (value === 'not kept')
    return {
      kind: 'open',
      what: `The header ${name}`,
      detail: 'It was not kept, because it may be a credential: what depends on it is not known',
    };
  return { kind: 'good', what: `The request has the header ${name}`, detail: plainOf(value) };
}

/** Of a text as SQL writes it. */
const plainOf = (value: string): string =>
  /^'[^]*'$/.test(value) ? value.slice(1, -1).replaceAll("''", "'") : value;

const limit = /^abs\(.*\bnow\(\).*\) <= (\d+)$/s;

function clockStep({ expression, value }: CheckStep, before: CheckStep | undefined): StepInWords | null {
  const seconds = limit.exec(expression)?.[1];
  if (seconds === undefined) return null;
  const apart = Number(before?.value);
  return {
    ...judged(value, Number.isFinite(apart) ? `${Math.round(apart)} s, when the request arrived` : ''),
    what: `The time is at most ${seconds} s from this machine’s clock`,
  };
}

const comparison = /^secure_compare(?:_any)?\(/;
const keyed = /\bhmac\(("(?:[^"]|"")+"|\w+),/;

function signatureStep({ expression, value }: CheckStep): StepInWords | null {
  if (!comparison.test(expression)) return null;
  const secret = keyed.exec(expression)?.[1];
  const isWhole = secret !== undefined;
  return {
    ...judged(value, value === 'false' ? 'It differs' : ''),
    what: isWhole
      ? `The signature is that of the request with ${secret}`
      : 'What was sent is what the secret holds',
  };
}

/** By the value of a condition. */
function judged(value: string, detail: string): Omit<StepInWords, 'what'> {
  if (value === 'true') return { kind: 'good', detail };
  if (value === 'not evaluated') return { kind: 'open', detail: 'Not looked at: a step before was decisive' };
  if (value === 'not kept') return { kind: 'open', detail: 'Not known: a header was not kept' };
  if (value === 'NULL') return { kind: 'open', detail: 'Not known: a value that it needs is missing' };
  return { kind: 'bad', detail: value === 'false' ? detail : value };
}
