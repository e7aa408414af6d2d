/**
 * A new endpoint: pick a sender (or none), its secret and a name; the statements are shown before they run. Then it waits for
 * the first request and shows it.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SenderInfo } from '../api.ts';
import { createEndpoint, withoutSecrets } from '../statements.ts';
import type { NewEndpoint } from '../statements.ts';
import { useLoaded } from './load.ts';
import { Code, Skeleton, Text, Wrong } from './parts.tsx';
import { go, to } from './route.ts';
import { call, me, run } from './server.ts';
import type { Failure } from './server.ts';
import type { SqlNotice } from '../api.ts';
import { Waiting } from './waiting.tsx';

export function Wizard({ kind }: { readonly kind: string }): JSX.Element {
  const senders = useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options));
  const sender = senders.value?.find(({ id }) => id === kind);
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['endpoints'])}>Endpoints</a> <span class="faint">/</span> new
        </h1>
      </header>
      {senders.failure === null ? null : <Wrong failure={senders.failure} />}
      {senders.value === null ? senders.failure === null && <Skeleton /> : null}
      {kind === 'anything' ? <Make sender={null} /> : null}
      {sender === undefined ? null : <Make sender={sender} />}
      {senders.value !== null && sender === undefined && kind !== 'anything' ? (
        <Choose senders={senders.value} />
      ) : null}
    </>
  );
}

function Choose({ senders }: { readonly senders: readonly SenderInfo[] }): JSX.Element {
  const [text, setText] = useState('');
  const words = text.toLowerCase();
  const wanted = senders.filter(({ id, name, aliases }) =>
    [id, name.toLowerCase(), ...aliases].some((text) => text.includes(words)),
  );
  return (
    <>
      <p>
        Who sends? <span class="faint">The sender's signature is checked before anything is stored.</span>
      </p>
      <input
        data-search
        type="search"
        class="large"
        placeholder={`Search ${senders.length} senders /`}
        aria-label="Search senders"
        value={text}
        autofocus
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = wanted;
          if (event.key === 'Enter' && first !== undefined) go(['new', first.id]);
        }}
      />
      <ul class="senders">
        {wanted.map(({ id, name, theme }) => (
          <li key={id}>
            <a data-row href={to(['new', id])} class="card">
              <b>{name}</b>
              <span class="faint">{theme}</span>
            </a>
          </li>
        ))}
      </ul>
      {wanted.length === 0 ? (
        <div class="empty">
          No sender matches.{' '}
          <button type="button" onClick={() => setText('')}>
            Show all
          </button>
        </div>
      ) : null}
      <p class="faint">
        None of these: <a href={to(['new', 'anything'])}>a table that accepts anything</a>, or{' '}
        <a href={to(['sql'])}>your own check in SQL</a>.
      </p>
    </>
  );
}

/** What was created. */
interface Made {
  readonly it: NewEndpoint;
  readonly notices: readonly SqlNotice[];
}

function Make({ sender }: { readonly sender: SenderInfo | null }): JSX.Element {
  const id = sender?.id ?? 'inbox';
  const [it, setIt] = useState<NewEndpoint>({
    table: sender === null ? `inbox_${randomHex(3)}` : `${id}_events`,
    sender: sender?.id ?? null,
    secretName: `${id}_secret`,
    secret: '',
    deliveryHeader: sender?.deliveryHeader ?? null,
    columns: sender?.columns ?? [],
    includes: sender?.includes ?? [],
    format: sender?.format ?? 'json',
    arrival: true,
    whole: sender !== null,
  });
  const [made, setMade] = useState<Made | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  if (made !== null) return <Waiting sender={sender} made={made.it} notices={made.notices} />;
  const statements = createEndpoint(it);
  const sql = `${statements.join(';\n\n')};`;
  const create = async (): Promise<void> => {
    setFailure(null);
    try {
      const notices: SqlNotice[] = [];
      for (const each of statements) notices.push(...(await run(each, true)).notices);
      setMade({ it, notices });
    } catch (error) {
      setFailure(error as Failure);
    }
  };
  return (
    <div class="two even">
      <div class="card wide">
        <h2>{sender?.name ?? 'Catch anything'}</h2>
        <Fields
          sender={sender}
          it={it}
          set={(change) => setIt({ ...it, ...change })}
          create={() => void create()}
        />
        {failure === null ? null : <Wrong failure={failure} />}
      </div>
      <aside>
        <section class="card">
          <h2>What will run</h2>
          <Code text={withoutSecrets(sql)} copied={sql} />
        </section>
        {sender === null ? null : <AtTheSender sender={sender} />}
      </aside>
    </div>
  );
}

