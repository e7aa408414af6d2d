/** Why a request was refused: the sentence, how late it was, what to do, and what else had the same reason. */
import type { JSX } from 'preact';
import type { Cause } from '../../types/cause.ts';
import { spanText } from '../../kit/duration.ts';
import type { ListedRequest } from '../api.ts';
import type { Explained, NextStep } from '../explained.ts';
import { isKept } from '../request-filter.ts';
import { sameReason } from '../request-statements.ts';
import { useRowsIf } from './load.ts';
import type { ResultRow } from './load.ts';
import { Text } from './text.tsx';
import { timeOf } from '../request-rows.ts';
import { clockOf, RequestTime } from './request-time.tsx';
import { to } from './route.ts';

/** `id`: of the refused request, if it was kept. */
export function useSameReason(id: string): ResultRow | null {
  return useRowsIf(isKept(id) ? sameReason(id.slice(1)) : null).value?.[0] ?? null;
}

/** The list of requests that were refused for the same reason. */
export function sameHrefOf({ schema, table, code }: ListedRequest, same: ResultRow | null): string {
  return to(['requests'], { result: 'refused', schema, table, code, cause: same?.['cause'] ?? '' });
}

/** What helps most often, beside the sentence: everything else is on the page of the request. */
export function Offers({
  row,
  todo,
  same,
  owned,
}: {
  readonly row: ListedRequest;
  readonly todo: readonly NextStep[];
  readonly same: ResultRow | null;
  readonly owned: boolean;
}): JSX.Element | null {
  const secret = owned && row.code === 'signature_failed' && todo.some(({ offer }) => offer === 'secret');
  const n = Number(same?.['requests'] ?? 0);
  if (!secret && n < 2) return null;
  return (
    <p class="row-of wrap">
      {secret ? (
        <a class="button small" href={to(['secrets'], { q: `${row.schema}.${row.table}` })}>
          Set the secret
        </a>
      ) : null}
      {n < 2 ? null : (
        <a class="button small" href={sameHrefOf(row, same)}>
          Show the {n}
        </a>
      )}
    </p>
  );
}

export function SentenceBox({
  explained,
  same,
  children,
}: {
  readonly explained: Explained;
  readonly same: ResultRow | null;
  readonly children?: JSX.Element | null;
}): JSX.Element {
  return (
    <div class="sentence" role="status">
      <p class="title">
        <Text of={explained.title} max={400} />
      </p>
      <p>
        <Text of={explained.says} max={600} /> <Evidence same={same} />
      </p>
      {children}
    </div>
  );
}

/** How many had the same reason, and since when: what makes one cause likelier than another. */
function Evidence({ same }: { readonly same: ResultRow | null }): JSX.Element | null {
  const n = Number(same?.['requests'] ?? 0);
  if (n < 2) return null;
  return (
    <>
      {n} with this reason since <RequestTime ms={timeOf(same?.['first_at'] ?? null)} />, from{' '}
      {same?.['addresses']} {same?.['addresses'] === '1' ? 'address' : 'addresses'}.
    </>
  );
}

/** From signing to arrival, with what the check allows. */
export function Timeline({
  cause,
  arrivedAtMs,
}: {
  readonly cause: Cause | null;
  readonly arrivedAtMs: number;
}): JSX.Element | null {
  if (
    cause?.kind !== 'clock' ||
    cause.ageS === undefined ||
    cause.limitS === undefined ||
    cause.ageS <= cause.limitS
  )
    return null;
  const { ageS, limitS } = cause;
  // Room for the three times.
  const share = Math.max(34, Math.min(66, (limitS / ageS) * 100));
  const signed = arrivedAtMs - ageS * 1_000;
  return (
    <div
      class="timeline"
      role="img"
      aria-label={`signed ${clockOf(signed)}, allowed until ${clockOf(signed + limitS * 1_000)}, arrived ${clockOf(arrivedAtMs)}`}
    >
      <span class="within" style={{ width: `${share}%` }}>
        <b>signed {clockOf(signed)}</b>
        <i>{spanText(limitS)} are allowed</i>
      </span>
      <span class="beyond">
        <b class="limit">limit {clockOf(signed + limitS * 1_000)}</b>
        <b class="arrived">arrived {clockOf(arrivedAtMs)}</b>
        <i>{spanText(ageS - limitS)} too late</i>
      </span>
    </div>
  );
}

interface TodoProps {
  readonly todo: readonly NextStep[];
  readonly schema: string;
  readonly table: string;
  readonly sameHref: string;
  readonly same: ResultRow | null;
  /** Others may not set its secret. */
  readonly owned: boolean;
}

export function WhatToDo({ todo, schema, table, sameHref, same, owned }: TodoProps): JSX.Element {
  const links = {
    secret: [to(['secrets'], { q: `${schema}.${table}` }), 'Set the secret'],
    same: [sameHref, `Show the ${same?.['requests'] ?? ''}`],
    health: [to(['health']), 'Health'],
    endpoint: [
      table === '' ? to(['endpoints']) : to(['endpoint', schema, table, 'definition']),
      table === '' ? 'Endpoints' : 'Its definition',
    ],
    sql: [to(['sql']), 'SQL'],
  } as const;
  return (
    <section class="card todo">
      <h2>What to do</h2>
      <ol>
        {todo.map(({ what, why, offer }) => (
          <li key={what}>
            <div>
              <b>
                <Text of={what} />
              </b>
              <span class="faint">
                <Text of={why} />
              </span>
            </div>
            {offer === undefined ||
            (offer === 'secret' && !owned) ||
            (offer === 'same' && Number(same?.['requests'] ?? 0) < 2) ? null : (
              <a class="button small" href={links[offer][0]}>
                {links[offer][1]}
              </a>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}
