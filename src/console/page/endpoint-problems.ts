/** Endpoints that need somebody: read once for the bar at the side, where their number stands, and for the overview. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { listNeeds } from '../endpoint-list.ts';
import { useRefreshed, useRows } from './load.ts';
import type { ResultRow } from './load.ts';

/** The worst first; the column `needing` is the number of all of them. */
export const needs = signal<readonly ResultRow[]>([]);

export const needing = (): number => Number(needs.value[0]?.['needing'] ?? 0);

/** What another view has counted at last. */
const counted = signal('');

/** `count`: that another view has read; null: none. If it is not the one that is shown, all are read again: two figures on one screen agree. */
export function useNeedsCounted(count: string | null): void {
  useEffect(() => {
    if (count !== null && Number(count) !== needing()) counted.value = `${count} ${performance.now()}`;
  }, [count]);
}

/** Called in one place, which is on every page. */
export function useNeeds(): void {
  const loaded = useRows(listNeeds, 30_000);
  useRefreshed(loaded, listNeeds, counted.value);
  const { value } = loaded;
  useEffect(() => {
    needs.value = value ?? [];
    // Another session, or database, must not see them.
    return () => {
      needs.value = [];
    };
  }, [value]);
}
