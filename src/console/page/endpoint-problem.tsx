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
import { digitsText } from '../visible-text.ts';
import { Badge, Text } from './components.tsx';
import { to } from './route.ts';

export interface EndpointStatus {
  readonly kind: 'good' | 'bad' | 'warn' | 'plain';
  readonly word: string;
  /** `word` in figures. */
  readonly brief: string;
  /** null: nothing to say. */
  readonly sentence: string | null;
}

/** `known`: from SHOW ENDPOINTS; `hour`: from listTraffic; undefined: no requests. */
export function stateOf(known: ResultRow | undefined, hour: ResultRow | undefined): EndpointStatus {
  const check = known?.['Check'] ?? '';
  if (check.startsWith('unusable'))
    return { kind: 'bad', word: 'unusable', brief: 'unusable', sentence: check };
  const of = (name: string): number => Number(hour?.[name] ?? 0);
  const [stored, forged, misfit, later] = [
    of('stored'),
    of('unauthorized'),
    of('refused'),
    of('unavailable'),
  ];
  const all = stored + forged + misfit + later;
  if (all === 0) return said('plain', 'quiet for an hour');
  const part = (count: number): string => `${digitsText(String(count))} of ${digitsText(String(all))}`;
  const were = (count: number): string =>
    all === 1
      ? 'The only request of the last hour was refused'
      : `${count === all ? `All ${digitsText(String(all))}` : part(count)} requests of the last hour were refused`;
  if (forged >= misfit && forged > 0 && forged * 2 > all)
    return {
      ...said('bad', 'failing signatures', `${part(forged)}: another secret`),
      sentence: `${were(stored === 0 ? all : forged)}, probably because of another secret.`,
    };
  if (stored === 0 && later > misfit)
    return {
      ...said('warn', 'not available', `${part(later)}: come again`),
      sentence: `${were(all)}, because the database or the table was not available.`,
    };
  if (stored === 0 || misfit * 10 > all)
    return {
      ...said('bad', stored === 0 ? 'all refused' : 'many refused', `${part(forged + misfit)} refused`),
      sentence: `${were(stored === 0 ? all : misfit)}: they do not fit the table.`,
    };
  const failed = forged + misfit + later;
  return failed === 0
    ? said('good', 'all stored')
    : said('warn', 'some refused', `${part(failed)} not stored`);
}

const said = (kind: EndpointStatus['kind'], word: string, brief = word): EndpointStatus => ({
  kind,
  word,
  brief,
  sentence: null,
});

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
