/**
 * One request, beside the list and on its own page: what became of it in a sentence, what can be done, then body, headers, answer, row and
 * history. The verdict is that of its arrival.
 */
import type { ComponentChildren, JSX } from 'preact';
import { signal } from '@preact/signals';
import { explain, notKeptBecause, partKeptBecause } from '../explained.ts';
import { notJsonOf } from '../outcome-summary.ts';
import { isKept, resultOf } from '../request-filter.ts';
import { readArrival, rowsOfArrival } from '../accepted-rows.ts';
import { sizeText } from '../visible-text.ts';
import { retryOne } from '../retry-statements.ts';
import { inspect } from '../statements.ts';
import { Offers, SentenceBox } from './explained-view.tsx';
import { useRowsIf, useLoaded } from './load.ts';
import type { ResultRow } from './load.ts';
import { Action, Copy, Sql, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import type { Facts } from './request-facts.ts';
import { AnswerBadge, msText, toExplain } from './request-line.tsx';
import { RequestTime, clockOf } from './request-time.tsx';
import { copyOf, Headers, lackingOf } from './request.tsx';
import { Outcome } from './retry-progress.tsx';
import { AsIfNow } from './retry-warning.tsx';
import { to } from './route.ts';
import { look, me } from './server.ts';
import { zoneName } from './time-zone.ts';
import { Body, OneRow, Result } from './value.tsx';

interface ViewProps {
  readonly facts: Facts;
  readonly senderName: (id: string) => string;
  /** Of the page of this request. */
  readonly pageHref: string;
  /** It has changed: read it again. */
  readonly changed: () => void;
}

const titleOf = ({ row }: Facts): string =>
  row.event ??
  {
    stored: 'Stored',
    spooled: 'Kept on disk',
    refused: 'Refused',
    later: 'Told to come again',
    handshake: 'Handshake',
  }[resultOf(row)];

export function Heading({
  facts,
  isPage = false,
}: {
  readonly facts: Facts;
  readonly isPage?: boolean;
}): JSX.Element {
  const { row } = facts;
  return (
    <>
      <h2 class="request-title">
        <AnswerBadge row={row} /> <Text of={titleOf(facts)} max={120} />{' '}
        {row.table === '' ? null : (
          <>
            <span class="faint">to</span>{' '}
            <a href={to(['endpoint', row.schema, row.table])}>
              <Text of={row.table} max={140} />
            </a>
          </>
        )}
      </h2>
      <p class="faint">
        <RequestTime ms={row.arrivedAtMs} fine whole={isPage} /> · from <Text of={row.address} max={80} />
        {row.bytes === null ? '' : ` · ${sizeText(row.bytes)}`}
        {row.ms === 0 ? '' : ` · answered in ${msText(row.ms)}`}
      </p>
    </>
  );
}

export function Verdict({
  facts,
  senderName,
  same,
  isPage,
}: Pick<ViewProps, 'facts' | 'senderName'> & {
  /** Of useSameReason. */
  readonly same: ResultRow | null;
  readonly isPage: boolean;
}): JSX.Element {
  const { row, engineError, owned } = facts;
  const result = resultOf(row);
  if (result === 'refused' || result === 'later') {
    const explained = explain(toExplain(row, senderName));
    return (
      <div class={result}>
        <SentenceBox explained={explained} same={same}>
          {isPage ? null : <Offers row={row} todo={explained.todo} same={same} owned={owned} />}
        </SentenceBox>
        {engineError === null ? null : (
          <p class="mono">
            PostgreSQL: <Text of={engineError} max={2_048} />
          </p>
        )}
      </div>
    );
  }
  return (
    <div class="stored">
      <div class="sentence" role="status">
        <p class="title">{acceptedTitle(facts)}</p>
      </div>
    </div>
  );
}

function acceptedTitle({ row }: Facts): string {
  if (row.code === 'handshake') return 'The sender asked whether the endpoint is there, and was answered.';
  if (row.code.startsWith('handshake')) return 'The sender asked in a way that no ANSWER of the table fits.';
  if (row.code === 'spooled')
    return 'Kept on disk, because the database was away. It becomes a row as soon as it is back.';
  if (row.rows === 0) return 'No new row: it is stored already, or the table holds a newer version of it.';
  return `Stored: ${row.rows} ${row.rows === 1 ? 'row is' : 'rows are'} committed.`;
}

/** Why it cannot be retried, as `headgate.retry_rejected` says it in psql; null: it can. */
export function lackingOfRetry({ row, came }: Facts): string | null {
  if (row.door === 'websocket')
    return 'the batches of a WebSocket come in an order that only its client can repeat';
  return came === null ? 'nothing of it is kept' : lackingOf(came);
}

/** To a role that sees a table and does not own it. */
export const onlyLooks = 'You may look at it; only the owner of its table deletes and retries.';

/** Harmless ones only: what stores something that failed its check is on the page, on a card of its own. */
export function Actions({
  facts,
  pageHref,
  changed,
  isPage,
}: Omit<ViewProps, 'senderName'> & { readonly isPage: boolean }): JSX.Element {
  const { row, came, owned } = facts;
  const kept = isKept(row.id);
  const lacking = lackingOfRetry(facts);
  // Whoever has changed the table can still retry it.
  const hopeless = notJsonOf(row.reason) !== null;
  const stored = row.retry === 'committed';
  const retries = kept && owned && row.authenticated === true && !stored;
  return (
    <>
      <div class="row-of wrap">
        {retries ? (
          <Action
            label="Retry"
            hotkey="r"
            kind={isPage && !hopeless && lacking === null ? 'primary' : 'plain'}
            sql={retryOne(row.id.slice(1), false)}
            disabled={lacking !== null}
            answers
            done={changed}
          />
        ) : null}
        {came !== null && lackingOf(came) === null ? (
          <Copy text={copyOf(came)} label="Copy as curl" hotkey="c" />
        ) : null}
        {isPage ? null : (
          <a class="button small" href={pageHref} data-key="e">
            {resultOf(row) === 'refused' ? 'Explain' : 'Open its page'}
          </a>
        )}
        {!isPage && resultOf(row) === 'stored' && came !== null && lackingOf(came) === null ? (
          <a class="button small" href={`${pageHref}${pageHref.includes('?') ? '&' : '?'}again=1`}>
            Send again…
          </a>
        ) : null}
        {kept && lacking !== null ? <span class="faint">not retried: {lacking}</span> : null}
        {kept && !owned && !isPage ? <span class="faint">{onlyLooks}</span> : null}
      </div>
      {retries && lacking === null && row.table !== '' ? <AsIfNow of={row} /> : null}
    </>
  );
}

export function Retried({ facts: { retry } }: { readonly facts: Facts }): JSX.Element | null {
  return retry === null ? null : (
    <p role="status">
      Retried: <Outcome outcome={retry.outcome} />{' '}
      <span class="faint">
        <Text of={retry.reason} max={2_000} />
      </span>
    </p>
  );
}

const tabs = ['Body', 'Headers', 'Answer', 'Row', 'History'] as const;
/** Kept when the next request is opened. */
const tab = signal<(typeof tabs)[number]>('Body');

export function Contents({
  facts,
  changed,
}: {
  readonly facts: Facts;
  readonly changed: () => void;
}): JSX.Element {
  const { came } = facts;
  const active = tab.value;
  const headers = came === null ? 0 : came.headers.length + came.leftOut.length;
  return (
    <section class="contents">
      <div class="tabs" role="tablist" aria-label="Contents">
        {tabs.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            aria-selected={active === name}
            onClick={() => (tab.value = name)}
          >
            {name}
            {name === 'Headers' && headers > 0 ? <span class="n">{headers}</span> : null}
          </button>
        ))}
      </div>
      <div role="tabpanel" aria-label={active}>
        {active === 'Body' ? <TheBody facts={facts} changed={changed} /> : null}
        {active === 'Headers' ? (
          came === null ? (
            <NotKept facts={facts} changed={changed} />
          ) : (
            <WithTarget facts={facts} />
          )
        ) : null}
        {active === 'Answer' ? <Answer facts={facts} /> : null}
        {active === 'Row' ? <ItsRow facts={facts} /> : null}
        {active === 'History' ? <History facts={facts} /> : null}
      </div>
    </section>
  );
}

