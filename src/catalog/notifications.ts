/**
 * LISTEN on Headgate's channels, only in sessions that are certainly its own: those of the embedded engine. A pooler would lend such a session to
 * others, who would get the notifications, with the channel's secret name. Notifications only hasten the next look at the catalog.
 */
import type { Client } from 'pg';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { pinned } from './queries.ts';

/** Once this resolves, `told` is called with the purpose of each notification. */
export async function listen(client: Client, told: (purpose: string) => void): Promise<void> {
  const channels = await pinned<{ purpose: string; name: string }>(
    client,
    'select c.purpose, c.name from headgate.channel c',
  );
  client.on('notification', ({ channel }) => {
    const known = channels.find(({ name }) => name === channel);
    if (known !== undefined) told(known.purpose);
  });
  for (const { name } of channels) await client.query(`listen ${quote(name)}`);
}
