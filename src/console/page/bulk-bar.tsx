/**
 * What can be done with the selected requests, with counts if not all of them can: retry, send again, copy, and, behind a typed name or a
 * question, store without the check and delete. What cannot be done says why.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { HeldRequest } from '../../observe/tail.ts';
import type { ListedRequest, TestAnswer } from '../api.ts';
import { resultOf } from '../request-filter.ts';
import { forgetFiltered, retryFiltered } from '../request-statements.ts';
import type { KeptFilter } from '../request-statements.ts';
import { forgetSome, retrySome } from '../statements.ts';
import type { RequestList } from './list-state.ts';
import { Copy, Sql, Text, Wrong } from './parts.tsx';
import { call, run } from './server.ts';
import type { Failure } from './server.ts';

interface Props {
  readonly list: RequestList;
  readonly filter: KeptFilter;
  readonly senderName: (id: string) => string;
  /** A retry of all that match has begun. */
  readonly started: () => void;
  readonly changed: () => void;
}

/** Requests that are sent again from one click. */
const replayMax = 100;
const idOf = ({ id }: ListedRequest): string => id.slice(1);
const isKept = ({ id }: ListedRequest): boolean => /^r\d+$/.test(id);
const isWhole = ({ bytes, keptBytes, door }: ListedRequest): boolean =>
  door !== 'websocket' && bytes !== null && keptBytes === bytes;

