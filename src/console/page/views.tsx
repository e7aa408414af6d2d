/** Views of the list of requests that this browser remembers: a name, and the filters that stand in the address. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { addressOf, isFiltered } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { Text } from './text.tsx';
import { Menu } from './menu.tsx';
import { go } from './route.ts';
import { me } from './server.ts';
import { forget, recall, save, views } from './sql-history.ts';

export function Views({ address }: { readonly address: ListAddress }): JSX.Element | null {
  const [name, setName] = useState('');
  useEffect(recall, [me.value]);
  if (views.value.length === 0 && !isFiltered(address)) return null;
  const query = String(new URLSearchParams(Object.entries(address).filter(([, value]) => value !== '')));
  return (
    <Menu label="Views">
      {(close) => (
        <>
          {views.value.map((view) => (
            <span class="row-of" key={view.name}>
              <button
                type="button"
                class="grow"
                onClick={() => {
                  close();
                  go(['requests'], { ...addressOf(new URLSearchParams(view.text)) });
                }}
              >
                <Text of={view.name} max={60} />
              </button>
              <button
                type="button"
                class="clear"
                aria-label={`Forget ${view.name}`}
                onClick={() => forget('views', view.name)}
              >
                ×
              </button>
            </span>
          ))}
          {isFiltered(address) ? (
            <form
              class="row-of"
              onSubmit={(event) => {
                event.preventDefault();
                if (save('views', name.trim(), query)) close();
              }}
            >
              <input
                aria-label="Name of this view"
                placeholder="Name of this view"
                maxLength={80}
                value={name}
                onInput={(event) => setName(event.currentTarget.value)}
              />
              <button type="submit">Save</button>
            </form>
          ) : null}
        </>
      )}
    </Menu>
  );
}
