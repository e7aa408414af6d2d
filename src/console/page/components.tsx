/** Building blocks of the screens. All of them show text as text, and mark invisible characters in text from strangers. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { agoText } from '../visible-text.ts';
import type { Loaded } from './load.ts';
import type { Failure } from './server.ts';
import { to } from './route.ts';
import { away, me, run } from './server.ts';
import type { SqlResponse } from '../api.ts';
import { kindOf } from '../outcome-summary.ts';
import { withoutSecrets } from '../statements.ts';
import type { SqlText } from './sql-text.tsx';
import { Text } from './text.tsx';
import { wholeText } from './time-zone.ts';

/** `ref` of a field that gets the focus when it appears; `autofocus` does not give it if something else has it. */
export const focused = (field: HTMLElement | null): void => field?.focus();

export function Copy({
  text,
  label = 'Copy',
  hotkey,
  kind = 'small quiet',
}: {
  /** A function: what takes a while to write is written when it is asked for. */
  readonly text: string | (() => string);
  readonly label?: string;
  readonly hotkey?: string;
  readonly kind?: 'small quiet' | 'primary' | '';
}) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      class={kind}
      data-key={hotkey}
      onClick={(event) => {
        event.preventDefault();
        event.stopPropagation();
        copy(typeof text === 'string' ? text : text()).then(
          () => setDone(true),
          () => undefined,
        );
      }}
    >
      {done ? 'Copied' : label}
    </button>
  );
}

/**
 * Without TLS, and under a name other than localhost, a browser offers no clipboard API, and it may refuse it, such as a while after the click: then
 * the older way is used, beside what has the focus: a menu or a dialog that it would leave closes. Rejects if neither is allowed.
 */
export async function copy(text: string): Promise<void> {
  if (isSecureContext)
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
      // The older way.
    }
  const before = document.activeElement as HTMLElement | null;
  const area = document.createElement('textarea');
  area.value = text;
  (before?.parentElement ?? document.body).append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  before?.focus();
  if (!isDone) throw new Error('the browser does not let it be copied');
}

/** A statement, collapsed at first. */
export function Sql({
  text,
  label = 'SQL',
}: {
  readonly text: string;
  readonly label?: string;
}): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="statement" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {open ? <Code text={withoutSecrets(text)} copied={text} isSql /> : null}
    </details>
  );
}

/** SQL in colours, as soon as the file that knows them is here. */
function Coloured({ of }: { readonly of: string }): JSX.Element {
  const [loaded, setLoaded] = useState<{ it: typeof SqlText } | null>(null);
  useEffect(() => {
    import('./sql-text.tsx').then(
      ({ SqlText: it }) => setLoaded({ it }),
      () => undefined,
    );
  }, []);
  return loaded === null ? <Text of={of} max={100_000} /> : <loaded.it of={of} max={100_000} />;
}

export function Code({
  text,
  copied = text,
  isSql = false,
}: {
  readonly text: string;
  readonly copied?: string;
  readonly isSql?: boolean;
}): JSX.Element {
  return (
    <div class="code">
      <pre tabIndex={0}>{isSql ? <Coloured of={text} /> : <Text of={text} max={100_000} />}</pre>
      <Copy text={copied} />
    </div>
  );
}

