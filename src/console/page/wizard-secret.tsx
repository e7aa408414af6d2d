/**
 * The second step once the table exists: its address, what to click at the sender, and its secret. What people enter at the sender is shown until
 * the page is left, and only in this page's memory; what the sender shows is pasted here.
 */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SqlNotice } from '../api.ts';
import { answerEnding } from '../new-endpoint.ts';
import { qualified } from '../quote.ts';
import { alterSecret } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { CopyField, Reachable, urlOf } from './address.tsx';
import { useSettled } from './load.ts';
import { focused, Sql, unlessAway, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { call, me, run, token } from './server.ts';
import type { Failure } from './server.ts';
import type { ChosenSender } from './wizard-choose.tsx';

export interface CreatedTable extends TableRef {
  /** Of its columns. */
  readonly names: readonly string[];
  /** `fresh`: as it was created with the table. */
  readonly secrets: readonly { readonly schema: string; readonly name: string; readonly fresh: boolean }[];
  /** One of its secrets is still the first one. */
  readonly waits: boolean;
}

/** What was made up here, by `memoryOf`; lost with the page, and at the end of the session: the next one may be of somebody else. */
const shown = signal<ReadonlyMap<string, string>>(new Map());
token.subscribe((value) => {
  if (value === null) shown.value = new Map();
});
export const memoryOf = ({ schema, table }: TableRef, what: 'secret' | 'answer'): string =>
  JSON.stringify([me.value?.database, schema, table, what]);
export const showOnce = (key: string, value: string): void => {
  shown.value = new Map([...shown.value, [key, value]]);
};

/** People enter it at the sender. */
export const isShownOnce = (chosen: ChosenSender): boolean =>
  chosen.kind === 'sender' && chosen.sender.chosen;

interface Props {
  readonly chosen: ChosenSender;
  readonly made: CreatedTable;
  readonly changed: () => void;
  /** Only its address: the first delivery has come. */
  readonly brief: boolean;
}

/** The senders' texts are Markdown. */
const plain = (text: string): string => text.replaceAll('`', '');

export function Connect({ chosen, made, changed, brief }: Props): JSX.Element {
  const url = urlOf(made.schema, made.table);
  if (brief) return <CopyField label="Its address" text={url} copy="Copy URL" />;
  const name = chosen.kind === 'sender' ? chosen.sender.name : 'the sender';
  const answer = made.secrets.find((it) => it.name.endsWith(answerEnding));
  const secret = made.secrets.find((it) => it !== answer);
  return (
    <div class="form">
      <p class="verdict good" role="status">
        The endpoint <b>{made.table}</b> exists
        {secret !== undefined && secret.fresh && !isShownOnce(chosen) && !learnsOf(chosen)
          ? '; until it has its secret it refuses everything'
          : ''}
        .
      </p>
      <div>
        <b>Its address: give it to {name}</b>
        <CopyField label="Its address" text={url} copy="Copy URL" />
      </div>
      <Reachable />
      <div class={chosen.kind === 'sender' ? 'two even' : ''}>
        {chosen.kind === 'sender' ? <AtTheSender chosen={chosen} /> : null}
        <div class="form">
          {chosen.kind === 'sender' && chosen.sender.learns ? (
            <Learned name={chosen.sender.name} secret={secret} />
          ) : secret === undefined ? null : isShownOnce(chosen) ? (
            <ChosenSender
              chosen={chosen}
              secret={secret}
              memory={memoryOf(made, 'secret')}
              changed={changed}
            />
          ) : (
            <Pasted chosen={chosen} secret={secret} changed={changed} />
          )}
          {answer === undefined || chosen.kind !== 'sender' || chosen.sender.answerSecret === null ? null : (
            <Offered
              what={plain(`${chosen.sender.answerSecret.what} (${chosen.sender.answerSecret.where})`)}
              secret={answer}
              memory={memoryOf(made, 'answer')}
              make={async () => crypto.randomUUID().replaceAll('-', '')}
              changed={changed}
            />
          )}
        </div>
      </div>
    </div>
  );
}

const learnsOf = (chosen: ChosenSender): boolean => chosen.kind === 'sender' && chosen.sender.learns;

function AtTheSender({
  chosen: { sender },
}: {
  readonly chosen: ChosenSender & { readonly kind: 'sender' };
}) {
  return (
    <section class="sunken">
      <h3>At {sender.name}</h3>
      <ol>
        {sender.steps.map((step) => (
          <li key={step}>
            <Text of={plain(step)} />
          </li>
        ))}
      </ol>
      {sender.handshake === null ? null : (
        <p>
          Before it delivers, it asks: <Text of={plain(sender.handshake)} /> Headgate answers.
          {sender.chosen || sender.learns ? '' : ' Save the secret first, if the question is signed.'}
        </p>
      )}
    </section>
  );
}

function Learned({
  name,
  secret,
}: {
  readonly name: string;
  readonly secret: CreatedTable['secrets'][number] | undefined;
}) {
  if (secret === undefined) return <></>;
  return (
    <>
      <p>
        {name} brings its secret with its first question, within ten minutes. Enter the address there now. If
        the time is over, open it again:
      </p>
      <Sql
        text={`ALTER SECRET ${qualified(secret.schema, secret.name)} WITH (learn = '10 minutes')`}
        label="SQL"
      />
    </>
  );
}

interface SecretProps {
  readonly secret: CreatedTable['secrets'][number];
  readonly changed: () => void;
}

/** Sets a secret; the notices say whether it can be right. */
function useSetting({ schema, name }: CreatedTable['secrets'][number], changed: () => void) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const [notices, setNotices] = useState<readonly SqlNotice[] | null>(null);
  const set = async (value: string): Promise<boolean> => {
    setBusy(true);
    setFailure(null);
    try {
      setNotices((await run(alterSecret(schema, name, value), true)).notices);
      changed();
      return true;
    } catch (error) {
      setFailure(error as Failure);
      return false;
    } finally {
      setBusy(false);
    }
  };
  const said = (
    <>
      {notices?.map((notice, i) => (
        <p key={i} class="strip">
          <Text of={notice.message} /> {notice.hint === null ? null : <Text of={notice.hint} />}
        </p>
      ))}
      {failure === null ? null : <Wrong failure={failure} />}
    </>
  );
  return { set, busy, isSet: notices !== null, said };
}

