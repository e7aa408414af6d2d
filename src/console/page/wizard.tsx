/**
 * A new endpoint in three steps: who sends; its address, what to click at the sender, and the secret, now or later; the first delivery. Each step
 * is in the address or in the database, so that an interrupted wizard goes on: `new/stripe?name=…` before there is a table, `?table=…` after.
 */
import type { JSX, ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { SenderInfo } from '../api.ts';
import { readMade } from '../new-endpoint.ts';
import { emptyForm, isHmacForm, problemOf } from '../custom-hmac.ts';
import type { HmacForm } from '../custom-hmac.ts';
import { Monogram } from './endpoints.tsx';
import { useLoaded, useRowsIf } from './load.ts';
import { lackingToCreate, Shown } from './components.tsx';
import { Text } from './text.tsx';
import { go, route, to } from './route.ts';
import { call } from './server.ts';
import { Choose, methodText } from './wizard-choose.tsx';
import type { ChosenSender } from './wizard-choose.tsx';
import { Create } from './wizard-create.tsx';
import { FirstDelivery } from './wizard-first.tsx';
import { OwnHmac } from './wizard-hmac.tsx';
import { Connect } from './wizard-secret.tsx';
import type { CreatedTable } from './wizard-secret.tsx';

export function Wizard({ kind }: { readonly kind: string }): JSX.Element {
  const lacking = lackingToCreate();
  const senders = useLoaded('senders', (options) => call<readonly SenderInfo[]>('senders', options));
  return (
    <>
      <header class="head">
        <h1>
          <a href={to(['endpoints'])}>Endpoints</a> <span class="faint">/</span> New endpoint
        </h1>
        <a href={to(['sql'])}>Write the SQL instead</a>
        <a class="button" href={to(['endpoints'])}>
          Close
        </a>
      </header>
      <div class="wizard">
        {lacking !== null ? (
          <div class="empty">
            <Text of={lacking} max={300} />
          </div>
        ) : (
          <Shown loaded={senders}>
            {(all) => <Steps kind={kind} sender={all.find(({ id }) => id === kind) ?? null} senders={all} />}
          </Shown>
        )}
      </div>
    </>
  );
}

interface StepsProps {
  readonly kind: string;
  readonly sender: SenderInfo | null;
  readonly senders: readonly SenderInfo[];
}

function Steps({ kind, sender, senders }: StepsProps): JSX.Element {
  const { query } = route.value;
  const [table, schema] = [query.get('table') ?? '', query.get('schema') ?? 'public'];
  const form = formOf(query.get('form'));
  const made = useMade(schema, table);
  const formed = query.get('ready') === '1' && problemOf(form) === null;
  const chosen: ChosenSender | null =
    sender !== null
      ? { kind: 'sender', sender }
      : kind === 'anything'
        ? { kind }
        : kind === 'hmac' && (formed || table !== '')
          ? { kind, form }
          : null;
  const isMade = table !== '' && made.value !== null;
  const waits = made.value?.waits ?? true;
  const [received, setReceived] = useState('');
  const hasCome = isMade && received === `${schema}.${table}` && !waits;
  return (
    <>
      <Step n={1} done={chosen !== null} title="Who sends?" beside={<Who chosen={chosen} kind={kind} />}>
        {chosen !== null ? null : kind === 'hmac' ? <OwnHmac form={form} /> : <Choose senders={senders} />}
      </Step>
      <Step n={2} done={isMade && !waits} open={chosen !== null} title="Connect it">
        {chosen === null ? null : table === '' ? (
          <Create key={kind} chosen={chosen} />
        ) : (
          <>
            {made.failure === null ? null : <Shown loaded={made}>{() => null}</Shown>}
            {made.value === null ? (
              made.loaded && <Missing table={table} />
            ) : (
              <Connect chosen={chosen} made={made.value} changed={made.reload} brief={hasCome} />
            )}
          </>
        )}
      </Step>
      <Step n={3} done={hasCome} open={isMade} title="The first delivery">
        {chosen === null || made.value === null ? null : (
          <FirstDelivery
            key={`${schema}.${table}`}
            chosen={chosen}
            made={made.value}
            came={() => setReceived(`${schema}.${table}`)}
          />
        )}
      </Step>
    </>
  );
}

function Missing({ table }: { readonly table: string }): JSX.Element {
  return (
    <div class="empty">
      No endpoint <Text of={table} max={80} />, or it is not yours.{' '}
      <button type="button" onClick={() => go(route.value.parts, { name: table }, true)}>
        Create it
      </button>
    </div>
  );
}

interface StepProps {
  readonly n: number;
  readonly done: boolean;
  readonly open?: boolean;
  readonly title: string;
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}

function Step({ n, done, open = true, title, beside, children }: StepProps): JSX.Element {
  return (
    <section class={`step ${done ? 'done' : open ? 'now' : 'later'}`} aria-label={title}>
      <span class="number">{done ? '✓' : n}</span>
      <div class="card">
        <div class="row-of">
          <h2 class="grow">{title}</h2>
          {beside}
        </div>
        {children}
      </div>
    </section>
  );
}

function Who({ chosen, kind }: { readonly chosen: ChosenSender | null; readonly kind: string }): JSX.Element {
  if (chosen === null && kind === 'hmac') return <a href={to(['new'])}>Choose a known sender</a>;
  if (chosen === null) return <span class="faint">its signature is checked before anything is stored</span>;
  const [name, method] =
    chosen.kind === 'sender'
      ? [chosen.sender.name, methodText(chosen.sender)]
      : chosen.kind === 'hmac'
        ? ['My own HMAC', `HMAC in ${chosen.form.header}`]
        : ['Anyone', 'no check'];
  return (
    <>
      <Monogram of={name} /> <span class="faint">{method}</span>
      <button
        type="button"
        class="small quiet"
        onClick={() =>
          go(
            chosen.kind === 'hmac' ? ['new', 'hmac'] : ['new'],
            chosen.kind === 'hmac' ? { form: JSON.stringify(chosen.form) } : {},
          )
        }
      >
        Change
      </button>
    </>
  );
}

/** From the address; what is no form of the wizard is the empty one. */
function formOf(text: string | null): HmacForm {
  try {
    const form: unknown = JSON.parse(text ?? '');
    return isHmacForm(form) ? form : emptyForm;
  } catch {
    return emptyForm;
  }
}

interface MadeLoaded {
  readonly value: CreatedTable | null;
  readonly loaded: boolean;
  readonly failure: ReturnType<typeof useRowsIf>['failure'];
  readonly reload: () => void;
  readonly refresh: () => void;
}

/** The endpoint as the database has it. */
function useMade(schema: string, table: string): MadeLoaded {
  const loaded = useRowsIf(table === '' ? null : readMade({ schema, table }), 5_000);
  const row = loaded.value?.[0];
  const { failure, reload, refresh } = loaded;
  const secrets = JSON.parse(row?.['secrets'] ?? '[]') as { schema: string; name: string; fresh: boolean }[];
  const value =
    row === undefined || table === ''
      ? null
      : {
          schema,
          table,
          names: JSON.parse(row['names'] ?? '[]') as string[],
          secrets,
          waits: secrets.some(({ fresh }) => fresh),
        };
  return { value, loaded: loaded.value !== null, failure, reload, refresh };
}
