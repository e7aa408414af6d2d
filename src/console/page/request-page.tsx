/** The page of one request: the sentence, what to do, the check step by step; beside it the facts, the body, and what is dangerous. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { explain } from '../explained.ts';
import { isKept, resultOf } from '../request-filter.ts';
import { sizeText } from '../visible-text.ts';
import { forgetOne, retryOne } from '../retry-statements.ts';
import { readBefore } from '../statements.ts';
import { sameHrefOf, Timeline, useSameReason, WhatToDo } from './explained-view.tsx';
import { addressOf, wordsOf } from '../list-address.ts';
import { listOf } from './list-state.ts';
import { Action, Copy, Shown, Sql, Code } from './components.tsx';
import { Text } from './text.tsx';
import { useRows, useLoaded } from './load.ts';
import { useFacts } from './request-facts.ts';
import type { Facts } from './request-facts.ts';
import { msText, toExplain } from './request-line.tsx';
import { RequestTime } from './request-time.tsx';
import { Actions, Contents, Heading, lackingOfRetry, onlyLooks, Retried, Verdict } from './request-view.tsx';
import { ExplainThis, lackingOf } from './request.tsx';
import { Resend } from './resend.tsx';
import { go, route, to } from './route.ts';
import { useSenders } from './senders.ts';
import type { SenderInfo } from '../api.ts';
import { qualified } from '../quote.ts';
import { recognised } from '../guess-sender.ts';
import type { TableRef } from '../statements.ts';
import { readFacts } from '../endpoint-list.ts';
import { useSenderOf } from './endpoint-facts.tsx';
import { call } from './server.ts';

export function RequestPage({
  id,
  query,
}: {
  readonly id: string;
  readonly query: URLSearchParams;
}): JSX.Element {
  const { nameOf } = useSenders();
  const loaded = useFacts(id);
  const address = addressOf(query);
  const filter = { ...address } as Record<string, string>;
  const { rows } = listOf(address).state.value;
  const at = rows.findIndex((row) => row.id === id);
  const hrefOf = (step: number): string | null => {
    const row = at < 0 ? undefined : rows[at + step];
    return row === undefined ? null : to(['requests', row.id], filter);
  };
  const words = wordsOf(address, nameOf);
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['requests'], filter)}>Requests</a>{' '}
          {words === '' ? null : (
            <>
              <span class="faint">/</span> <Text of={words} max={80} />{' '}
            </>
          )}
          <span class="faint">/</span> {isKept(id) ? <Text of={id.slice(1)} max={24} /> : 'an accepted one'}
        </h1>
        {at < 0 ? null : (
          <span class="faint">
            {at + 1} of {rows.length}
          </span>
        )}
        <Step label="Previous" href={hrefOf(-1)} hotkey="k" sign="↑" />
        <Step label="Next" href={hrefOf(1)} hotkey="j" sign="↓" />
        <Copy text={location.href} label="Copy address" />
      </header>
      <Shown loaded={loaded}>
        {(facts) =>
          facts === 'gone' ? (
            <Gone filter={filter} />
          ) : (
            <Page
              facts={facts}
              senderName={nameOf}
              changed={loaded.refresh}
              back={to(['requests'], filter)}
            />
          )
        }
      </Shown>
    </>
  );
}

function Gone({ filter }: { readonly filter: Record<string, string> }): JSX.Element {
  return (
    <div class="empty">
      There is no such request: its table is not yours, or it is no longer kept.{' '}
      <a href={to(['requests'], filter)}>All requests</a>
    </div>
  );
}

function Step({
  label,
  href,
  hotkey,
  sign,
}: {
  readonly label: string;
  readonly href: string | null;
  readonly hotkey: string;
  readonly sign: string;
}): JSX.Element | null {
  return href === null ? null : (
    <a class="button small" href={href} aria-label={label} data-key={hotkey}>
      {sign}
    </a>
  );
}

interface PageProps {
  readonly facts: Facts;
  readonly senderName: (id: string) => string;
  readonly changed: () => void;
  readonly back: string;
}

function Page({ facts, senderName, changed, back }: PageProps): JSX.Element {
  const { row } = facts;
  const same = useSameReason(row.id);
  const refused = resultOf(row) === 'refused' || resultOf(row) === 'later';
  const sameHref = sameHrefOf(row, same);
  return (
    <div class="request-page">
      <div class="main-part">
        <section class="card">
          <Heading facts={facts} isPage />
          <Verdict facts={facts} senderName={senderName} same={same} isPage />
          <Timeline cause={row.cause} arrivedAtMs={row.arrivedAtMs} />
          {row.reason === null ? null : (
            <details class="words">
              <summary>In Headgate’s words</summary>
              <p class="mono">
                {row.code}: <Text of={row.reason} max={4_000} />
              </p>
            </details>
          )}
          <Actions facts={facts} pageHref="" changed={changed} isPage />
          <Retried facts={facts} />
        </section>
        {refused ? (
          <WhatToDo
            todo={explain(toExplain(row, senderName)).todo}
            schema={row.schema}
            table={row.table}
            sameHref={sameHref}
            same={same}
            owned={facts.owned}
          />
        ) : null}
        <Again facts={facts} />
        {isKept(row.id) ? <Compare id={row.id.slice(1)} /> : null}
        {facts.sql === null ? null : <Sql text={facts.sql} />}
      </div>
      <aside>
        <FactList facts={facts} senderName={senderName} />
        <section class="card">
          <Contents facts={facts} changed={changed} />
        </section>
        {isKept(row.id) ? (
          <Danger facts={facts} senderName={senderName} changed={changed} back={back} />
        ) : null}
      </aside>
    </div>
  );
}

/** Its check explained, and the request changed and sent again: as far as it is kept. */
function Again({ facts: { row, came, owned } }: Pick<PageProps, 'facts'>): JSX.Element | null {
  if (came === null) return null;
  const checked = row.authenticated ?? true;
  const lacking = lackingOf(came);
  const query = came.target.indexOf('?');
  return (
    <>
      {owned ? (
        <LooksLike table={came.table} headers={[...came.headers.map(([name]) => name), ...came.leftOut]} />
      ) : null}
      {checked && row.authenticated !== null ? null : <ExplainThis came={came} isRefused={isKept(row.id)} />}
      {!owned ? null : lacking !== null ? (
        <p class="faint">
          It cannot be changed and sent again here: {lacking}. Its sender has the whole request.
        </p>
      ) : (
        <Resend
          table={came.table}
          method={came.method}
          query={query === -1 ? '' : came.target.slice(query)}
          headers={came.headers}
          body={came.body ?? ''}
          checked={checked}
          isOpen={route.value.query.has('again')}
        />
      )}
    </>
  );
}

