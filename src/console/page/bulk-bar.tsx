/**
 * What can be done with the selected requests, with counts if not all of them can: retry, send again, copy, and, behind a typed name or a
 * question, store without the check and delete. What cannot be done says why.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ListedRequest } from '../api.ts';
import { isKept, resultOf } from '../request-filter.ts';
import type { KeptFilter } from '../request-filter.ts';
import { forgetMatching, forgetSome } from '../retry-statements.ts';
import { replayed, ReplayQuestion } from './bulk-replay.tsx';
import { ForceQuestion, retryAllMatching, RetryQuestion, retrySelected } from './bulk-retry.tsx';
import type { RequestList } from './list-state.ts';
import { Copy, Sql, unlessAway, Wrong } from './components.tsx';
import { run } from './server.ts';
import type { Failure } from './server.ts';

interface Props {
  readonly list: RequestList;
  readonly filter: KeptFilter;
  readonly senderName: (id: string) => string;
  /** A retry of all that match has begun. */
  readonly started: () => void;
}

/** Requests that are sent again from one click. */
const replayMax = 100;
const idOf = ({ id }: ListedRequest): string => id.slice(1);
const isWhole = ({ bytes, keptBytes, door }: ListedRequest): boolean =>
  door !== 'websocket' && bytes !== null && keptBytes === bytes;

interface Chosen {
  readonly rows: readonly ListedRequest[];
  /** In the database, of tables that the role owns. */
  readonly kept: readonly ListedRequest[];
  /** With their whole bodies, and not stored yet: those that passed their check, and those that failed it. */
  readonly checked: readonly ListedRequest[];
  readonly forged: readonly ListedRequest[];
  /** Accepted ones that can be sent once more. */
  readonly held: readonly ListedRequest[];
  /** How many kept ones the filter matches; 0: it matches others, too. */
  readonly matching: number;
  /** Why none of them can be retried; '': some can. */
  readonly lacking: string;
}

function chosenOf(list: RequestList, filter: KeptFilter, senderName: Props['senderName']): Chosen {
  const ids = list.selected.value;
  const rows = list.state.value.rows.filter(({ id }) => ids.has(id));
  const seen = rows.filter(({ id }) => isKept(id));
  const kept = seen.filter((row) => row.owned !== false);
  const whole = kept.filter(isWhole);
  const open = whole.filter(({ retry }) => retry !== 'committed');
  const checked = open.filter(({ authenticated }) => authenticated === true);
  const forged = open.filter(({ authenticated }) => authenticated === false);
  const held = rows.filter((row) => row.held !== undefined && resultOf(row) === 'stored').slice(0, replayMax);
  const matching = filter.result === 'refused' ? (list.state.value.counts?.kept ?? 0) : 0;
  const senders = new Set(forged.map(({ sender }) => sender));
  const [sender] = senders.size === 1 ? senders : [];
  const lacking =
    forged.length > 0 && checked.length === 0
      ? `Their signatures are missing or were not kept, so they cannot be checked again. Let ${sender === undefined ? (senders.size > 1 ? 'their senders' : 'their sender') : senderName(sender)} send them once more.`
      : kept.length > 0 && whole.length === 0
        ? 'Not all of their bodies was kept. Their sender has them whole.'
        : seen.length > kept.length
          ? `You may look at ${kept.length === 0 ? 'them' : 'some of them'}; only the owner of their table deletes and retries.`
          : '';
  return { rows, kept, checked, forged, held, matching, lacking };
}

type Counted = readonly (readonly [string, number])[];
type Question = '' | 'retry' | 'force' | 'delete' | 'replay';

export function BulkBar({ list, filter, senderName, started }: Props): JSX.Element | null {
  const [all, setAll] = useState(false);
  const [asking, setAsking] = useState<Question>('');
  const { said, failure, isBusy, act, forget } = useAct(list, () => setAll(false));
  const isNone = list.selected.value.size === 0;
  if (isNone && said === null && failure === null) return null;
  const chosen = chosenOf(list, filter, senderName);
  const { kept, checked, forged, held } = chosen;
  const matching = all ? filter : null;
  const begin = (what: () => Promise<Counted | null>): void => {
    setAsking('');
    void act(what);
  };
  const retry = (rows: readonly ListedRequest[], force: boolean): void =>
    begin(async () => {
      if (matching === null) return countOf(await retrySelected(rows, force));
      await retryAllMatching(matching, force);
      started();
      return null;
    });
  const countFor = (rows: readonly ListedRequest[]): number => (all ? chosen.matching : rows.length);
  const close = (): void => setAsking('');
  return (
    <div class="bulk" role="region" aria-label="Selected requests">
      {isNone ? null : (
        <Buttons
          chosen={chosen}
          all={all}
          setAll={setAll}
          isBusy={isBusy}
          ask={setAsking}
          clear={() => ((list.selected.value = new Set()), setAll(false))}
        />
      )}
      {chosen.lacking === '' ? null : <p class="faint">{chosen.lacking}</p>}
      {asking === 'delete' ? (
        <Delete
          sql={matching === null ? forgetSome(kept.map(idOf)) : forgetMatching(matching)}
          label={`Delete ${all ? 'all ' : ''}${countFor(kept)}?`}
          act={(sql) => begin(() => forgotten(sql, countFor(kept)))}
          close={close}
        />
      ) : asking === 'retry' ? (
        <RetryQuestion
          rows={checked}
          matching={matching}
          count={countFor(checked)}
          retry={() => retry(checked, false)}
          close={close}
        />
      ) : asking === 'replay' ? (
        <ReplayQuestion
          count={held.length}
          replay={() => begin(async () => countOf(await replayed(held)))}
          close={close}
        />
      ) : asking === 'force' ? (
        <ForceQuestion rows={forged} matching={matching} retry={() => retry(forged, true)} close={close} />
      ) : null}
      {said === null ? null : <Said counted={said} close={forget} />}
      {failure === null ? null : <Wrong failure={failure} />}
    </div>
  );
}

