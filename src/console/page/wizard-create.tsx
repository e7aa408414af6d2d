/**
 * The second step before there is a table: its name, and so its address, which is final; what it keeps; the statements that will run. The secret of a
 * sender who shows it later is a random one at first, which nobody knows: the table refuses everything until it gets the right one.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  answerEnding,
  createEndpoint,
  currentSchema,
  freeName,
  nameWith,
  problemOfName,
  secretEnding,
  takenNames,
} from '../new-endpoint.ts';
import type { NewEndpoint } from '../new-endpoint.ts';
import { optionText } from '../visible-text.ts';
import { listSecrets, withoutSecrets } from '../statements.ts';
import { CopyField, urlOf } from './address.tsx';
import { useLoaded, useRows, useRowsIf } from './load.ts';
import type { Loaded, ResultRow } from './load.ts';
import { Code, focused, unlessAway, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { go, route } from './route.ts';
import { call, me, run } from './server.ts';
import type { Failure } from './server.ts';
import { isShownOnce, memoryOf, showOnce } from './wizard-secret.tsx';
import type { ChosenSender } from './wizard-choose.tsx';

const startOf = (chosen: ChosenSender): string =>
  chosen.kind === 'sender' ? `${chosen.sender.id}_events` : chosen.kind === 'hmac' ? 'my_events' : '';

function randomHex(bytes: number): string {
  return [...crypto.getRandomValues(new Uint8Array(bytes))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

type Options = Pick<NewEndpoint, 'once' | 'spool' | 'arrival' | 'whole'> & { readonly columns: boolean };

const isLoading = ({ value, failure }: Loaded<unknown>): boolean => value === null && failure === null;

/** Where it will be, its name, and whether that can be one; the first free name until somebody types another. */
function useName(chosen: ChosenSender) {
  const [random] = useState(() => `inbox_${randomHex(3)}`);
  const start = startOf(chosen) || random;
  const at = useLoaded(
    'schema',
    async (options) => (await run(currentSchema, false, options)).tables[0]?.rows[0]?.[0] ?? 'public',
  );
  const names = useRowsIf(at.value === null ? null : takenNames(at.value, start));
  const taken = names.value;
  const free = taken === null ? start : freeName(start, new Set(taken.map((row) => row['name'] ?? '')));
  const table = route.value.query.get('name') ?? free;
  const problem = problemOfName(table);
  return { schema: at.value ?? 'public', table, problem, isLoading: isLoading(at) || isLoading(names) };
}

export function Create({ chosen }: { readonly chosen: ChosenSender }): JSX.Element {
  const name = useName(chosen);
  const { schema, table, problem } = name;
  const sender = chosen.kind === 'sender' ? chosen.sender : null;
  const [options, setOptions] = useState<Options>({
    once: (sender?.once ?? null) !== null,
    spool: chosen.kind !== 'anything',
    arrival: true,
    whole: chosen.kind !== 'anything',
    columns: true,
  });
  const [existing, setExisting] = useState('');
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const listed = useRows(listSecrets);
  const secrets = listed.value ?? [];
  // Nothing moves below a pointer that is about to press the button.
  const isReady = problem === null && !name.isLoading && !isLoading(listed);
  const known = secrets.find((row) => keyOf(row) === existing);
  const it = { chosen, table, options, known };
  useEffect(() => setFailure(null), [table]);
  const create = async (): Promise<void> => {
    if (busy || !isReady) return;
    setBusy(true);
    setFailure(null);
    try {
      const made = { secret: await firstSecret(chosen, known), answer: randomHex(20) };
      await run(createEndpoint(endpointOf(it, made)), true);
      if (isShownOnce(chosen) && known === undefined)
        showOnce(memoryOf({ schema, table }, 'secret'), made.secret);
      if (sender !== null && sender.answerSecret !== null)
        showOnce(memoryOf({ schema, table }, 'answer'), made.answer);
      const address = { ...queryOf(), name: '', table, schema: schema === 'public' ? '' : schema };
      go(route.value.parts, address, true);
    } catch (error) {
      setBusy(false);
      setFailure(error as Failure);
    }
  };
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      <NameAndAddress schema={schema} table={table} problem={problem} />
      <Cautions chosen={chosen} />
      <Kept chosen={chosen} options={options} set={(change) => setOptions({ ...options, ...change })} />
      {chosen.kind === 'anything' || sender?.learns === true || secrets.length === 0 ? null : (
        <WhichSecret table={table} secrets={secrets} existing={existing} choose={setExisting} />
      )}
      <div class="row-of wrap">
        <button type="submit" class="primary" {...unlessAway(busy || !isReady)}>
          {busy ? 'Creating …' : 'Create the endpoint'}
        </button>
        <span class="faint">{thenText(chosen, known !== undefined)}</span>
      </div>
      {failure === null ? null : <Wrong failure={failure} />}
      <details class="statement">
        <summary>What will run</summary>
        <Code text={withoutSecrets(createEndpoint(endpointOf(it, { secret: '', answer: '' })))} isSql />
      </details>
    </form>
  );
}

interface NameProps {
  readonly schema: string;
  readonly table: string;
  readonly problem: string | null;
}

function NameAndAddress({ schema, table, problem }: NameProps): JSX.Element {
  return (
    <>
      <div class="row-of wrap even">
        <label>
          Table
          <input
            name="table"
            ref={focused}
            value={table}
            required
            spellcheck={false}
            autocomplete="off"
            onInput={(event) =>
              go(route.value.parts, { ...queryOf(), name: event.currentTarget.value }, true)
            }
          />
        </label>
        <div class="whole-url">
          <b>Its address</b>
          <CopyField label="Its address" text={urlOf(schema, table)} />
        </div>
      </div>
      {problem === null ? null : <p class="strip">{problem}</p>}
    </>
  );
}

