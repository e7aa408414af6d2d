/** Above a list of requests: a text, what became of them with counts, chips for endpoint, code, sender, event and time. All of it is the address. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import type { ListCounts, SenderInfo } from '../api.ts';
import { briefReason } from '../outcome-summary.ts';
import { digitsText } from '../visible-text.ts';
import { findTables } from '../request-statements.ts';
import { noAddress, ranges, resultWords } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { useRowsIf } from './load.ts';
import { Text } from './text.tsx';
import { Icon } from './icons.tsx';
import { Chosen, Menu } from './menu.tsx';
import { SearchField, useTyped } from './find-text.tsx';
import { me } from './server.ts';
import { isoOf, timeText } from './time-zone.ts';

interface Props {
  readonly address: ListAddress;
  readonly counts: ListCounts | null;
  readonly senders: readonly SenderInfo[];
  readonly set: (change: Partial<ListAddress>) => void;
}

export function RequestFilters(props: Props): JSX.Element {
  const { address, counts, set } = props;
  return (
    <div class="request-filters" role="search">
      <div class="chips">
        <Search value={address.q} set={(q) => set({ q })} />
        {isPhone.value ? <Sheet {...props} /> : <Chips {...props} />}
      </div>
      <Results address={address} counts={counts} set={set} />
    </div>
  );
}

/** On a phone the filters are below the list, behind a button. */
function Sheet(props: Props): JSX.Element {
  const { address, counts, set } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const chosen = chosenOf(address);
  const found = countOf(counts, address.result);
  return (
    <>
      <button
        type="button"
        class={chosen === 0 ? 'filter-button' : 'filter-button on'}
        aria-haspopup="dialog"
        data-key="f"
        onClick={() => dialog.current?.showModal()}
      >
        <Icon name="filter" />
        <span class="unseen">Filters</span>
        {chosen === 0 ? null : <b>{chosen}</b>}
      </button>
      <dialog
        ref={dialog}
        class="sheet"
        aria-label="Filters"
        // A click beside it.
        onClick={(event) => event.target === dialog.current && dialog.current?.close()}
      >
        <div>
          <div class="row-of">
            <h2 class="grow">Filters</h2>
            {chosen === 0 ? null : (
              <button
                type="button"
                class="quiet"
                onClick={() => set({ ...noAddress, result: address.result, q: address.q })}
              >
                Clear all
              </button>
            )}
          </div>
          <Chips {...props} />
          <button type="button" class="primary" onClick={() => dialog.current?.close()}>
            {found === null ? 'Show them' : `Show ${found}`}
          </button>
        </div>
      </dialog>
    </>
  );
}

/** How many filters are set, without the text and what became of the requests, which stand beside. */
function chosenOf(address: ListAddress): number {
  const { table, code, sender, event, stored, checked, cause, from, until, range } = address;
  const all = [table, code, sender, event, stored, checked, cause, from + until + range];
  return all.filter((value) => value !== '').length;
}

function Chips({ address, senders, set }: Props): JSX.Element {
  return (
    <>
      <EndpointChip address={address} set={set} />
      <ChoiceChip
        label="Code"
        value={address.code}
        choices={(me.value?.codes ?? []).map((code) => [code, code])}
        set={(code) => set({ code })}
      />
      <ChoiceChip
        label="Sender"
        value={address.sender}
        choices={senders.map(({ id, name }) => [id, name])}
        set={(sender) => set({ sender })}
      />
      <TextChip label="Event" value={address.event} set={(event) => set({ event })} />
      <ChoiceChip
        label="Not yet stored"
        value={address.stored}
        choices={[
          ['no', 'refused, not stored since'],
          ['yes', 'refused, stored since'],
        ]}
        set={(stored) => set({ stored })}
      />
      {address.cause === '' ? null : (
        <Chosen label="Reason" clear={() => set({ cause: '' })}>
          <Text of={briefReason({ code: address.code, cause: address.cause })} max={60} />
        </Chosen>
      )}
      <TimeChip address={address} set={set} />
    </>
  );
}

/** How many there are; null: not known yet. */
export function numberOf(counts: ListCounts | null, result: string): number | null {
  if (counts === null) return null;
  const { by } = counts;
  if (result !== '') return Object.entries(by).find(([name]) => name === result)?.[1] ?? 0;
  return Object.values(by).reduce((sum, n) => sum + n, 0);
}

/** In words; null: not known yet. */
function countOf(counts: ListCounts | null, result: string): string | null {
  const n = numberOf(counts, result);
  return n === null ? null : `${counts?.whole === false && n > 0 ? '≤ ' : ''}${digitsText(String(n))}`;
}

function Results({ address, counts, set }: Omit<Props, 'senders'>): JSX.Element {
  return (
    <div class="results" role="group" aria-label="What became of them">
      {Object.entries(resultWords).map(([result, words]) => {
        const n = numberOf(counts, result);
        if (result === 'later' && (n ?? 0) === 0 && address.result !== 'later') return null;
        return (
          <button
            key={result}
            type="button"
            class={n !== null && n > 0 && result === 'refused' ? 'bad' : ''}
            aria-pressed={address.result === result}
            onClick={() => set({ result })}
          >
            {words} <span class="n">{countOf(counts, result) ?? ''}</span>
          </button>
        );
      })}
    </div>
  );
}

