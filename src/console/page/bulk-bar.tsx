/**
 * What can be done with the selected requests, with counts if not all of them can: retry, send again, copy, and, behind a typed name or a
 * question, store without the check and delete. What cannot be done says why.
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { HeldRequest } from '../../observe/tail.ts';
import type { ListedRequest, TestAnswer } from '../api.ts';
import { isKept, resultOf } from '../request-filter.ts';
import type { KeptFilter } from '../request-filter.ts';
import { forgetFiltered, isOfKept, isTable, listReplacing, retryFiltered } from '../request-statements.ts';
import { forgetSome, retrySome } from '../statements.ts';
import type { RequestList } from './list-state.ts';
import { Copy, Sql, unlessAway, Wrong } from './components.tsx';
import { useRows } from './load.ts';
import { Replacing } from './retry-all.tsx';
import { Text } from './text.tsx';
import { call, run } from './server.ts';
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
  const [said, setSaid] = useState<Counted | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isNone = list.selected.value.size === 0;
  if (isNone && said === null && failure === null) return null;
  const chosen = chosenOf(list, filter, senderName);
  const { kept, checked, forged, held } = chosen;
  const act = async (what: () => Promise<Counted | null>): Promise<void> => {
    setBusy(true);
    setFailure(null);
    setSaid(null);
    setAsking('');
    try {
      setSaid(await what());
      list.selected.value = new Set();
      setAll(false);
      list.renewUntilTried(false);
    } catch (error) {
      setFailure(error as Failure);
    } finally {
      setBusy(false);
    }
  };
  const retry = (some: readonly ListedRequest[], force: boolean) =>
    act(async () => {
      if (!all) return retried(some, force);
      await call('retry', { body: { filter, force } });
      started();
      return null;
    });
  const asked = { chosen, filter, all, close: () => setAsking('') };
  return (
    <div class="bulk" role="region" aria-label="Selected requests">
      {isNone ? null : (
        <Buttons
          chosen={chosen}
          all={all}
          setAll={setAll}
          isBusy={isBusy}
          retry={() => setAsking('retry')}
          ask={setAsking}
          clear={() => ((list.selected.value = new Set()), setAll(false))}
        />
      )}
      {chosen.lacking === '' ? null : <p class="faint">{chosen.lacking}</p>}
      {asking === 'delete' ? (
        <Delete
          {...asked}
          act={(sql) => void act(() => forgotten(sql, all ? chosen.matching : kept.length))}
          count={all ? chosen.matching : kept.length}
        />
      ) : asking === 'retry' ? (
        <Retry {...asked} act={() => void retry(checked, false)} />
      ) : asking === 'replay' ? (
        <Replay {...asked} act={() => void act(async () => countOf(await replayed(held)))} />
      ) : asking === 'force' ? (
        <Force {...asked} act={() => void retry(forged, true)} />
      ) : null}
      {said === null ? null : <Said counted={said} close={() => setSaid(null)} />}
      {failure === null ? null : <Wrong failure={failure} />}
    </div>
  );
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
  readonly retry: () => void;
  readonly ask: (question: Question) => void;
  readonly clear: () => void;
}

function Buttons({ chosen, all, setAll, isBusy, retry, ask, clear }: ButtonsProps): JSX.Element {
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
        onClick={retry}
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

interface Asked {
  readonly chosen: Chosen;
  readonly filter: KeptFilter;
  readonly all: boolean;
  readonly close: () => void;
}

function Delete({
  chosen: { kept },
  filter,
  all,
  count,
  act,
  close,
}: Asked & { readonly count: number; readonly act: (sql: string) => void }): JSX.Element {
  const sql = all ? forgetFiltered(filter) : forgetSome(kept.map(idOf));
  return (
    <p>
      They are deleted for good.{' '}
      <button type="button" class="danger" onClick={() => act(sql)}>
        Delete {all ? `all ${count}` : count}?
      </button>{' '}
      <Cancel close={close} />
      <Sql text={sql} />
    </p>
  );
}

/** Asks if rows may be replaced, and otherwise goes on at once. */
function Retry({
  chosen: { checked, matching },
  filter,
  all,
  act,
  close,
}: Asked & { readonly act: () => void }): JSX.Element | null {
  const places = [...new Map(checked.map((row) => [`${row.schema}.${row.table}`, row])).values()];
  const condition = all ? isOfKept(filter) : `(${places.map(isTable).join(' OR ')})`;
  const { value, failure } = useRows(listReplacing(condition));
  const isPlain = value?.length === 0;
  useEffect(() => {
    if (isPlain) act();
  }, [isPlain]);
  if (failure !== null) return <Wrong failure={failure} />;
  if (value === null || isPlain) return null;
  return (
    <div>
      <p>
        <Replacing tables={value} />
      </p>
      <button type="button" class="primary" onClick={act}>
        Retry {all ? `all ${matching}` : checked.length}
      </button>{' '}
      <Cancel close={close} />
      <Sql text={all ? retryFiltered(filter, false) : retrySome(checked.map(idOf), false)} />
    </div>
  );
}

function Replay({ chosen: { held }, act, close }: Asked & { readonly act: () => void }): JSX.Element {
  return (
    <p>
      They are sent to this Headgate once more, signed anew. Where a table stores each delivery once, no
      second row is made; elsewhere each makes another row.{' '}
      <button type="button" class="primary" onClick={act}>
        Send {held.length}
      </button>{' '}
      <Cancel close={close} />
    </p>
  );
}

function Force({
  chosen: { forged },
  filter,
  all,
  act,
  close,
}: Asked & { readonly act: () => void }): JSX.Element {
  const [typed, setTyped] = useState('');
  const tables = all ? [filter.table] : [...new Set(forged.map(({ table }) => table))];
  const [table = ''] = tables;
  return (
    <div>
      <p>
        They go into the table as if their sender had signed them, and had sent them now: where a key decides,
        they replace newer rows. Headgate cannot know whether it did.
      </p>
      {tables.length > 1 || table === '' ? (
        <p>Choose requests of one table first.</p>
      ) : (
        <label>
          To go on, type the name of the table, <Text of={table} max={140} />
          <input value={typed} spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      )}
      <button
        type="button"
        class="danger"
        disabled={typed === '' || typed !== table || tables.length > 1}
        onClick={act}
      >
        Store unchecked
      </button>{' '}
      <Cancel close={close} />
      <Sql text={all ? retryFiltered(filter, true) : retrySome(forged.map(idOf), true)} />
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

async function retried(some: readonly ListedRequest[], force: boolean): Promise<Counted> {
  const { tables } = await run(retrySome(some.map(idOf), force), true);
  return countOf((tables.at(-1)?.rows ?? []).map(([, words]) => words ?? ''));
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
