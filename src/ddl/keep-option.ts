/** The option keep: how long the rows of a webhook table stay, or how many. Takes an option, gives it in one form; refuses with StatementError. Pure. */
import { StatementError } from './cursor.ts';
import type { Include } from './includes.ts';
import type { Option } from './options.ts';

/** How long rows stay, or how many of them, in one form; `all`: until somebody deletes them. */
export function keepOf({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'all') return 'all';
  const [, digits = '', unit = ''] = /^\s*([1-9]\d{0,9})\s+(minute|hour|day|row)s?\s*$/i.exec(value) ?? [];
  if (digits === '')
    throw new StatementError('22023', `keep "${value}" is not known`, valueAt, {
      hint: "The form is: keep = '90 days', '36 hours', '1000000 rows' or 'all'.",
    });
  const most = { minute: 52_560_000, hour: 876_000, day: 36_500, row: 9_999_999_999 }[
    unit.toLowerCase() as 'row'
  ];
  if (Number(digits) > most)
    throw new StatementError('22023', `keep has at most ${most} ${unit.toLowerCase()}s`, valueAt);
  return `${digits} ${unit.toLowerCase()}s`;
}

/** Which rows are old is told by the time at which they came. */
export function refuseUntimedKeep(keep: Option | null, includes: readonly Include[]): void {
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
