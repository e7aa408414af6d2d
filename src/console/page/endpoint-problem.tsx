/**
 * What is wrong with an endpoint, in a word and in a sentence: it cannot be used, nothing was stored of the newest requests, or some of the last hour
 * were refused. From the checks that this Headgate has read and `headgate.endpoint_states`, which decides.
 */
import type { JSX } from 'preact';
import { readState, reasonsMax, showGaps } from '../endpoint-list.ts';
import { briefReason } from '../outcome-summary.ts';
import type { TableRef } from '../statements.ts';
import { useLoaded, useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { timeOf } from '../request-rows.ts';
import { digitsText } from '../visible-text.ts';
import { whenText } from './request-time.tsx';
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

/** `unusable`: why no request can be taken, or null; `row`: of headgate.endpoint_states; undefined: not known. */
export function stateOf(unusable: string | null, row: ResultRow | undefined): EndpointStatus {
  const state = requestsOf(unusable, row);
  const gap = gapOf(row);
  if (gap === null) return state;
  return state.kind === 'bad' ? { ...state, brief: `${state.brief}; ${gap.brief}` } : gap;
}

/** Each that has a sentence. */
export function troublesOf(unusable: string | null, row: ResultRow | undefined): readonly EndpointStatus[] {
  const all = [requestsOf(unusable, row), gapOf(row)];
  return all.filter((it) => it !== null).filter(({ sentence }) => sentence !== null);
}

export const gapWords = ['log not read', 'deliveries missing'] as const;

/** What the comparison with its sender's log says; null: nothing is wrong, or it is not compared. */
function gapOf(row: ResultRow | undefined): EndpointStatus | null {
  const [problem, missing] = [row?.['log_problem'] ?? null, Number(row?.['missing'] ?? 0)];
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

function requestsOf(unusable: string | null, row: ResultRow | undefined): EndpointStatus {
  if (unusable !== null)
    return { ...said('bad', 'unusable'), sentence: `No request can be taken: ${unusable}.` };
  const state = row?.['state'] ?? 'quiet';
  if (state === 'quiet')
    return said('plain', row?.['last_at'] === null ? 'waiting for the first request' : 'quiet for an hour');
  if (state === 'stored') return said('good', 'all stored');
  const hour = countsOf(row, '');
  return state === 'nothing stored' ? nothingStored(row, hour) : partOf(state, hour, row);
}

interface Counts {
  readonly forged: number;
  readonly misfit: number;
  readonly later: number;
  readonly all: number;
}

/** `prefix`: `since_`, of those since the last one that was stored; or of those of the last hour. */
function countsOf(row: ResultRow | undefined, prefix: 'since_' | ''): Counts {
  const of = (name: string): number => Number(row?.[`${prefix}${name}`] ?? 0);
  const [forged, misfit, later] = [of('unauthorized'), of('refused'), of('unavailable')];
  return { forged, misfit, later, all: (prefix === '' ? of('stored') : 0) + forged + misfit + later };
}

/** `Another secret, or changed (5)`: as far as they are kept; `refused`: how many there are; `later`: as many more were told to come again. */
function reasonsText(row: ResultRow | undefined, refused: number, later = 0): string | null {
  const reasons = JSON.parse(row?.['reasons'] ?? 'null') as readonly ResultRow[] | null;
  if (reasons === null) return null;
  const sum = reasons.reduce((all, { requests }) => all + Number(requests), 0);
  return [
    ...reasons.map((it) => `${briefReason(it)} (${digitsText(it['requests'] ?? '')})`),
    ...(sum < refused
      ? [`${reasons.length < reasonsMax ? 'not kept' : 'others'} (${digitsText(String(refused - sum))})`]
      : []),
    ...(later > 0 ? [`told to come again (${digitsText(String(later))})`] : []),
  ].join(', ');
}

/** If the counts are all that is known. */
const byTheCheck = 'another secret, no signature, or an old timestamp';

/** Of the newest requests none was stored. */
function nothingStored(row: ResultRow | undefined, hour: Counts): EndpointStatus {
  const { forged, misfit, later, all } = countsOf(row, 'since_');
  const count = digitsText(String(all));
  const were =
    all === 1
      ? `The last request, at ${whenText(timeOf(row?.['since'] ?? null))}, was refused`
      : hour.all === all
        ? `All ${count} requests of the last hour were refused`
        : `The last ${count} requests, since ${whenText(timeOf(row?.['since'] ?? null))}, were all refused`;
  const part = (some: number): string => `${digitsText(String(some))} of ${count}`;
  const last = hour.all === all ? '' : 'the last ';
  const reasons = reasonsText(row, forged + misfit, later);
  if (forged >= misfit && forged * 2 > all)
    return {
      ...said('bad', 'failing signatures', `${last}${part(forged)}: signature fails`),
      sentence: `${were}${forged < all ? ', most of them' : ''} by the check: ${reasons ?? byTheCheck}.`,
    };
  if (later > misfit)
    return {
      ...said('warn', 'not available', `${last}${part(later)}: come again`),
      sentence: `${were}, because the database or the table was not available.`,
    };
  return {
    ...said('bad', 'all refused', `${last}${part(forged + misfit)} refused`),
    sentence: `${were}${reasons === null ? '' : `: ${reasons}`}.`,
  };
}

/** Of the last hour. */
function partOf(
  state: string,
  { forged, misfit, later, all }: Counts,
  row: ResultRow | undefined,
): EndpointStatus {
  const part = (count: number): string => `${digitsText(String(count))} of ${digitsText(String(all))}`;
  const reasons = reasonsText(row, forged + misfit);
  const most = misfit > 0 ? ', most of them' : '';
  if (state === 'signatures fail')
    return {
      ...said('bad', 'failing signatures', `${part(forged)}: signature fails`),
      sentence: `${part(forged + misfit)} requests of the last hour were refused${most} by the check: ${reasons ?? byTheCheck}.`,
    };
  if (state === 'many refused')
    return {
      ...said('bad', 'many refused', `${part(forged + misfit)} refused`),
      sentence: `${part(forged + misfit)} requests of the last hour were refused${reasons === null ? '' : `: ${reasons}`}.`,
    };
  const partly = said('warn', 'some refused', some(part, forged + misfit, later));
  // Anybody can have sent them, or a sender that has no secret yet.
  if (forged < 3 || forged + misfit < all) return partly;
  const sentence = `${part(forged + misfit)} requests of the last hour were refused${most} by the check: ${reasons ?? byTheCheck}. Anybody can send such requests; if they are its sender’s, it has no secret to sign with yet.`;
  return { ...partly, sentence };
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
  const state = useRows(readState(Number(oid)), 15_000).value?.[0];
  return (
    <>
      {troublesOf(unusable, state).map((it) => (
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
        <b>
          {word[0]?.toUpperCase()}
          {word.slice(1)}.
        </b>{' '}
        <Text of={sentence ?? ''} max={400} />
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
