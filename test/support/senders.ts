/** Tables of the senders that Headgate knows, in a running program, and requests of theirs sent to them. */
import { fail } from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { sendCommand } from '../../src/senders/send.ts';
import type { SendOptions } from '../../src/senders/send-options.ts';
import { bodyColumn, tableOptions } from '../../src/senders/repeated.ts';
import { senders } from '../../src/senders/senders.ts';

/** What the senders believe to call; the program is started with it as --public-url. */
export const publicUrl = 'https://hooks.example.com';

export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Makes the secret `<table>_key` and the table, whose VALIDATE is the sender's. */
export async function createSenderTable(client: Client, table: string, sender: string, secret: string) {
  const known = senders.get(sender) ?? fail(`no sender ${sender}`);
  await client.query(`
    CREATE SECRET ${table}_key WITH (backend = 'meta') AS ${quote(secret)};
    CREATE TABLE ${table} (${bodyColumn(known)}) WITH (${tableOptions(known)}) VALIDATE SECRET ${table}_key USING ${sender}`);
}

/** Gone before the next one is made, so that a hundred of them take no longer than ten. */
export async function dropSenderTable(client: Client, table: string) {
  await client.query(`DROP TABLE ${table}; DROP SECRET ${table}_key`);
}

/** `headgate send`, without a process of its own. Gives the exit status and what was printed. */
export async function send(options: SendOptions): Promise<{ code: number; printed: string }> {
  let printed = '';
  const code = await sendCommand(options, {
    print: (text) => (printed += text),
    note: () => {},
    terminal: false,
    read: () => Promise.reject(new Error('nothing to read')),
    clock: Date.now,
    elapsed: () => performance.now(),
    random: randomBytes,
    signal: new AbortController().signal,
  });
  return { code, printed };
}