function WithTarget({ facts: { came } }: { readonly facts: Facts }): JSX.Element | null {
  return came === null ? null : (
    <>
      <p class="mono">
        {came.method} <Text of={came.target} max={2_000} />
      </p>
      <Headers came={came} />
    </>
  );
}

function TheBody({ facts, changed }: { readonly facts: Facts; readonly changed: () => void }): JSX.Element {
  const { came } = facts;
  if (came === null) return <NotKept facts={facts} changed={changed} />;
  if (came.body === null) return <p class="faint">The body was not read.</p>;
  const lacking = lackingOf(came);
  return (
    <>
      {lacking === null ? null : (
        <div class="later">
          <div class="sentence">
            <p class="title">Only the beginning of its {sizeText(came.bodyBytes)} was kept.</p>
            <p>
              It cannot be retried or sent again from here
              {isKept(facts.row.id) ? `: ${partKeptBecause}` : ''}. Let its sender send it once more. The
              whole body had {came.bodyBytes} bytes.
            </p>
          </div>
        </div>
      )}
      <Body base64={came.body} />
    </>
  );
}

/** Says what is kept of such requests, and offers to keep more from now on. */
function NotKept({
  facts: { row, owned },
  changed,
}: {
  readonly facts: Facts;
  readonly changed: () => void;
}): JSX.Element {
  const result = resultOf(row);
  if (row.table === '')
    return <p class="faint">Of requests that lead to no endpoint only the line is kept.</p>;
  if (result === 'handshake')
    return <p class="faint">Of handshakes only the line is kept: what a sender asks may be a credential.</p>;
  if (result === 'later')
    return <p class="faint">Nothing of it is kept: its sender has it still, and sends it again.</p>;
  if (result === 'refused')
    return (
      <p class="faint">
        {me.value?.keptCodes.includes(row.code) === true
          ? `Only its line is known: ${notKeptBecause}. Nothing is kept while the database is away, or with HEADGATE_REJECTED_ROWS_MAX=0.`
          : 'Of a request that was refused for this only the line is kept: it says nothing about the table.'}
      </p>
    );
  return (
    <div class="empty">
      <p>
        <b>The body of this request was not kept.</b>
      </p>
      <p>What it held is in its row, unless a column is missing.</p>
      <p>
        <button type="button" onClick={() => (tab.value = 'Row')}>
          Show the row
        </button>
      </p>
      {owned ? (
        <Action label="Keep bodies from now on" sql={inspect(row, 'bodies')} done={changed} />
      ) : (
        <p>Only the owner of the table sees bodies of accepted requests.</p>
      )}
    </div>
  );
}

