/** The menus of the frame: who is logged in, the theme of the page, its keys, and the way out; and the time zone. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { effect, signal } from '@preact/signals';
import { showKeys } from './keys.tsx';
import { Icon } from './icons.tsx';
import { Choice, Menu } from './menu.tsx';
import { logOut, me } from './server.ts';
import { countTabs, openTabs, tellTabs } from './tabs.ts';
import { Text } from './text.tsx';
import { readZone } from '../statements.ts';
import { useRows } from './load.ts';
import { isZone, zone, zoneText } from './time-zone.ts';

const themes = [
  ['auto', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

export function RoleMenu(): JSX.Element {
  const { role = '', version = '' } = me.value ?? {};
  return (
    <Menu
      kind="line-button"
      label={
        <>
          <span class="initial" aria-hidden="true">
            <Text of={Array.from(role)[0]?.toUpperCase() ?? ''} max={4} />
          </span>
          <b class="grow">
            <Text of={role} max={40} />
          </b>
          <span class="faint">{version}</span>
          <Icon name="more" />
          <span class="unseen">Theme, keys, log out</span>
        </>
      }
    >
      {(close) => <Ways close={close} />}
    </Menu>
  );
}

function Ways({ close }: { readonly close: () => void }): JSX.Element {
  useEffect(countTabs, []);
  return (
    <>
      <p class="faint">Theme</p>
      {themes.map(([id, words]) => (
        <Choice key={id} on={theme.value === id} choose={() => ((theme.value = id), close())}>
          {words}
        </Choice>
      ))}
      <hr />
      <button type="button" onClick={() => (close(), showKeys())}>
        Keys <kbd>?</kbd>
      </button>
      <button type="button" onClick={() => void logOut().then(() => tellTabs('out'))}>
        Log out{openTabs.value === 1 ? '' : ` in ${openTabs.value} tabs`}
      </button>
    </>
  );
}

/** Chooses the time zone of all pages and of SQL results. */
export function ZoneMenu(): JSX.Element {
  return (
    <Menu
      kind="line-button"
      label={
        <>
          <Icon name="globe" />
          <span class="unseen">Time zone</span>
          <span class="grow">{zoneText()}</span>
        </>
      }
    >
      {(close) => <Zones close={close} />}
    </Menu>
  );
}

function Zones({ close }: { readonly close: () => void }): JSX.Element {
  const database = useRows(readZone).value?.[0]?.['setting'] ?? '';
  const [typed, setTyped] = useState('');
  const now = zone.value;
  const choose = (value: string): void => {
    zone.value = value;
    close();
  };
  const isOther = now !== 'browser' && now !== 'UTC' && now !== database;
  return (
    <>
      <p class="faint">Times on all pages, and of SQL results</p>
      <Choice
        on={now === 'browser'}
        choose={() => choose('browser')}
        note={zoneText(Intl.DateTimeFormat().resolvedOptions().timeZone)}
      >
        This browser
      </Choice>
      <Choice on={now === 'UTC'} choose={() => choose('UTC')}>
        UTC
      </Choice>
      {database === '' || database === 'UTC' || !isZone(database) ? null : (
        <Choice on={now === database} choose={() => choose(database)} note={zoneText(database)}>
          The database
        </Choice>
      )}
      {isOther ? (
        <Choice on choose={close}>
          {zoneText()}
        </Choice>
      ) : null}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isZone(typed.trim())) choose(typed.trim());
        }}
      >
        <input
          aria-label="Another time zone"
          placeholder="Another one: Asia/Kolkata, Enter"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        {typed === '' || isZone(typed.trim()) ? null : (
          <span class="faint" role="status">
            No time zone has this name
          </span>
        )}
      </form>
    </>
  );
}

const theme = signal(localStorage.getItem('headgate-theme') ?? 'auto');

export function watchTheme(): void {
  effect(() => {
    localStorage.setItem('headgate-theme', theme.value);
    if (theme.value === 'auto') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme.value;
  });
}