export function BulkBar({ list, filter, senderName, started, changed }: Props): JSX.Element | null {
  const ids = list.selected.value;
  const [all, setAll] = useState(false);
  const [asking, setAsking] = useState<'' | 'force' | 'delete' | 'replay'>('');
  const [typed, setTyped] = useState('');
  const [said, setSaid] = useState<readonly (readonly [string, number])[] | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  if (ids.size === 0 && said === null && failure === null) return null;
  const rows = list.state.value.rows.filter(({ id }) => ids.has(id));
  const kept = rows.filter(isKept);
  const whole = kept.filter(isWhole);
  const checked = whole.filter(({ authenticated, retry }) => authenticated === true && retry !== 'committed');
  const forged = whole.filter(({ authenticated }) => authenticated === false);
  const held = rows.filter((row) => row.held !== undefined && resultOf(row) === 'stored').slice(0, replayMax);
  const tables = [...new Set(forged.map(({ table }) => table))];
  const onlyRefused = filter.result === 'refused';
  const matching = onlyRefused ? (list.state.value.counts?.by.refused ?? 0) : 0;
  const act = async (what: () => Promise<readonly (readonly [string, number])[] | null>): Promise<void> => {
    setBusy(true);
    setFailure(null);
    setSaid(null);
    setAsking('');
    setTyped('');
    try {
      setSaid(await what());
      list.selected.value = new Set();
      setAll(false);
      changed();
    } catch (error) {
      setFailure(error as Failure);
    } finally {
      setBusy(false);
    }
  };
  const retry = (some: readonly ListedRequest[], force: boolean) =>
    act(async () => {
      if (all) {
        await call('retry', { body: { filter, force } });
        started();
        return null;
      }
      const { tables: answers } = await run(retrySome(some.map(idOf), force), true);
      return countOf((answers.at(-1)?.rows ?? []).map(([, words]) => words ?? ''));
    });
  const remove = () =>
    act(async () => {
      const sql = all ? forgetFiltered(filter) : forgetSome(kept.map(idOf));
      const { tables: answers } = await run(sql, true);
      return [['deleted', Number(answers.at(-1)?.rows[0]?.[0] ?? 0)]];
    });
  const replay = () => act(async () => countOf(await replayed(held)));
  const label = (word: string, n: number): string => (n === rows.length || all ? word : `${word} ${n}`);
  const forgedWords =
    forged.length > 0 && checked.length === 0
      ? `Their signatures were not kept, so they cannot be checked again. Let ${forged[0]?.sender === undefined ? 'their sender' : senderName(forged[0].sender)} send them once more.`
      : kept.length > 0 && whole.length === 0
        ? 'Not all of their bodies was kept. Their sender has them whole.'
        : '';
  return (
    <div class="bulk" role="region" aria-label="Selected requests">
      {ids.size === 0 ? null : (
        <div class="row-of wrap">
          <b>{all ? `All ${matching} that match` : `${rows.length} selected`}</b>
          {!all && matching > rows.length ? (
            <button type="button" class="small quiet" onClick={() => setAll(true)}>
              Select all {matching} that match
            </button>
          ) : null}
          <button
            type="button"
            data-key="r"
            disabled={isBusy || (!all && checked.length === 0)}
            title={forgedWords}
            onClick={() => void retry(checked, false)}
          >
            {label('Retry', checked.length)}
          </button>
          <button
            type="button"
            disabled={isBusy || all || held.length === 0}
            title={held.length === 0 ? 'Only accepted requests whose bodies are kept can be sent again.' : ''}
            onClick={() => setAsking('replay')}
          >
            {label('Replay', held.length)}…
          </button>
          <Copy text={rows.map(lineOf).join('\n')} label="Copy" />
          <span class="apart" />
          <button
            type="button"
            class="danger"
            disabled={isBusy || (!all && forged.length === 0)}
            onClick={() => setAsking('force')}
          >
            {label('Store unchecked', forged.length)}…
          </button>
          <button
            type="button"
            class="danger"
            disabled={isBusy || (!all && kept.length === 0)}
            onClick={() => setAsking('delete')}
          >
            {label('Delete', kept.length)}…
          </button>
          <button
            type="button"
            class="small quiet"
            aria-label="Clear the selection"
            onClick={() => ((list.selected.value = new Set()), setAll(false))}
          >
            ×
          </button>
        </div>
      )}
      {forgedWords === '' ? null : <p class="faint">{forgedWords}</p>}
      {asking === 'delete' ? (
        <p>
          They are deleted for good.{' '}
          <button type="button" class="danger" onClick={() => void remove()}>
            Delete {all ? `all ${matching}` : kept.length}?
          </button>{' '}
          <Cancel close={() => setAsking('')} />
          <Sql text={all ? forgetFiltered(filter) : forgetSome(kept.map(idOf))} />
        </p>
      ) : null}
      {asking === 'replay' ? (
        <p>
          They are sent to this Headgate once more, signed anew. Where a table stores each delivery once, no
          second row is made; elsewhere each makes another row.{' '}
          <button type="button" class="primary" onClick={() => void replay()}>
            Send {held.length}
          </button>{' '}
          <Cancel close={() => setAsking('')} />
        </p>
      ) : null}
      {asking === 'force' ? (
        <div>
          <p>
            They go into the table as if their sender had signed them. Headgate cannot know whether it did.
          </p>
          {tables.length > 1 || (all && filter.table === '') ? (
            <p>Choose requests of one table first.</p>
          ) : (
            <label>
              To go on, type the name of the table,{' '}
              <Text of={all ? filter.table : (tables[0] ?? '')} max={140} />
              <input
                value={typed}
                spellcheck={false}
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
          <button
            type="button"
            class="danger"
            disabled={typed === '' || typed !== (all ? filter.table : tables[0]) || tables.length > 1}
            onClick={() => void retry(forged, true)}
          >
            Store unchecked
          </button>{' '}
          <Cancel close={() => setAsking('')} />
          <Sql text={all ? retryFiltered(filter, true) : retrySome(forged.map(idOf), true)} />
        </div>
      ) : null}
      {said === null ? null : (
        <p role="status">
          {said.map(([words, n]) => `${n} × ${words}`).join('; ')}{' '}
          <button type="button" class="small quiet" onClick={() => setSaid(null)}>
            Close
          </button>
        </p>
      )}
      {failure === null ? null : <Wrong failure={failure} />}
    </div>
  );
}

function Cancel({ close }: { readonly close: () => void }): JSX.Element {
  return (
    <button type="button" onClick={close}>
      Cancel
    </button>
  );
}

function countOf(words: readonly string[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts];
}

/** One after the other, each with what it held; says how each was answered. */
async function replayed(rows: readonly ListedRequest[]): Promise<readonly string[]> {
  const said: string[] = [];
  for (const { held, schema, table } of rows)
    try {
      const it = await call<HeldRequest>('held', { body: { held, schema, table } });
      if (atob(it.body).length < it.bodyBytes) {
        said.push('not sent: only the beginning of its body is kept');
        continue;
      }
      const at = it.target.indexOf('?');
      const body = {
        schema,
        table,
        method: it.method,
        query: at === -1 ? '' : it.target.slice(at),
        headers: Object.entries(it.headers),
        body: it.body,
        sign: true,
        checked: true,
      };
      const { status } = await call<TestAnswer>('replay', { body });
      said.push(`answered ${status}`);
    } catch (error) {
      said.push(`not sent: ${(error as Error).message}`);
    }
  return said;
}

const lineOf = (row: ListedRequest): string =>
  [
    new Date(row.arrivedAtMs).toISOString(),
    row.status,
    `${row.schema}.${row.table}`,
    row.event ?? '',
    row.code,
    row.address,
    row.id,
  ].join('\t');
