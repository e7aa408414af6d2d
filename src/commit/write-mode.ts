/** In whose session rows are stored, and whether as documents or decoded. Pure. */
import { rememberedOf } from '../kit/memoize.ts';
import type { Group } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

const deleting = rememberedOf((target: Target): Target => ({
  ...target,
  code: { ...target.code, as: target.code.deletesAs },
}));

/**
 * The target as it is for these rows; `code.as` says in whose session they are stored, which is decided here alone. Rows of a table that runs no code: the
 * role that stores such rows of all owners. Rows of a table that runs code, and rows that are looked for in a table, which PostgreSQL plans: the table's owner.
 */
export function forRows({ target, members }: Pick<Group, 'target' | 'members'>): Target {
  const { code } = target;
  if (code.as === code.deletesAs || !members.some(({ deletes }) => deletes?.includes(1) === true))
    return target;
  return deleting(target);
}

/** Whether documents are stored as they are: as a rule by one prepared INSERT, and many of them by COPY. Otherwise the engine decodes them: always of `/v1/events`. */
export function storesDocuments({ shape, dedupe }: Target): boolean {
  return shape.writeMode === 'documents' && dedupe === undefined;
}