function Cautions({ chosen }: { readonly chosen: ChosenSender }): JSX.Element | null {
  if (chosen.kind === 'anything')
    return <p class="strip">Anyone who knows its address can write to it. You can add a check later.</p>;
  if (chosen.kind === 'hmac') return null;
  const { name, ended, signsUrl } = chosen.sender;
  return (
    <>
      {ended === null ? null : <p class="strip">{ended}</p>}
      {signsUrl && me.value?.public === false ? (
        <p class="strip">
          <Text of={name} /> signs the URL that it calls: set HEADGATE_PUBLIC_URL.
        </p>
      ) : null}
    </>
  );
}

interface WhichSecretProps {
  readonly table: string;
  readonly secrets: readonly ResultRow[];
  readonly existing: string;
  readonly choose: (key: string) => void;
}

function WhichSecret({ table, secrets, existing, choose }: WhichSecretProps): JSX.Element {
  return (
    <label class="row-of">
      Secret
      <select name="existing" value={existing} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">A new one, {nameWith(table, secretEnding)}</option>
        {secrets.map((row) => (
          <option key={keyOf(row)} value={keyOf(row)}>
            {optionText(row['name'] ?? '')}
          </option>
        ))}
      </select>
    </label>
  );
}

const keyOf = (row: ResultRow): string => JSON.stringify([row['schema_name'], row['name']]);

/** What of the address stays. */
const queryOf = (): Record<string, string> => Object.fromEntries(route.value.query);

function thenText(chosen: ChosenSender, isKnown: boolean): string {
  if (chosen.kind === 'anything') return '';
  if (isKnown) return 'Then its address is ready to be given away';
  if (chosen.kind === 'hmac') return 'Then you set the secret';
  const { name, chosen: typed, learns } = chosen.sender;
  if (learns) return `Then ${name} brings its secret with its first question`;
  return typed
    ? `Then you get a secret to enter at ${name}`
    : `Then ${name} gives you its secret, and you paste it here`;
}

/** A random one that nobody knows, unless people choose the secret of this sender. */
async function firstSecret(chosen: ChosenSender, known: ResultRow | undefined): Promise<string> {
  if (known !== undefined || chosen.kind === 'anything') return '';
  if (chosen.kind === 'hmac') return randomHex(32);
  const { id, chosen: typed } = chosen.sender;
  const { secret } = await call<{ secret: string }>('make-secret', {
    body: { sender: id, placeholder: !typed },
  });
  return secret;
}

interface What {
  readonly chosen: ChosenSender;
  readonly table: string;
  readonly options: Options;
  readonly known: ResultRow | undefined;
}

function endpointOf(
  { chosen, table, options, known }: What,
  values: { readonly secret: string; readonly answer: string },
): NewEndpoint {
  const sender = chosen.kind === 'sender' ? chosen.sender : null;
  const name = nameWith(table, secretEnding);
  return {
    ...options,
    table,
    check:
      chosen.kind === 'anything'
        ? null
        : chosen.kind === 'hmac'
          ? { kind: 'hmac', form: chosen.form }
          : { kind: 'sender', id: chosen.sender.id },
    secret:
      known !== undefined
        ? { kind: 'existing', schema: known['schema_name'] ?? '', name: known['name'] ?? '' }
        : sender?.learns === true
          ? { kind: 'learned', name }
          : { kind: 'new', name, value: values.secret },
    answer:
      sender === null || sender.answerSecret === null
        ? null
        : { name: nameWith(table, answerEnding), value: values.answer },
    columns: options.columns ? (sender?.columns ?? []) : [],
    includes: options.columns ? (sender?.includes ?? []) : [],
    format: sender?.format ?? 'json',
  };
}

interface KeptProps {
  readonly chosen: ChosenSender;
  readonly options: Options;
  readonly set: (change: Partial<Options>) => void;
}

function Kept({ chosen, options, set }: KeptProps): JSX.Element {
  const sender = chosen.kind === 'sender' ? chosen.sender : null;
  const once = sender?.once ?? null;
  const columns = (sender?.columns.length ?? 0) + (sender?.includes.length ?? 0) > 0;
  return (
    <fieldset class="row-of wrap">
      <legend>Besides the document</legend>
      {once === null ? null : (
        <Check on={options.once} set={(it) => set({ once: it })}>
          Store repeats once, by <code>{once}</code>
        </Check>
      )}
      {columns ? (
        <Check on={options.columns} set={(it) => set({ columns: it })}>
          Event and delivery id
        </Check>
      ) : null}
      <Check on={options.arrival} set={(arrival) => set({ arrival })}>
        Arrival time
      </Check>
      <Check on={options.whole} set={(whole) => set({ whole })}>
        Headers and raw body, to send it again, signed anew: headers that the check reads are left out
      </Check>
      <Check on={options.spool} set={(spool) => set({ spool })}>
        Keep on disk if the database is away
      </Check>
    </fieldset>
  );
}

interface CheckProps {
  readonly on: boolean;
  readonly set: (on: boolean) => void;
  readonly children: ComponentChildren;
}

function Check({ on, set, children }: CheckProps): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={() => set(!on)} /> {children}
    </label>
  );
}
