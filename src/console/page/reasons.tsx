/** Above refused requests: the reasons that most of them have, with counts, each of which narrows the list (`headgate.rejected_requests`). */
import type { JSX } from 'preact';
import { noAddress } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { briefReason, reasonFilter } from '../outcome-summary.ts';
import { listReasons } from '../statements.ts';
import { digitsText } from '../visible-text.ts';
import { Name } from './address.tsx';
import { KeptOf } from './kept-of.tsx';
import { useRowsIf } from './load.ts';
import { Text } from './text.tsx';

const chipsMax = 4;

interface ReasonProps {
  readonly address: ListAddress;
  readonly set: (change: Partial<ListAddress>) => void;
}

export function ReasonChips({ address, set }: ReasonProps): JSX.Element | null {
  const { schema, table } = address;
  // Of other filters their counts know nothing.
  const isWhole =
    JSON.stringify({ ...address, schema: '', table: '' }) ===
    JSON.stringify({ ...noAddress, result: 'refused' });
  const rows = useRowsIf(isWhole ? listReasons(table === '' ? null : { schema, table }) : null).value ?? [];
  const keptOf = isWhole ? <KeptOf of={table === '' ? null : { schema, table }} /> : null;
  if (rows.length < 2) return keptOf;
  return (
    <>
      {keptOf}
      <div class="reason-chips" role="group" aria-label="Reasons">
        {rows.slice(0, chipsMax).map((row) => (
          <button key={row['last_id']} type="button" class="small" onClick={() => set(reasonFilter(row))}>
            {table === '' ? (
              <span class="faint">
                {row['table_name'] === '' ? (
                  'no endpoint'
                ) : (
                  <Name of={row['table_name'] ?? ''} max={20} />
                )}{' '}
              </span>
            ) : null}
            <Text of={briefReason(row)} max={60} /> <b class="bad">{digitsText(row['requests'] ?? '')}</b>
          </button>
        ))}
        {rows.length > chipsMax ? (
          <span class="faint">and {rows.length - chipsMax} other reasons</span>
        ) : null}
      </div>
    </>
  );
}
