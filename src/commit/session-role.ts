/**
 * Whose session stores the rows of a group: the one place where that is decided. Rows of a table that runs no code: the role that stores such
 * rows of all owners. Rows of a table that runs code, and rows that are looked for in a table, which PostgreSQL plans: the table's owner. Pure.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Group } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

const deleting = rememberedOf((target: Target): Target => ({
  ...target,
  code: { ...target.code, as: target.code.deletesAs },
}));

/** The target as it is for these rows; `code.as` says whose session it is. */
export function forRows({ target, members }: Pick<Group, 'target' | 'members'>): Target {
  const { code } = target;
  if (code.as === code.deletesAs || !members.some(({ deletes }) => deletes?.includes(1) === true))
    return target;
  return deleting(target);
}

/** Storing its rows runs no code. */
export function isPlain({ code }: Pick<Target, 'code'>): boolean {
  return code.as === 'writer';
}