function FactList({
  facts: { row, came },
  senderName,
}: Pick<PageProps, 'facts' | 'senderName'>): JSX.Element {
  const refused = resultOf(row) === 'refused' || resultOf(row) === 'later';
  const lines: readonly (readonly [string, JSX.Element | string | null])[] = [
    [
      'Endpoint',
      row.table === '' ? (
        'none'
      ) : (
        <a href={to(['endpoint', row.schema, row.table])}>
          <Text of={`${row.schema}.${row.table}`} max={140} />
        </a>
      ),
    ],
    ['Code', refused ? <span class="mono">{row.code}</span> : null],
    ['Path', row.path === undefined ? null : <Text of={row.path} max={200} />],
    ['Sender', row.sender === undefined ? null : senderName(row.sender)],
    ['Event', row.event === undefined ? null : <Text of={row.event} max={200} />],
    ['Arrived', <RequestTime ms={row.arrivedAtMs} fine whole />],
    ['From', <Text of={row.address} max={80} />],
    [
      'Body',
      row.bytes === null
        ? null
        : `${sizeText(row.bytes)}${came === null ? ', not kept' : lackingOf(came) === null ? ', kept whole' : ', its beginning kept'}`,
    ],
    ['Answered', row.ms === 0 ? null : `in ${msText(row.ms)}`],
    ['Check', row.authenticated === null ? null : checkText(row)],
  ];
  return (
    <section class="card">
      <dl class="facts">
        {lines.map(([name, value]) =>
          value === null ? null : (
            <>
              <dt key={name}>{name}</dt>
              <dd>{value}</dd>
            </>
          ),
        )}
      </dl>
    </section>
  );
}

