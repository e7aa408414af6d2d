/** The sizes of the role's tables, their growth in the last 24 hours (`headgate.traffic`), and when that fills the disk. */
import type { JSX } from 'preact';
import { counted, digitsText, sizeText } from '../visible-text.ts';
import { listGrowth, listMax } from '../statements.ts';
import { useRows } from './load.ts';
import { Listing, Sql } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';

/** `freeBytes`: on the disk that holds the tables; null: unknown. */
export function Growth({ freeBytes }: { readonly freeBytes: number | null }): JSX.Element {
  const loaded = useRows(listGrowth, 60_000);
  const grew = (loaded.value ?? []).reduce(
    // A table that keeps rows only for a time, or up to a number, does not grow without limit.
    (sum, row) => sum + (row['keep'] === null ? Number(row['bytes_a_day'] ?? 0) : 0),
    0,
  );
  return (
    <>
      <h2>Growth of tables</h2>
      {freeBytes === null || grew === 0 ? null : (
        <p role="status">
          At the growth of the last 24 hours, the disk is full in <b>{daysText(freeBytes / grew)}</b>.
        </p>
      )}
      <Listing loaded={loaded} max={listMax.growth} empty={<>You own no webhook tables.</>}>
        {(rows) => (
          <div class="scroll" tabIndex={0} role="region" aria-label="Growth of tables">
            <table class="rows">
              <thead>
                <tr>
                  <th>Table</th>
                  <th class="right">Size</th>
                  <th class="right">Rows in 24 h</th>
                  <th class="right">Grew in 24 h</th>
                  <th>Kept</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={`${row['nspname']}.${row['relname']}`}>
                    <td>
                      <a data-row href={to(['endpoint', row['nspname'] ?? '', row['relname'] ?? ''])}>
                        <Text of={row['relname'] ?? ''} max={80} />
                      </a>
                    </td>
                    <td class="right mono">
                      {row['bytes'] === null ? 'locked' : sizeText(Number(row['bytes']))}
                    </td>
                    <td class="right mono">{digitsText(row['rows_of_day'] ?? '0')}</td>
                    <td class="right mono">
                      {row['bytes'] === null ? '' : `≈ ${sizeText(Number(row['bytes_a_day'] ?? 0))}`}
                    </td>
                    <td>{row['keep'] ?? 'all'}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listing>
      <Sql text={listGrowth} />
    </>
  );
}

function daysText(days: number): string {
  if (days < 2) return counted(Math.max(0, Math.floor(days * 24)), 'hour');
  return days > 3_650 ? 'more than ten years' : `${Math.floor(days)} days`;
}
