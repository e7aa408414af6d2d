/**
 * The options `reconcile`, `every` and `reconcile_secret`: which log of the sender a table is compared with. Takes their values, returns what the catalog
 * stores. Refuses (22023) with their position. Pure.
 */
import { limits } from '../config/limits.ts';
import { logKindOf, logKinds, parseLog } from '../senders/delivery-logs.ts';
import { parseWindow } from '../types/delivery-id.ts';
import { StatementError } from './cursor.ts';
import type { Option } from './options.ts';

export function reconcileValue({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'off') return 'off';
  const log = parseLog(value);
  if (log !== null) return log.text;
  throw new StatementError('22023', `reconcile "${value}" is not known`, valueAt, {
    hint: `The forms are: ${logKinds.flatMap(({ forms }) => forms.map((form) => `'${form}'`)).join(', ')}, or 'off'.`,
  });
}

export function everyValue({ value, valueAt }: Option): string {
  if (parseWindow(value, limits.reconcileEveryMinS, limits.reconcileEveryMaxS) !== null)
    return value.trim().toLowerCase();
  throw new StatementError('22023', `every "${value}" is not known`, valueAt, {
    hint: "For example '10 minutes' or '1 hour'; from one minute to a day.",
  });
}

/** With the option `dedupe` that the log needs, for the catalog to compare; it does not store that. */
export function withReconcile(options: object): object {
  const { reconcile } = options as { readonly reconcile?: unknown };
  const log = typeof reconcile === 'string' ? parseLog(reconcile) : null;
  return log === null ? options : { ...options, reconcile_dedupe: logKindOf(log.sender)?.dedupe };
}