function Search({
  value,
  set,
}: {
  readonly value: string;
  readonly set: (value: string) => void;
}): JSX.Element {
  const [typed, setTyped] = useTyped(value, set);
  return (
    <SearchField
      label="Search requests"
      placeholder="Text in body or headers, id, address"
      value={typed}
      set={setTyped}
    />
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (readonly [string, string])[];
  readonly set: (value: string) => void;
}

const choicesMax = 12;

function ChoiceChip({ label, value, choices, set }: ChoiceProps): JSX.Element {
  const [text, setText] = useState('');
  const words = choices.find(([id]) => id === value)?.[1] ?? value;
  if (value !== '')
    return (
      <Chosen label={label} clear={() => set('')}>
        <Text of={words} max={60} />
      </Chosen>
    );
  const wanted = text.toLowerCase();
  const found = choices.filter(([id, name]) => `${id} ${name}`.toLowerCase().includes(wanted));
  return (
    <Menu label={`+ ${label}`}>
      {(close) => (
        <>
          {choices.length <= choicesMax / 2 ? null : (
            <input
              type="search"
              aria-label={`Find ${label}`}
              placeholder="Find"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          )}
          {found.slice(0, choicesMax).map(([id, name]) => (
            <button key={id} type="button" onClick={() => (close(), set(id))}>
              {name}
            </button>
          ))}
          {found.length > choicesMax ? (
            <span class="faint">Type to find the other {found.length - choicesMax}</span>
          ) : null}
        </>
      )}
    </Menu>
  );
}

function TextChip({ label, value, set }: Omit<ChoiceProps, 'choices'>): JSX.Element {
  const [text, setText] = useState('');
  if (value !== '')
    return (
      <Chosen label={label} clear={() => set('')}>
        <Text of={value} max={60} />
      </Chosen>
    );
  return (
    <Menu label={`+ ${label}`}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            close();
            set(text.trim());
          }}
        >
          <input
            aria-label={`${label}, as its sender writes it`}
            placeholder="invoice.paid"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button type="submit">Show</button>
        </form>
      )}
    </Menu>
  );
}

/** Looked for by the server: there may be ten thousand. */
function EndpointChip({ address, set }: Pick<Props, 'address' | 'set'>): JSX.Element {
  if (address.table !== '')
    return (
      <Chosen label="Endpoint" clear={() => set({ schema: '', table: '' })}>
        <Text of={address.table} max={40} />
      </Chosen>
    );
  return (
    <Menu label="+ Endpoint" hotkey="f">
      {(close) => <Tables choose={(schema, table) => (close(), set({ schema, table }))} />}
    </Menu>
  );
}

function Tables({ choose }: { readonly choose: (schema: string, table: string) => void }): JSX.Element {
  const [text, setText] = useState('');
  const [typed, setTyped] = useTyped(text, setText);
  const { value } = useRowsIf(findTables(text));
  return (
    <>
      <input
        type="search"
        aria-label="Find an endpoint"
        placeholder="Find an endpoint"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      {(value ?? []).slice(0, choicesMax).map((row) => (
        <button
          key={`${row['nspname']}.${row['relname']}`}
          type="button"
          onClick={() => choose(row['nspname'] ?? '', row['relname'] ?? '')}
        >
          <Text
            of={row['nspname'] === 'public' ? (row['relname'] ?? '') : `${row['nspname']}.${row['relname']}`}
            max={70}
          />
        </button>
      ))}
      {value !== null && value.length > choicesMax ? <span class="faint">Type to find others</span> : null}
      {value?.length === 0 ? <span class="faint">None has such a name</span> : null}
    </>
  );
}

function TimeChip({ address, set }: Pick<Props, 'address' | 'set'>): JSX.Element {
  const { range, from, until } = address;
  const [own, setOwn] = useState({ from: '', until: '' });
  const none = { range: '', from: '', until: '' };
  if (range + from + until !== '')
    return (
      <Chosen label="Time" clear={() => set(none)}>
        {Object.hasOwn(ranges, range)
          ? `last ${ranges[range]?.[0]}`
          : `${shown(from)} – ${until === '' ? 'now' : shown(until)}`}
      </Chosen>
    );
  return (
    <Menu label="+ Time">
      {(close) => (
        <>
          {Object.entries(ranges).map(([id, [words]]) => (
            <button key={id} type="button" onClick={() => (close(), set({ ...none, range: id }))}>
              Last {words}
            </button>
          ))}
          <label>
            From
            <input
              type="datetime-local"
              step="1"
              value={own.from}
              onInput={(event) => setOwn({ ...own, from: event.currentTarget.value })}
            />
          </label>
          <label>
            Until
            <input
              type="datetime-local"
              step="1"
              value={own.until}
              onInput={(event) => setOwn({ ...own, until: event.currentTarget.value })}
            />
          </label>
          <button
            type="button"
            onClick={() => (close(), set({ ...none, from: isoOf(own.from), until: isoOf(own.until) }))}
          >
            Show
          </button>
        </>
      )}
    </Menu>
  );
}

const shown = (iso: string): string => (Number.isNaN(Date.parse(iso)) ? '…' : timeText(Date.parse(iso)));

/** Whether the page is as narrow as a phone, where some of it is arranged in another way than style alone can. */
const narrow = matchMedia('(max-width: 720px)');

const isPhone = signal(narrow.matches);

narrow.addEventListener('change', ({ matches }) => (isPhone.value = matches));
