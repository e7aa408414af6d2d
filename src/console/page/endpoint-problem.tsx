/**
 * What is wrong with an endpoint, in a word and in a sentence: it cannot be used, or all or some requests of the last hour were
 * refused. From the checks that this Headgate has read and the counts of the last hour (`headgate.traffic`).
 */
import type { JSX } from 'preact';
import { listTraffic, readGap, showGaps } from '../endpoint-list.ts';
import type { TableRef } from '../statements.ts';
import { useLoaded, useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { digitsText } from '../visible-text.ts';
import { Badge } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';
import { call } from './server.ts';
import type { CallOptions } from './server.ts';

export interface EndpointStatus {
  readonly kind: 'good' | 'bad' | 'warn' | 'plain';
  readonly word: string;
  /** `word` in figures. */
  readonly brief: string;
  /** null: nothing to say. */
  readonly sentence: string | null;
}

/** `unusable`: why no request can be taken, or null; `hour`: requests of the last hour and what its sender's log says (endpoint-list.ts); undefined: neither. */
export function stateOf(unusable: string | null, hour: ResultRow | undefined): EndpointStatus {
  const state = requestsOf(unusable, hour);
  const gap = gapOf(hour);
  if (gap === null) return state;
  return state.kind === 'bad' ? { ...state, brief: `${state.brief}; ${gap.brief}` } : gap;
}

/** Each that has a sentence. */
export function troublesOf(unusable: string | null, hour: ResultRow | undefined): readonly EndpointStatus[] {
  const all = [requestsOf(unusable, hour), gapOf(hour)];
  return all.filter((it) => it !== null).filter(({ sentence }) => sentence !== null);
}

export const gapWords = ['log not read', 'deliveries missing'] as const;

/** What the comparison with its sender's log says; null: nothing is wrong, or it is not compared. */
function gapOf(row: ResultRow | undefined): EndpointStatus | null {
  const [problem, missing] = [row?.['problem'] ?? null, Number(row?.['missing'] ?? 0)];
  if (problem !== null)
    return {
      ...said('bad', gapWords[0], 'log of its sender not read'),
      sentence: `The log of its sender cannot be read, so what is missing is not known: ${problem}.`,
    };
  if (missing === 0) return null;
  const were = missing === 1 ? 'delivery' : 'deliveries';
  return {
    ...said('bad', gapWords[1], `${digitsText(String(missing))} ${were} missing`),
    sentence: `${digitsText(String(missing))} ${were} of the last 7 days that the log of its sender has ${missing === 1 ? 'is' : 'are'} missing here.`,
  };
}

function requestsOf(unusable: string | null, hour: ResultRow | undefined): EndpointStatus {
  if (unusable !== null)
    return { ...said('bad', 'unusable'), sentence: `No request can be taken: ${unusable}.` };
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
      ...said('bad', 'failing signatures', `${part(forged)}: signature fails`),
      sentence: `${were(stored === 0 ? all : forged)}, probably because of another secret, or ${all === 1 ? 'it was' : 'they were'} changed on the way.`,
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
    : said('warn', 'some refused', some(part, forged + misfit, later));
}

const some = (part: (count: number) => string, refused: number, later: number): string =>
  [
    ...(refused === 0 ? [] : [`${part(refused)} refused`]),
    ...(later === 0 ? [] : [`${part(later)}: come again`]),
  ].join(', ');

const said = (kind: EndpointStatus['kind'], word: string, brief = word): EndpointStatus => ({
  kind,
  word,
  brief,
  sentence: null,
});

/** By schema and table. */
export const rowOf = (
  rows: readonly ResultRow[] | null,
  { schema, table }: TableRef,
): ResultRow | undefined => rows?.find((row) => row['schema_name'] === schema && row['table_name'] === table);

/** Why no request can be taken for these tables, by oid; those that work are not in it. */
export function useUnusable(oids: readonly string[]): Readonly<Record<string, string>> {
  const key = oids.join(' ');
  const load = (options: Omit<CallOptions, 'body'>): Promise<Readonly<Record<string, string>>> =>
    call('unusable', { ...options, body: { oids: oids.map(Number) } });
  return useLoaded(`unusable ${key}`, load, 15_000).value ?? {};
}

interface Props {
  readonly of: TableRef;
  readonly oid: string;
  /** Of its check. */
  readonly secrets: readonly string[];
}

/** The banner of an endpoint's page. */
export function Trouble({ of, oid, secrets }: Props): JSX.Element {
  const unusable = useUnusable([oid])[oid] ?? null;
  const hour = rowOf(useRows(listTraffic([of]), 15_000).value, of);
  const gap = useRows(readGap(of), 15_000).value?.[0];
  return (
    <>
      {troublesOf(unusable, { ...hour, ...gap }).map((it) => (
        <OneTrouble key={it.word} of={of} secrets={secrets} trouble={it} />
      ))}
    </>
  );
}

function OneTrouble({
  of,
  secrets,
  trouble: { kind, word, sentence },
}: Omit<Props, 'oid'> & { readonly trouble: EndpointStatus }): JSX.Element {
  return (
    <p class={`trouble ${kind === 'bad' ? 'verdict bad' : 'strip'}`} role="status">
      <span class="grow">
        <Badge kind={kind}>{word}</Badge> <Text of={sentence ?? ''} max={400} />
      </span>
      {gapWords.some((it) => it === word) ? (
        <a class="button" href={to(['sql'], { sql: showGaps(of) })}>
          Show the hours
        </a>
      ) : (
        <a class="button" href={to(['endpoint', of.schema, of.table, 'refused'])}>
          Why?
        </a>
      )}
      {word === 'failing signatures' && secrets[0] !== undefined ? (
        <a class="button" href={to(['secrets'], { q: secrets[0] })}>
          Set the secret
        </a>
      ) : null}
    </p>
  );
}