/** What was asked for with the buttons, one thing at a time, and what is said of it: then nothing is selected any more, and the list is read again. */
function useAct(list: RequestList, done: () => void) {
  const [said, setSaid] = useState<Counted | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  const act = async (what: () => Promise<Counted | null>): Promise<void> => {
    setBusy(true);
    setFailure(null);
    setSaid(null);
    try {
      setSaid(await what());
      list.selected.value = new Set();
      done();
      // A first reading; of a retry of all that match, RetryProgress tells what changes later.
      list.renewUntilTried(false);
    } catch (error) {
      setFailure(error as Failure);
    } finally {
      setBusy(false);
    }
  };
  return { said, failure, isBusy, act, forget: () => setSaid(null) };
}

function Said({ counted, close }: { readonly counted: Counted; readonly close: () => void }): JSX.Element {
  return (
    <p role="status">
      {counted.map(([words, n]) => `${n} × ${words}`).join('; ')}{' '}
      <button type="button" class="small quiet" onClick={close}>
        Close
      </button>
    </p>
  );
}

interface ButtonsProps {
  readonly chosen: Chosen;
  readonly all: boolean;
  readonly setAll: (all: boolean) => void;
  readonly isBusy: boolean;
  readonly ask: (question: Question) => void;
  readonly clear: () => void;
}

function Buttons({ chosen, all, setAll, isBusy, ask, clear }: ButtonsProps): JSX.Element {
  const { rows, kept, checked, forged, held, matching, lacking } = chosen;
  const label = (word: string, n: number): string => (n === rows.length || all ? word : `${word} ${n}`);
  return (
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
        {...unlessAway(isBusy || (!all && checked.length === 0), lacking)}
        onClick={() => ask('retry')}
      >
        {label('Retry', checked.length)}
      </button>
      <button
        type="button"
        {...unlessAway(
          isBusy || all || held.length === 0,
          held.length === 0 ? 'Only accepted requests whose bodies are kept can be sent again.' : '',
        )}
        onClick={() => ask('replay')}
      >
        {label('Replay', held.length)}…
      </button>
      <Copy text={rows.map(lineOf).join('\n')} label="Copy" />
      <span class="apart" />
      <button
        type="button"
        class="danger"
        {...unlessAway(isBusy || (!all && forged.length === 0))}
        onClick={() => ask('force')}
      >
        {label('Store unchecked', forged.length)}…
      </button>
      <button
        type="button"
        class="danger"
        {...unlessAway(isBusy || (!all && kept.length === 0))}
        onClick={() => ask('delete')}
      >
        {label('Delete', kept.length)}…
      </button>
      <button type="button" class="small quiet" aria-label="Clear the selection" onClick={clear}>
        ×
      </button>
    </div>
  );
}

interface DeleteProps {
  readonly sql: string;
  readonly label: string;
  readonly act: (sql: string) => void;
  readonly close: () => void;
}

function Delete({ sql, label, act, close }: DeleteProps): JSX.Element {
  return (
    <p>
      They are deleted for good.{' '}
      <button type="button" class="danger" onClick={() => act(sql)}>
        {label}
      </button>{' '}
      <button type="button" onClick={close}>
        Cancel
      </button>
      <Sql text={sql} />
    </p>
  );
}

function countOf(words: readonly string[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts];
}

async function forgotten(sql: string, asked: number): Promise<Counted> {
  const { tables } = await run(sql, true);
  const deleted = Number(tables.at(-1)?.rows[0]?.[0] ?? 0);
  if (deleted >= asked) return [['deleted', deleted]];
  return [
    ['deleted', deleted],
    ['not deleted: only the owner of its table deletes it, or it was deleted before', asked - deleted],
  ];
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
