/** Of how many refused requests as many are kept, and why not all: beside lists and counts of those that are (`headgate.rejected_requests`). */
import type { JSX } from 'preact';
import { keptLimits } from '../request-rows.ts';
import { countKeptOf } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { digitsText } from '../visible-text.ts';
import { useRows } from './load.ts';

/** `of` null: of all tables of the role. Nothing, while all are kept. */
export function KeptOf({ of }: { readonly of: TableRef | null }): JSX.Element | null {
  const [row] = useRows(countKeptOf(of), 15_000).value ?? [];
  const [kept, refused] = [row?.['kept'] ?? '0', row?.['refused'] ?? '0'];
  // What was refused is counted some seconds after it was kept.
  if (Number(refused) <= Number(kept)) return null;
  return (
    <details class="kept-of">
      <summary>
        <b>
          {digitsText(kept)} of {digitsText(refused)}
        </b>{' '}
        requests that were refused in the last 7 days are kept.
      </summary>
      <p class="faint">
        {keptLimits} Of a dropped table none is left. Those that are not kept cannot be retried: let their
        sender send them again.
      </p>
    </details>
  );
}