/** The sender shows it after it has the address. */
function Pasted({ chosen, secret, changed }: SecretProps & { readonly chosen: ChosenSender }): JSX.Element {
  const [value, setValue] = useState('');
  const [later, setLater] = useState(false);
  const { set, busy, isSet, said } = useSetting(secret, changed);
  const mustBe = useForm(chosen, value);
  if (later)
    return (
      <p>
        The endpoint refuses everything until it has its secret. This page can be left; it goes on here, and
        under the endpoint's name.{' '}
        <button type="button" class="small" onClick={() => setLater(false)}>
          Set it now
        </button>
      </p>
    );
  const what = chosen.kind === 'sender' ? plain(`${chosen.sender.what} (${chosen.sender.where})`) : '';
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void set(value).then((done) => done && setValue(''));
      }}
    >
      <label>
        Signing secret
        <textarea
          name="secret"
          ref={secret.fresh ? focused : null}
          class="secret"
          rows={value.includes('\n') ? 5 : 1}
          value={value}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </label>
      {mustBe === null ? null : (
        <p class="strip" role="status">
          This is not the secret: it must be <Text of={plain(mustBe)} />.
        </p>
      )}
      <p class="faint">
        {what === '' ? '' : `${what[0]?.toUpperCase()}${what.slice(1)}. `}Kept sealed as{' '}
        <code>{secret.name}</code>; it is not shown again.
      </p>
      <div class="row-of">
        <button type="submit" class="primary" {...unlessAway(value === '' || busy)}>
          {secret.fresh ? 'Save the secret' : 'Set another one'}
        </button>
        {secret.fresh ? (
          <button type="button" class="quiet" onClick={() => setLater(true)}>
            Later
          </button>
        ) : (
          <span role="status">{isSet ? 'The secret is saved.' : 'It has its secret.'}</span>
        )}
      </div>
      {said}
    </form>
  );
}

/** What a secret must be, if what was typed is none; null: it may be one, or nobody knows. */
function useForm(chosen: ChosenSender, value: string): string | null {
  const [mustBe, setMustBe] = useState<string | null>(null);
  const settled = useSettled(value);
  useEffect(() => {
    setMustBe(null);
    if (settled === '' || chosen.kind !== 'sender' || chosen.sender.form === null) return undefined;
    const ending = new AbortController();
    call<{ mustBe: string | null }>('secret-form', {
      body: { sender: chosen.sender.id, secret: settled },
      signal: ending.signal,
      auto: true,
    }).then(
      (it) => setMustBe(it.mustBe),
      () => undefined,
    );
    return () => ending.abort();
  }, [settled]);
  return mustBe;
}

/** People enter it at the sender: made up here, or one that is there already. */
function ChosenSender({
  chosen,
  secret,
  memory,
  changed,
}: SecretProps & { readonly chosen: ChosenSender; readonly memory: string }): JSX.Element {
  const [own, setOwn] = useState(false);
  if (own) return <Pasted chosen={chosen} secret={secret} changed={changed} />;
  const sender = chosen.kind === 'sender' ? chosen.sender.id : '';
  return (
    <>
      <Offered
        what="Secret"
        secret={secret}
        memory={memory}
        make={async () =>
          (await call<{ secret: string }>('make-secret', { body: { sender, placeholder: false } })).secret
        }
        changed={changed}
      />
      <button type="button" class="small quiet" onClick={() => setOwn(true)}>
        I have a secret already
      </button>
    </>
  );
}

interface OfferedProps extends SecretProps {
  readonly what: string;
  readonly memory: string;
  readonly make: () => Promise<string>;
}

/** A secret to be entered at the sender, with Copy for as long as the page remembers it. */
function Offered({ what, secret, memory, make, changed }: OfferedProps): JSX.Element {
  const { set, busy, said } = useSetting(secret, changed);
  const value = shown.value.get(memory);
  const another = async (): Promise<void> => {
    const next = await make();
    if (await set(next)) showOnce(memory, next);
  };
  return (
    <div>
      <b>{what}</b>
      {value === undefined ? (
        <p class="faint">
          It was shown once, when it was made.{' '}
          <button type="button" class="small" {...unlessAway(busy)} onClick={() => void another()}>
            Make another one
          </button>
        </p>
      ) : (
        <>
          <CopyField label={what} text={value} />
          <p class="faint">Shown until this page is left, then never again.</p>
        </>
      )}
      {said}
    </div>
  );
}
