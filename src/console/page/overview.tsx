/**
 * The overview: whether requests can be accepted, what was answered since the start (`/metrics`), requests as they arrive, and
 * why requests were refused (`headgate.rejected_requests`). Without an endpoint: how to create one.
 */
import type { JSX } from 'preact';
import type { Health } from '../api.ts';
import { digitsText } from '../shown.ts';
import { countEndpoints, listReasons } from '../statements.ts';
import { FirstSteps } from './first-steps.tsx';
import { LiveList } from './live-list.tsx';
import { useLoaded, useRows } from './load.ts';
import { Ago, Badge, Listing, Skeleton, Text, timeOf } from './parts.tsx';
import { to } from './route.ts';
import { call } from './server.ts';

export function Overview(): JSX.Element {
  const health = useLoaded('health', (options) => call<Health>('health', options), 5_000);
  const endpoints = useRows(countEndpoints(''), 10_000);
  const reasons = useRows(listReasons(null), 10_000);
  const tables = endpoints.value?.[0]?.['tables'] ?? null;
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
        <a class="button primary" href={to(['new'])}>
          New endpoint
        </a>
      </header>
      {health.value === null ? <Skeleton /> : <Figures health={health.value} endpoints={tables} />}
      {tables === '0' ? <FirstSteps /> : null}
      <div class="two">
        <section class="card wide">
          <h2>Requests</h2>
          <LiveList only={null} max={40} empty={<>No requests yet. They appear here within a second.</>} />
        </section>
        <section class="card">
          <h2>
            <a href={to(['refused'])}>Why requests were refused</a>
          </h2>
          <Listing loaded={reasons} empty={<>Nothing was refused.</>}>
            {(rows) => (
              <ul class="list">
                {rows.slice(0, 8).map((row) => (
                  <li key={`${row['last_id']}`}>
                    <a
                      data-row
                      class="line"
                      href={to(['refused'], {
                        schema: row['schema_name'] ?? '',
                        table: row['table_name'] ?? '',
                        code: row['code'] ?? '',
                      })}
                    >
                      <span class="row-of">
                        <Badge kind="bad">{row['requests']}</Badge>
                        <b class="grow">
                          <Text of={row['table_name'] ?? ''} max={60} />
                        </b>
                        <span class="faint">
                          <Ago at={timeOf(row['last_at'] ?? null)} />
                        </span>
                      </span>
                      <span class="faint">
                        <Text of={row['reason'] ?? ''} max={200} />
                      </span>
                    </a>
                  </li>
                ))}
              </ul>
            )}
          </Listing>
        </section>
      </div>
    </>
  );
}

function Figures({
  health,
  endpoints,
}: {
  readonly health: Health;
  readonly endpoints: string | null;
}): JSX.Element {
  const { notReady, requests, rows, p50, p99, waitingRows } = health;
  const count = (of: (status: string) => boolean) =>
    requests.reduce((sum, it) => (of(it.status) ? sum + it.count : sum), 0);
  const [good, refused, later] = [
    count((status) => status.startsWith('2')),
    count((status) => status.startsWith('4')),
    count((status) => status.startsWith('5')),
  ];
  const time = (seconds: number | null): string => (seconds === null ? '–' : `≤ ${seconds * 1_000} ms`);
  return (
    <dl class="figures">
      <div>
        <dt>state</dt>
        <dd>{notReady === null ? <Badge kind="good">ready</Badge> : <Badge kind="bad">{notReady}</Badge>}</dd>
      </div>
      <Figure name="endpoints" value={endpoints === null ? '…' : digitsText(endpoints)} />
      <Figure name="rows committed" value={digitsText(String(rows))} />
      <Figure name="answered 2xx" value={digitsText(String(good))} />
      <Figure name="refused 4xx" value={digitsText(String(refused))} />
      <Figure name="try again 5xx" value={digitsText(String(later))} />
      <Figure name="median" value={time(p50)} />
      <Figure name="p99" value={time(p99)} />
      <Figure name="rows waiting" value={digitsText(String(waitingRows))} />
    </dl>
  );
}

export function Figure({
  name,
  value,
  wrong = false,
}: {
  readonly name: string;
  readonly value: string;
  readonly wrong?: boolean;
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{wrong ? <Badge kind="warn">{value}</Badge> : value}</dd>
    </div>
  );
}
