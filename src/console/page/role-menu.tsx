/** Who is logged in, the theme of the page, its keys, and the way out. */
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { showKeys } from './keys.tsx';
import { Icon } from './icons.tsx';
import { Choice, Menu } from './menu.tsx';
import { logOut, me } from './server.ts';
import { countTabs, openTabs, tellTabs } from './tabs.ts';
import { Text } from './text.tsx';
import { theme } from './theme.ts';

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
