/**
 * What is wrong with an endpoint, in a word and in a sentence: it cannot be used, or all or some requests of the last hour were
 * refused. From SHOW ENDPOINTS and the counts of the last hour (`headgate.traffic`).
 */
import type { JSX } from 'preact';
import { listTraffic } from '../endpoint-list.ts';
import { showEndpoints } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { Badge, Text } from './components.tsx';
import { to } from './route.ts';

export interface EndpointStatus {
  readonly kind: 'good' | 'bad' | 'warn' | 'plain';
  readonly word: string;
  /** null: nothing to say. */
  readonly sentence: string | null;
}

/** `known`: from SHOW ENDPOINTS; `hour`: from listTraffic; undefined: no requests. */
export function stateOf(known: ResultRow | undefined, hour: ResultRow | undefined): EndpointStatus {
  const check = known?.['Check'] ?? '';
  if (check.startsWith('unusable')) return { kind: 'bad', word: 'unusable', sentence: check };
  const of = (name: string): number => Number(hour?.[name] ?? 0);
  const [stored, forged, misfit, later] = [
    of('stored'),
    of('unauthorized'),
    of('refused'),
    of('unavailable'),
  ];
  const all = stored + forged + misfit + later;
  if (all === 0) return { kind: 'plain', word: 'quiet for an hour', sentence: null };
  const many =
    all === 1 ? 'The only request of the last hour was' : `All ${all} requests of the last hour were`;
  const none = stored === 0 ? `${many} refused` : null;
  if (forged >= misfit && forged > 0 && forged * 2 > all)
    return {
      kind: 'bad',
      word: 'failing signatures',
      sentence: `${none ?? `${forged} of ${all} requests of the last hour were refused`}, probably because of another secret.`,
    };
  if (none !== null)
    return later > misfit
      ? {
          kind: 'warn',
          word: 'not available',
          sentence: `${none}, because the database or the table was not available.`,
        }
      : { kind: 'bad', word: 'all refused', sentence: `${none}: they do not fit the table.` };
  return forged + misfit + later === 0
    ? { kind: 'good', word: 'all stored', sentence: null }
    : { kind: 'warn', word: 'some refused', sentence: null };
}

/** By schema and table. */
export function rowOf(
  rows: readonly ResultRow[] | null,
  { schema, table }: TableRef,
  names: 'shown' | 'sql',
): ResultRow | undefined {
  const [first, second] = names === 'shown' ? ['Schema', 'Name'] : ['schema_name', 'table_name'];
  return rows?.find((row) => row[first ?? ''] === schema && row[second ?? ''] === table);
}

interface Props {
  readonly of: TableRef;
  /** Of its check. */
  readonly secrets: readonly string[];
}

/** The banner of an endpoint's page. */
export function Trouble({ of, secrets }: Props): JSX.Element | null {
  const known = rowOf(useRows(showEndpoints, 15_000).value, of, 'shown');
  const hour = rowOf(useRows(listTraffic([of]), 15_000).value, of, 'sql');
  const { kind, word, sentence } = stateOf(known, hour);
  if (sentence === null) return null;
  return (
    <p class={`trouble ${kind === 'bad' ? 'verdict bad' : 'strip'}`} role="status">
      <Badge kind={kind}>{word}</Badge> <Text of={sentence} max={400} />{' '}
      <a href={to(['endpoint', of.schema, of.table, 'refused'])}>Why?</a>{' '}
      {word === 'failing signatures' && secrets[0] !== undefined ? (
        <a href={to(['secrets'], { q: secrets[0] })}>Set the secret</a>
      ) : null}
    </p>
  );
}
