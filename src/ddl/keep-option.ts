/**
 * The options keep and keep_if: how long the rows of a webhook table stay, how many, or how many bytes, and which of them go. Returns them in one form;
 * refuses with StatementError. Pure.
 */
import { rowConditionProblem } from '../kit/row-condition.ts';
import { StatementError } from './cursor.ts';
import type { IncludeClause } from './includes.ts';
import type { Option } from './options.ts';

/** Bytes are counted as in PostgreSQL: a kB has 1,024. */
const most = {
  minute: 52_560_000,
  hour: 876_000,
  day: 36_500,
  row: 9_999_999_999,
  kb: 9_999_999_999,
  mb: 1_000_000_000,
  gb: 1_000_000,
  tb: 1_000,
} as const;

const bytes = { kb: 'kB', mb: 'MB', gb: 'GB', tb: 'TB' } as const;

/** How long rows stay, how many of them, or how many bytes, in one form; `all`: until somebody deletes them. */
export function keepOf({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'all') return 'all';
  const form = /^\s*([1-9]\d{0,9})(?:\s+(minute|hour|day|row)s?|\s*([kmgt]b))\s*$/i;
  const [, digits = '', countable, sized] = form.exec(value) ?? [];
  const unit = (countable ?? sized ?? '').toLowerCase();
  if (!isUnit(unit))
    throw new StatementError('22023', `keep "${value}" is not known`, valueAt, {
      hint: "The form is: keep = '90 days', '36 hours', '1000000 rows', '10 GB' or 'all'.",
    });
  const name = unit in bytes ? bytes[unit as keyof typeof bytes] : `${unit}s`;
  if (Number(digits) > most[unit])
    throw new StatementError('22023', `keep has at most ${most[unit]} ${name}`, valueAt);
  return `${digits} ${name}`;
}

function isUnit(unit: string): unit is keyof typeof most {
  return Object.hasOwn(most, unit);
}

/** A condition on the row; empty: none. Whether it fits the table is PostgreSQL's to say (functions/statements.sql). */
export function keepIfOf({ value, valueAt }: Option): string {
  const problem = value.trim() === '' ? null : rowConditionProblem(value);
  if (problem === null) return value.trim();
  throw new StatementError('22023', `keep_if is no condition on a row: ${problem}`, valueAt, {
    hint: "It may have columns, constants, comparisons, IS NULL, AND, OR, NOT, IN, CASE, now() and intervals: keep_if = 'done_at IS NOT NULL'.",
  });
}

/** The age of a row is determined by its time of arrival. */
export function refuseUntimedKeep(keep: Option | null, includes: readonly IncludeClause[]): void {
  if (
    keep === null ||
    keep.value.toLowerCase() === 'all' ||
    includes.some(({ what }) => what === 'timestamp')
  )
    return;
  throw new StatementError('0A000', 'keep needs a column for the time of arrival', keep.nameAt, {
    hint: 'Add INCLUDE TIMESTAMP AS column.',
  });
}
