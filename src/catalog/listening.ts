/**
 * LISTEN, and whether notifications really arrive. Behind a pooler that reassigns a server after each transaction, LISTEN
 * lands on a session that others use next: notifications are lost, or delivered to strangers. So Headgate sends itself a
 * notification over a second connection: the listening connection has to be idle, and receives the notification only if
 * the session is its own. If it does not arrive, LISTEN is undone, as far as the session that has it can be found.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { ClientConfig, Notification } from 'pg';
import { hangUp } from '../engine/close-client.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { pinned, pinnedAll } from './reading.ts';

/** How often UNLISTEN is sent in search of the session that received LISTEN. */
const unlistensMax = 32;

export interface ChannelNames {
  readonly catalog: string;
  readonly rejected: string;
}

interface Pid {
  readonly pid: number;
}

const ownPid = 'select pg_catalog.pg_backend_pid() as pid';

export async function readChannels(client: Client): Promise<ChannelNames> {
  const rows = await pinned<{ purpose: string; name: string }>(
    client,
    'select c.purpose, c.name from headgate.channel c',
  );
  const named = (purpose: string): string => {
    const row = rows.find((it) => it.purpose === purpose);
    if (row === undefined) throw new Error(`headgate.channel names no channel for ${purpose}`);
    return row.name;
  };
  return { catalog: named('catalog'), rejected: named('rejected') };
}

/** Once this resolves, changes are notified, if the engine notifies at all. Returns the session's process id. */
export async function listen(client: Client, channels: readonly string[]): Promise<number> {
  const [row] = await pinned<Pid>(client, ...channels.map((name) => `listen ${quote(name)}`), ownPid);
  return row?.pid ?? 0;
}

/** Whether a notification sent to `channel` reaches `client` within `boundMs`. Never throws: false unless it has been shown. */
export async function hears(
  client: Client,
  other: ClientConfig,
  channel: string,
  boundMs: number,
  closing: AbortSignal,
): Promise<boolean> {
  const token = randomUUID();
  const over = new AbortController();
  let heard = false;
  // Nothing has been sent on this connection since the notification: a pooled session that is lent for a query would deliver it, too.
  let isQuiet = false;
  const onDrain = () => void (isQuiet = false);
  const sender = new Client(other);
  const tell = async () => {
    isQuiet = isIdle(client);
    await sender.query('select pg_catalog.pg_notify($1, $2)', [channel, token]);
  };
  const onNotification = ({ channel: on, payload }: Notification): void => {
    if (on !== channel || payload !== token || heard) return;
    if (!isQuiet || !isIdle(client)) return void tell().catch(() => {});
    heard = true;
    over.abort();
  };
  client.on('notification', onNotification);
  client.on('drain', onDrain);
  sender.on('error', () => {});
  try {
    await sender.connect();
    await tell();
    const { signal } = over;
    await delay(boundMs, undefined, { signal: AbortSignal.any([signal, closing]) }).catch(() => {});
  } catch {
    // There may be no second connection available.
  } finally {
    client.off('notification', onNotification);
    client.off('drain', onDrain);
    await hangUp(sender);
  }
  return heard;
}

function isIdle(client: Client): boolean {
  return (client as unknown as { readonly readyForQuery: boolean }).readyForQuery;
}

/** Throws the error that breaks the connection. */
export async function unlisten(client: Client, channels: readonly string[], pid: number): Promise<void> {
  for (let time = 0; time < unlistensMax; time++) {
    const results = await pinnedAll(client, [...channels.map((name) => `unlisten ${quote(name)}`), ownPid]);
    if ((results.at(-1)?.rows[0] as Pid | undefined)?.pid === pid) return;
  }
}
