/** Endpoints that need somebody: read once for the bar at the side, where their number stands, and for the overview. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { listNeeds } from '../endpoint-list.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';

/** The worst first; the column `needing` is the number of all of them. */
export const needs = signal<readonly ResultRow[]>([]);

export const needing = (): number => Number(needs.value[0]?.['needing'] ?? 0);

/** Called in one place, which is on every page. */
export function useNeeds(): void {
  const { value } = useRows(listNeeds, 30_000);
  useEffect(() => {
    needs.value = value ?? [];
    // Another session, or database, must not see them.
    return () => {
      needs.value = [];
    };
  }, [value]);
}