interface FieldsProps {
  readonly sender: SenderInfo | null;
  readonly it: NewEndpoint;
  readonly set: (change: Partial<NewEndpoint>) => void;
  readonly create: () => void;
}

function Fields({ sender, it, set, create }: FieldsProps): JSX.Element {
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        create();
      }}
    >
      <label>
        Table
        <input
          name="table"
          value={it.table}
          required
          spellcheck={false}
          onInput={(event) => set({ table: event.currentTarget.value })}
        />
      </label>
      {sender === null ? (
        <p class="strip">Anyone who knows its address can write to it. You can add a check later.</p>
      ) : (
        <SecretFields sender={sender} it={it} set={set} />
      )}
      <Kept sender={sender} it={it} set={set} />
      <button
        type="submit"
        class="primary"
        disabled={it.table === '' || (sender !== null && it.secret === '')}
      >
        Create
      </button>
    </form>
  );
}

function Kept({ sender, it, set }: Omit<FieldsProps, 'create'>): JSX.Element {
  const delivery = sender?.deliveryHeader ?? null;
  return (
    <fieldset>
      <legend>Besides the document</legend>
      {delivery === null ? null : (
        <Check
          on={it.deliveryHeader !== null}
          set={(on) =>
            set(
              on
                ? {
                    deliveryHeader: delivery,
                    columns: sender?.columns ?? [],
                    includes: sender?.includes ?? [],
                  }
                : { deliveryHeader: null },
            )
          }
          label={`store a repeated delivery once, by ${delivery}`}
        />
      )}
      <Check
        on={it.arrival}
        set={(arrival) => set({ arrival })}
        label="store the time of arrival as received_at"
      />
      {sender === null || sender.columns.length + sender.includes.length === 0 ? null : (
        <Check
          on={it.columns.length + it.includes.length > 0}
          set={(on) =>
            set(
              on
                ? { columns: sender.columns, includes: sender.includes }
                : { columns: [], includes: [], deliveryHeader: null },
            )
          }
          label="store the event's name and the delivery's id in columns of their own"
        />
      )}
      <Check
        on={it.whole}
        set={(whole) => set({ whole })}
        label="store all headers and the raw body, so that a request can be sent again as it came"
      />
    </fieldset>
  );
}

function randomHex(bytes: number): string {
  return [...crypto.getRandomValues(new Uint8Array(bytes))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

interface CheckProps {
  readonly on: boolean;
  readonly set: (on: boolean) => void;
  readonly label: string;
}

function Check({ on, set, label }: CheckProps): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={() => set(!on)} /> {label}
    </label>
  );
}

function SecretFields({
  sender,
  it,
  set,
}: Omit<FieldsProps, 'create' | 'sender'> & { readonly sender: SenderInfo }) {
  const [shown, setShown] = useState(false);
  const make = (): void => {
    void call<{ secret: string }>('make-secret', { body: { sender: sender.id } }).then(({ secret }) => {
      set({ secret });
      setShown(true);
    });
  };
  return (
    <>
      <label>
        Secret <span class="faint">{plain(`${sender.what} (${sender.where})`)}</span>
        <input
          name="secret"
          // The input's type changes; the types of JSX accept only one.
          type={(shown ? 'text' : 'password') as 'password'}
          value={it.secret}
          required
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => set({ secret: event.currentTarget.value })}
        />
      </label>
      <div class="row-of">
        {sender.paired ? null : (
          <button type="button" class="small" onClick={make}>
            Generate
          </button>
        )}
        <button type="button" class="small quiet" onClick={() => setShown(!shown)}>
          {shown ? 'Hide' : 'Show'}
        </button>
        {sender.form === null ? null : <span class="faint">It must be {plain(sender.form)}.</span>}
      </div>
      <label>
        Name of the secret
        <input
          value={it.secretName}
          required
          spellcheck={false}
          onInput={(event) => set({ secretName: event.currentTarget.value })}
        />
      </label>
    </>
  );
}

/** The senders' texts are Markdown. */
const plain = (text: string): string => text.replaceAll('`', '');

function AtTheSender({ sender }: { readonly sender: SenderInfo }): JSX.Element {
  return (
    <section class="card">
      <h2>At {sender.name}</h2>
      <ol>
        {sender.steps.map((step) => (
          <li key={step}>
            <Text of={plain(step)} />
          </li>
        ))}
      </ol>
      {sender.handshake === null ? null : (
        <p class="strip">
          Before it delivers, it asks: <Text of={plain(sender.handshake)} />
        </p>
      )}
      {sender.signsUrl && me.value?.public === false ? (
        <p class="strip">It signs the URL that it calls: set HEADGATE_PUBLIC_URL.</p>
      ) : null}
    </section>
  );
}
