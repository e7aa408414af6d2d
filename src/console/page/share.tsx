/** The menu “Share”: the address of what is seen, a link that logs in as well, and the same as SQL and as a command. */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SharedKey } from '../api.ts';
import { Code, copy, focused, Wrong } from './components.tsx';
import { Icon } from './icons.tsx';
import type { IconName } from './icons.tsx';
import { Menu } from './menu.tsx';
import { here } from './route.ts';
import { asFailure, call, me } from './server.ts';
import type { Failure } from './server.ts';
import { Text } from './text.tsx';
import { minuteText } from './time-zone.ts';
import { filterOf, wordsOf } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { shellWord } from '../quote.ts';
import { listKept } from '../request-statements.ts';
import { useSenders } from './senders.ts';

interface Props {
  /** What is seen, in words. */
  readonly what: string;
  /** The place to which an address leads, as after the `#`; absent: that of the page. */
  readonly place?: () => string;
  /** null: it cannot be said so. */
  readonly sql?: string | null;
  readonly command?: string | null;
}

export function Share(props: Props): JSX.Element {
  return (
    <Menu
      kind=""
      label={
        <>
          <Icon name="link" /> Share <Icon name="down" />
        </>
      }
    >
      {() => <Ways {...props} />}
    </Menu>
  );
}

function Ways({ what, place = here, sql = null, command = null }: Props): JSX.Element {
  const address = (): string => `${location.origin}${location.pathname}#${place()}`;
  return (
    <>
      <p class="faint">
        <Text of={what} max={200} />
      </p>
      <Way
        icon="link"
        title="Copy address"
        note="Whoever opens it logs in first"
        run={() => copy(address())}
      />
      <LoginLink place={place} />
      {sql === null ? null : (
        <Way
          icon="copy"
          title="Copy as SQL"
          note="The statement of this list, for psql"
          run={() => copy(sql)}
        />
      )}
      {command === null ? null : (
        <Way
          icon="sql"
          title="Copy as command"
          note={<Text of={command} max={80} />}
          run={() => copy(command)}
        />
      )}
    </>
  );
}

interface WayProps {
  readonly icon: IconName;
  readonly title: string;
  readonly note: ComponentChildren;
  readonly risky?: boolean;
  readonly disabled?: boolean;
  /** Whether it was copied; rejects if it was not. */
  readonly run: () => Promise<boolean | void>;
}

function Way({ icon, title, note, risky = false, disabled = false, run }: WayProps): JSX.Element {
  const [said, setSaid] = useState('');
  return (
    <button
      type="button"
      class="choice way"
      disabled={disabled}
      onClick={() => {
        setSaid('');
        run().then(
          (isCopied) => setSaid(isCopied === false ? 'Not copied' : 'Copied'),
          () => setSaid('Not copied'),
        );
      }}
    >
      <Icon name={icon} />
      <span class="grow">
        {title}
        <small class={risky ? 'risky' : 'faint'}>{note}</small>
      </span>
      <span class="faint" role="status">
        {said}
      </span>
    </button>
  );
}

interface Made {
  readonly key: string;
  readonly link: string;
  readonly isCopied: boolean;
  readonly untilMs: number;
}

/** As the limit of the server (`consoleLinkMs`). */
const linkMs = 10 * 60_000;

/** Made when it is asked for. It can be taken back as long as the menu is open. */
function LoginLink({ place }: { readonly place: () => string }): JSX.Element {
  const [made, setMade] = useState<Made | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isBack, setBack] = useState(false);
  const { role = '', shared = false } = me.value ?? {};
  const make = async (): Promise<boolean> => {
    setFailure(null);
    setBack(false);
    try {
      const { key } = await call<SharedKey>('share', { body: {} });
      const link = `${location.origin}${location.pathname}#s=${key}&to=${place()}`;
      const isCopied = await copy(link).then(
        () => true,
        () => false,
      );
      setMade({ key, link, isCopied, untilMs: Date.now() + linkMs });
      return isCopied;
    } catch (error) {
      setFailure(asFailure(error));
      return false;
    }
  };
  const takeBack = (key: string): void => {
    call('shared-link', { body: { key, drop: true } }).then(
      () => (setMade(null), setBack(true)),
      (error: unknown) => setFailure(asFailure(error)),
    );
  };
  return (
    <>
      <Way
        icon="secrets"
        title="Copy a link that logs in, once"
        note={
          shared ? (
            'You came by such a link: it is shared no further'
          ) : (
            <>
              Whoever opens it within 10 minutes is <Text of={role} max={63} />, until you log out
            </>
          )
        }
        risky={!shared}
        disabled={shared}
        run={make}
      />
      {made === null ? null : (
        <>
          {made.isCopied ? null : <Code text={made.link} />}
          <p class="row-of">
            <span class="grow">It works until {minuteText(made.untilMs)}.</span>
            <button type="button" class="small" onClick={() => takeBack(made.key)}>
              Take it back
            </button>
          </p>
        </>
      )}
      {isBack ? (
        <p role="status" tabIndex={-1} ref={focused}>
          Taken back: it logs nobody in.
        </p>
      ) : null}
      {failure === null ? null : <Wrong failure={failure} />}
    </>
  );
}

interface ListProps {
  readonly address: ListAddress;
  /** Whether a list of them is what is seen. */
  readonly isShown?: boolean;
}

/** Of a list of requests with filters, or of those of one endpoint. */
export const ShareList = ({ address, isShown = true }: ListProps): JSX.Element => (
  <Share
    what={wordsOf(address, useSenders().nameOf) || 'All requests'}
    sql={isShown ? sqlOf(address) : null}
    command={commandOf(address)}
  />
);

function commandOf({ schema, table, result }: ListAddress): string {
  const name = table === '' ? '' : ` ${shellWord(schema === '' ? table : `${schema}.${table}`)}`;
  return `headgate tail${name}${result === 'refused' ? ' --failed' : ''}`;
}

export const sqlOf = (address: ListAddress): string | null =>
  listKept(filterOf(address, Date.now()), { from: null, max: 100, scanned: 1_000 });
