/** Tables for the senders that Headgate knows, in a running program, and requests sent to them as those senders do. */
import { fail } from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { sendCommand } from '../../src/senders/send.ts';
import type { SendOptions } from '../../src/senders/send-options.ts';
import { senderTable } from '../../src/senders/sender-table.ts';
import { senders } from '../../src/senders/senders.ts';

/** The URL that the senders believe to call; the program is started with it as --public-url. */
export const publicUrl = 'https://hooks.example.com';

export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/**
 * Creates the secret `<table>_key` and the table, with the sender's VALIDATE. `answerKey`: the text of the second secret,
 * `<table>_second`.
 */
export async function createSenderTable(
  client: Client,
  table: string,
  sender: string,
  secret: string,
  answerKey: string | null = null,
) {
  const known = senders.get(sender) ?? fail(`no sender ${sender}`);
  const make = (name: string, text: string) =>
    `CREATE SECRET ${table}_${name} WITH (backend = 'meta') AS ${quote(text)};`;
  const second = answerKey === null ? '' : ` ANSWER SECRET ${table}_second`;
  await client.query(`
    ${make('key', secret)} ${answerKey === null ? '' : make('second', answerKey)}
    ${senderTable(known, table)} VALIDATE SECRET ${table}_key USING ${sender}${second}`);
}

/** Dropped before the next one is created, so that a hundred of them take no longer than ten. */
export async function dropSenderTable(client: Client, table: string) {
  await client.query(`DROP TABLE ${table}; DROP SECRET ${table}_key; DROP SECRET IF EXISTS ${table}_second`);
}

/** `headgate send`, without a separate process. Returns the exit status and the output. */
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
