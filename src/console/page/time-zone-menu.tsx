/** Chooses the time zone of all pages and of SQL results. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { readZone } from '../statements.ts';
import { useRows } from './load.ts';
import { focused } from './components.tsx';
import { isZone, zone, zoneText } from './time-zone.ts';

export function ZoneMenu(): JSX.Element {
  const database = useRows(readZone).value?.[0]?.['setting'] ?? '';
  const [typing, setTyping] = useState(false);
  const other =
    zone.value === 'browser' || zone.value === 'UTC' || zone.value === database ? null : zone.value;
  const choose = (value: string): void => {
    if (value === 'other') setTyping(true);
    else zone.value = value;
  };
  if (typing)
    return (
      <label>
        <span class="unseen">Name of the time zone</span>
        <input
          class="small"
          ref={focused}
          placeholder="Asia/Kolkata, Enter"
          onKeyDown={(event) => {
            const { value } = event.currentTarget;
            if (event.key === 'Escape') setTyping(false);
            if (event.key !== 'Enter' || !isZone(value)) return;
            zone.value = value;
            setTyping(false);
          }}
        />
      </label>
    );
  return (
    <label>
      <span class="unseen">Time zone</span>
      <select class="small" value={zone.value} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="browser">
          {zoneText(Intl.DateTimeFormat().resolvedOptions().timeZone)} (this browser)
        </option>
        <option value="UTC">UTC</option>
        {database === '' || database === 'UTC' || !isZone(database) ? null : (
          <option value={database}>{zoneText(database)} (the database)</option>
        )}
        {other === null ? null : <option value={other}>{zoneText(other)}</option>}
        <option value="other">Another …</option>
      </select>
    </label>
  );
}
