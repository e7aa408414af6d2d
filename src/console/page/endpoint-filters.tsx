/**
 * Filters of the list of endpoints beside its text and its states: the sender whose check a table has, its schema, and its owner, with the number of
 * endpoints of each. They are counted by the engine, and the sender of a check is named by the server.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SenderInfo, SenderName } from '../api.ts';
import { countNames, countSenders } from '../endpoint-list.ts';
import type { EndpointFilter, Named } from '../endpoint-list.ts';
import { digitsText } from '../visible-text.ts';
import { Wrong } from './components.tsx';
import { rowsOf, useLoaded, useRows } from './load.ts';
import type { Loaded } from './load.ts';
import { Choice, Chosen, Menu } from './menu.tsx';
import { call, look } from './server.ts';
import { Text } from './text.tsx';
import { useTyped } from './find-text.tsx';

/** Of checks that are no sender's. */
const own = 'own';
/** In one call. */
const askedMax = 100;

interface SenderChoice {
  readonly id: string;
  readonly name: string;
  readonly endpoints: number;
  /** Of the checks that are this sender's, as `countSenders` has them. */
  readonly keys: readonly string[];
}

export interface SenderChoices {
  readonly all: readonly SenderChoice[];
  /** Of all senders that Headgate knows. */
  readonly ids: readonly string[];
}

/** The senders of the role's endpoints, those with most of them first. `wanted` false: asks nothing. */
export function useSenderChoices(wanted: boolean): Loaded<SenderChoices> {
  return useLoaded(wanted ? 'senders of endpoints' : '', async (options) => {
    if (!wanted) return { all: [], ids: [] };
    const ids = (await call<readonly SenderInfo[]>('senders', options)).map(({ id }) => id);
    const rows = rowsOf((await look(countSenders(ids), options)).tables.at(-1));
    const checks = rows.map((row) => ({
      expression: row['expression'] ?? '',
      secrets: JSON.parse(row['aliases'] ?? '[]') as string[],
    }));
    const names: (SenderName | null)[] = [];
    for (let from = 0; from < checks.length; from += askedMax) {
      const body = { checks: checks.slice(from, from + askedMax) };
      names.push(...(await call<readonly (SenderName | null)[]>('which-sender', { ...options, body })));
    }
    const all = new Map<string, SenderChoice>();
    for (const [i, row] of rows.entries()) {
      const { id, name } = names[i] ?? { id: own, name: 'Own check' };
      const { endpoints = 0, keys = [] } = all.get(id) ?? {};
      const count = endpoints + Number(row['endpoints'] ?? 0);
      all.set(id, { id, name, endpoints: count, keys: [...keys, row['key'] ?? ''] });
    }
    return { all: [...all.values()].toSorted((a, b) => b.endpoints - a.endpoints), ids };
  });
}

/** The checks of the sender with this id. */
export function checksOf({ all, ids }: SenderChoices, id: string): EndpointFilter['checks'] {
  // There may be more checks of people's own than were counted.
  if (id === own) return { ids, keys: all.flatMap((it) => (it.id === own ? [] : it.keys)), isNot: true };
  return { ids, keys: all.find((it) => it.id === id)?.keys ?? [], isNot: false };
}

interface ChipProps {
  readonly value: string;
  readonly set: (value: string) => void;
}

const choicesMax = 12;

interface Offer {
  readonly id: string;
  readonly name: string;
  readonly endpoints: string;
}

interface ChoicesProps {
  readonly label: string;
  readonly text: string;
  readonly setText: (text: string) => void;
  /** null: not known yet. */
  readonly found: readonly Offer[] | null;
  readonly choose: (id: string) => void;
}

function Choices({ label, text, setText, found, choose }: ChoicesProps): JSX.Element {
  return (
    <>
      <input
        type="search"
        aria-label={label}
        placeholder="Find"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {(found ?? []).slice(0, choicesMax).map(({ id, name, endpoints }) => (
        <Choice key={id} on={false} choose={() => choose(id)} note={digitsText(endpoints)}>
          <Text of={name} max={63} />
        </Choice>
      ))}
      {found?.length === 0 ? <span class="faint">None</span> : null}
      {(found?.length ?? 0) > choicesMax ? <span class="faint">Type to find others</span> : null}
    </>
  );
}

/** `known`: what the list has read, if it shows one sender; the menu counts when it is opened. */
export function SenderChip({
  value,
  set,
  known,
}: ChipProps & { readonly known: SenderChoices | null }): JSX.Element {
  if (value === '')
    return <Menu label="+ Sender">{(close) => <Senders choose={(id) => (close(), set(id))} />}</Menu>;
  return (
    <Chosen label="Sender" clear={() => set('')}>
      <Text of={known?.all.find(({ id }) => id === value)?.name ?? value} max={60} />
    </Chosen>
  );
}

function Senders({ choose }: { readonly choose: (id: string) => void }): JSX.Element {
  const [text, setText] = useState('');
  const { value, failure } = useSenderChoices(true);
  if (failure !== null) return <Wrong failure={failure} />;
  const found = value?.all.filter(({ id, name }) =>
    `${id} ${name}`.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <Choices
      label="Find a sender"
      text={text}
      setText={setText}
      found={found?.map((it) => ({ ...it, endpoints: String(it.endpoints) })) ?? null}
      choose={choose}
    />
  );
}

const labels = { schema: ['Schema', 'Find a schema'], owner: ['Owner', 'Find an owner'] } as const;

export function NameChip({ of, value, set }: ChipProps & { readonly of: Named }): JSX.Element {
  const [label] = labels[of];
  if (value === '')
    return (
      <Menu label={`+ ${label}`}>{(close) => <Names of={of} choose={(name) => (close(), set(name))} />}</Menu>
    );
  return (
    <Chosen label={label} clear={() => set('')}>
      <Text of={value} max={63} />
    </Chosen>
  );
}

/** Looked for by the engine: there may be thousands. */
function Names({ of, choose }: { readonly of: Named; readonly choose: (name: string) => void }): JSX.Element {
  const [text, setText] = useState('');
  const [typed, setTyped] = useTyped(text, setText);
  const { value, failure } = useRows(countNames(of, text, choicesMax + 1));
  if (failure !== null) return <Wrong failure={failure} />;
  const found = value?.map((row) => {
    const name = row['name'] ?? '';
    return { id: name, name, endpoints: row['endpoints'] ?? '' };
  });
  return (
    <Choices label={labels[of][1]} text={typed} setText={setTyped} found={found ?? null} choose={choose} />
  );
}