function Answer({ facts: { row } }: { readonly facts: Facts }): JSX.Element {
  return (
    <dl class="facts">
      <dt>Status</dt>
      <dd>
        <AnswerBadge row={row} />
      </dd>
      <dt>Code</dt>
      <dd class="mono">{row.code}</dd>
      {row.reason === null ? null : (
        <>
          <dt>Sentence</dt>
          <dd>
            <Text of={row.reason} max={4_000} />
          </dd>
        </>
      )}
      {row.ms === 0 ? null : (
        <>
          <dt>Took</dt>
          <dd>{msText(row.ms)}</dd>
        </>
      )}
    </dl>
  );
}

const scanBytesMax = 64 * 1024 * 1024;

/** Found by the time of its arrival, if the table has that. */
function ItsRow({ facts: { row, retry } }: { readonly facts: Facts }): JSX.Element {
  const { schema, table, arrivedAtMs } = row;
  const stored = row.code === 'committed' || row.code === 'spooled' || retry?.outcome === 'committed';
  const rows = to(['endpoint', schema, table, 'rows']);
  const arrival = useRowsIf(stored && table !== '' ? readArrival(schema, table) : null);
  const [known] = arrival.value ?? [];
  const column = known?.['name'] ?? null;
  const cheap = known?.['indexed'] === 't' || Number(known?.['bytes'] ?? 0) <= scanBytesMax;
  const sql = column !== null && cheap ? rowsOfArrival(schema, table, column, arrivedAtMs) : null;
  if (!stored) return <p class="faint">It has no row: nothing of it was stored.</p>;
  if (arrival.failure !== null) return <Wrong failure={arrival.failure} />;
  if (sql === null)
    return (
      <p class="faint">
        {known === undefined
          ? 'Looking for it …'
          : column === null
            ? 'The table keeps no time of arrival (INCLUDE TIMESTAMP), so which of its rows this is cannot be known. '
            : 'The table is large, and no index has the order of arrival. '}
        <a href={rows}>The newest rows</a>
      </p>
    );
  return <FoundRows sql={sql} href={rows} />;
}

function FoundRows({ sql, href }: { readonly sql: string; readonly href: string }): JSX.Element {
  const { value, failure } = useLoaded(`${zoneName.value} ${sql}`, (options) =>
    look(sql, options, zoneName.value),
  );
  const table = value?.tables.at(-1);
  if (failure !== null) return <Wrong failure={failure} />;
  if (table === undefined) return <p class="faint">Looking for it …</p>;
  if (table.rows.length === 0)
    return (
      <p class="faint">
        No row has the time of its arrival: the delivery was stored before, or its row was removed.{' '}
        <a href={href}>The newest rows</a>
      </p>
    );
  return (
    <>
      {table.rows.length === 1 ? <OneRow table={table} /> : <Result table={table} />}
      <Sql text={sql} />
    </>
  );
}

function History({ facts: { row, retry, came } }: { readonly facts: Facts }): JSX.Element {
  const kept = isKept(row.id);
  const result = resultOf(row);
  const leftOut = came?.leftOut.length ?? 0;
  return (
    <ul class="history">
      <Event at={row.arrivedAtMs}>Arrived from {row.address}</Event>
      <Event at={row.arrivedAtMs + row.ms}>
        {result === 'refused' ? `Refused with ${row.status}; nothing was stored` : `Answered ${row.status}`}
      </Event>
      {kept ? (
        <Event at={null}>
          Kept in headgate.rejected_requests, for 7 days unless set otherwise
          {leftOut > 0
            ? `, without ${leftOut} ${leftOut === 1 ? 'header' : 'headers'} that may hold credentials`
            : ''}
        </Event>
      ) : (
        <Event at={null}>Remembered by this Headgate until 2,000 others have come, or it stops</Event>
      )}
      {retry === null ? (
        kept ? (
          <Event at={null}>Not retried</Event>
        ) : null
      ) : (
        <Event at={retry.atMs}>
          Retried: <Outcome outcome={retry.outcome} />
        </Event>
      )}
    </ul>
  );
}

function Event({
  at,
  children,
}: {
  readonly at: number | null;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <li>
      <span class="mono">{at === null || Number.isNaN(at) ? '—' : clockOf(Math.round(at), true)}</span>
      <span>{children}</span>
    </li>
  );
}