/** A labelled input of several lines. */
export function Area({
  label,
  value,
  rows,
  change,
}: {
  readonly label: string;
  readonly value: string;
  readonly rows: number;
  readonly change: (value: string) => void;
}): JSX.Element {
  return (
    <label>
      {label}
      <textarea
        rows={rows}
        spellcheck={false}
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

/** For a button that needs the database: it is disabled while that, or Headgate, does not answer. */
export const unlessAway = (disabled = false, title?: string) =>
  away.value === null ? { disabled, title } : { disabled: true, title: `Not available now. ${away.value}.` };

/** Not for a role that may not make one. */
export function NewEndpoint(): JSX.Element | null {
  const words = (
    <>
      + <span class="wide-words">New endpoint</span>
    </>
  );
  if (lackingToCreate() !== null) return null;
  return away.value === null ? (
    <a class="button primary" href={to(['new'])} aria-label="New endpoint">
      {words}
    </a>
  ) : (
    <button type="button" class="primary" aria-label="New endpoint" {...unlessAway()}>
      {words}
    </button>
  );
}

/** Why the role cannot make an endpoint here; null: it can, or that is not known yet. */
export const lackingToCreate = (): string | null =>
  me.value?.creates === false
    ? `Role ${me.value.role} may not create tables in this database: it lacks CREATE on a schema.`
    : null;

interface ActionProps {
  readonly label: string;
  readonly sql: string;
  readonly done?: (answer: SqlResponse) => void;
  /** A question to confirm first; null: none. */
  readonly confirm?: string | null;
  readonly kind?: 'primary' | 'danger' | 'plain';
  readonly hotkey?: string;
  readonly disabled?: boolean;
  /** The statement returns one text, which is shown. */
  readonly answers?: boolean;
}

/** A button that runs a writing statement, shown with the statement. */
export function Action({
  label,
  sql,
  done,
  confirm = null,
  kind = 'plain',
  hotkey,
  disabled = false,
  answers = false,
}: ActionProps) {
  const [said, setSaid] = useState('');
  const [state, setState] = useState<'idle' | 'asking' | 'running'>('idle');
  const [failure, setFailure] = useState<Failure | null>(null);
  const start = (): void => {
    setState('running');
    setFailure(null);
    run(sql, true).then(
      (answer) => {
        setState('idle');
        setSaid(answer.tables.at(-1)?.rows[0]?.[0] ?? '');
        done?.(answer);
      },
      (error: unknown) => {
        setState('idle');
        setFailure(error as Failure);
      },
    );
  };
  const asking = state === 'asking' && confirm !== null;
  return (
    <div class="action">
      <button
        type="button"
        class={asking ? 'danger' : kind}
        data-key={hotkey}
        {...unlessAway(disabled || state === 'running')}
        onClick={() => (confirm !== null && state !== 'asking' ? setState('asking') : start())}
      >
        {state === 'running' ? 'Running …' : asking ? confirm : label}
      </button>
      {asking ? (
        <button type="button" class="quiet" onClick={() => setState('idle')}>
          No
        </button>
      ) : null}
      <Sql text={sql} />
      {answers && said !== '' ? (
        <span role="status">
          <Text of={said} max={300} />
        </span>
      ) : null}
      {failure === null ? null : <Wrong failure={failure} />}
    </div>
  );
}

/** The database has no schema headgate: the first endpoint makes it. */
export const isUnused = (failure: Failure | null): boolean =>
  failure?.info.sqlstate === '42P01' && failure.info.error === 'this database has no schema headgate';

/** An error of the engine or of Headgate, with its hint. */
export function Wrong({ failure }: { readonly failure: Failure }): JSX.Element {
  const { error, code, sqlstate, detail, hint } = failure.info;
  if (isUnused(failure))
    return (
      <p class="strip" role="status">
        There is no endpoint in this database yet. <a href={to(['new'])}>Make one</a>
      </p>
    );
  // The page says above since when, and what that means.
  if (code === 'engine_unavailable' && away.value !== null)
    return (
      <p class="strip" role="status">
        Not available now: this needs the database.
      </p>
    );
  return (
    <div class="wrong" role="alert">
      <b>{sqlstate === '42501' ? 'Not allowed: ' : ''}</b>
      <Text of={error} /> <span class="faint">({sqlstate ?? code})</span>
      {detail === undefined ? null : (
        <div>
          <Text of={detail} />
        </div>
      )}
      {hint === undefined ? null : (
        <div class="hint">
          HINT: <Text of={hint} />
        </div>
      )}
    </div>
  );
}

interface ShownProps<T> {
  readonly loaded: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
}

/** A loaded value in all its states: loading, failed, loaded, and failed with the previous value. */
export function Shown<T>({ loaded: { value, failure, reload }, children }: ShownProps<T>): JSX.Element {
  if (value === null && failure === null) return <Skeleton />;
  return (
    <>
      {failure === null ? null : (
        <div class="row-of">
          <Wrong failure={failure} />
          <button type="button" onClick={reload}>
            Try again
          </button>
        </div>
      )}
      {value === null ? null : children(value)}
    </>
  );
}

interface ListingProps<T> extends ShownProps<readonly T[]> {
  /** Shown when there is nothing: what that means, and what to do next. */
  readonly empty: ComponentChildren;
  /** The most rows that are requested. */
  readonly max?: number;
}

/** A list in the states of `Shown`, and empty, and longer than shown. */
export function Listing<T>({ loaded, empty, max = Infinity, children }: ListingProps<T>): JSX.Element {
  return (
    <Shown loaded={loaded}>
      {(rows) => (
        <>
          {rows.length === 0 ? <div class="empty">{empty}</div> : children(rows)}
          {rows.length < max ? null : (
            <p class="faint">The first {max}; there may be more. Use SQL to see all of them.</p>
          )}
        </>
      )}
    </Shown>
  );
}

export function Skeleton(): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label="loading">
      <i />
      <i />
      <i />
    </div>
  );
}

/** How long ago; the tooltip shows the time itself. */
export function Ago({ at }: { readonly at: number }): JSX.Element {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={wholeText(at)}>
      {agoText(Date.now() - at)}
    </time>
  );
}

export function Badge({
  kind,
  children,
}: {
  readonly kind: 'good' | 'bad' | 'warn' | 'info' | 'plain';
  readonly children: ComponentChildren;
}) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

export function Status({ status, code }: { readonly status: number; readonly code: string }): JSX.Element {
  return <Badge kind={kindOf({ status, code })}>{status === 0 ? code : String(status)}</Badge>;
}