/** A table whose check is that of a sender has one. */
function checkText({ authenticated, sender, code }: Facts['row']): string {
  if (authenticated === true)
    return sender === undefined ? 'VALIDATE accepted it, or the table has none' : 'VALIDATE accepted it';
  if (code === 'signature_failed') return 'VALIDATE did not accept it';
  return code === 'body_too_large' ? 'not checked: the body was too large' : 'not checked';
}

/** Storing what failed its check is behind a name that a person types; nothing here is on a key. */
function Danger({ facts, senderName, changed, back }: PageProps): JSX.Element {
  const { row } = facts;
  const id = row.id.slice(1);
  const [typed, setTyped] = useState('');
  const [isThere, setThere] = useState(false);
  const lacking = lackingOfRetry(facts);
  const forged = row.authenticated === false;
  if (!facts.owned)
    return (
      <section class="card">
        <p>{onlyLooks}</p>
      </section>
    );
  return (
    <section class="card danger-card">
      <h2>{forged ? 'Without the check' : 'For good'}</h2>
      {forged ? (
        <>
          <p>
            Headgate cannot know whether {row.sender === undefined ? 'its sender' : senderName(row.sender)}{' '}
            has sent this. Whoever knows the address could have.
          </p>
          <label>
            To store it, type the name of the table, <Text of={row.table} max={140} />
            <input
              value={typed}
              spellcheck={false}
              disabled={lacking !== null}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
          <Action
            label="Store it unchecked"
            confirm="Its signature is not checked. Store it?"
            kind="danger"
            sql={retryOne(id, true)}
            disabled={lacking !== null || typed !== row.table}
            answers
            done={changed}
          />
        </>
      ) : null}
      <Action
        label="Delete it"
        confirm="Delete it for good?"
        kind="danger"
        sql={forgetOne(id)}
        done={({ tables }) => {
          // false: the table has another owner now, or the request was deleted before.
          if (tables.at(-1)?.rows[0]?.[0] === 't') location.replace(back);
          else setThere(true);
        }}
      />
      {isThere ? <p role="alert">Nothing was deleted. {onlyLooks}</p> : null}
    </section>
  );
}

function Compare({ id }: { readonly id: string }): JSX.Element {
  const before = useRows(readBefore(id)).value?.[0]?.['id'] ?? '';
  const [given, setOther] = useState<string | null>(null);
  const other = given ?? before;
  return (
    <form
      class="row-of wrap"
      onSubmit={(event) => {
        event.preventDefault();
        go(['diff', other, id]);
      }}
    >
      <label>
        Compare with refused request{' '}
        <input
          class="narrow"
          inputMode="numeric"
          pattern="\d+"
          required
          value={other}
          onInput={(event) => setOther(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Compare</button>
    </form>
  );
}

interface Props {
  readonly table: TableRef;
  readonly headers: readonly string[];
}

/** Guesses the sender of a request by its header names, if the table has another check, or none. */
function LooksLike({ table, headers }: Props): JSX.Element | null {
  const senders = useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options)).value;
  const sender = useSenderOf(useRows(readFacts(table)).value?.[0]);
  if (senders === null || sender === undefined) return null;
  const own = sender?.id ?? null;
  const like = recognised(headers, senders);
  const [first] = like;
  if (first === undefined || like.some(({ id }) => id === own)) return null;
  return (
    <section class="strip">
      It looks like{' '}
      {like.map(({ id, name }, i) => (
        <>
          {i === 0 ? '' : ' or '}
          <a key={id} href={to(['new', id])}>
            <Text of={name} />
          </a>
        </>
      ))}
      {own === null ? '.' : <>, but the table checks for {own}.</>} Create an endpoint for it, or give this
      table that check:
      <Code
        text={`ALTER TABLE ${qualified(table.schema, table.table)} VALIDATE SECRET ${first.id}_secret USING ${first.id}`}
      />
    </section>
  );
}
