/** Chooses the time zone of all pages and of SQL results. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { readZone } from '../statements.ts';
import { useRows } from './load.ts';
import { Icon } from './icons.tsx';
import { Choice, Menu } from './menu.tsx';
import { isZone, zone, zoneText } from './time-zone.ts';

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
