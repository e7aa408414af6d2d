/**
 * `headgate listen`: forwards each new row of webhook tables to a program on the developer's machine, as the request the row was made
 * from, one at a time, and shows the answer. Runs until it is interrupted; returns the exit status.
 *
 *   connecting ──reached──► looking ──rows──► sending ──answered──► looking
 *       ▲                      │                 └──nobody there──► sending the same one again, a little later
 *       └──── lost ◄───────────┘
 *
 * Nothing is skipped while either side is unreachable: unanswered requests are sent when both are back. A request whose answer was lost
 * is sent twice. With --state the place also survives a restart of the command; without it a start begins with new rows only.
 */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { backoffMs } from '../kit/backoff.ts';
import { PlainError } from '../kit/plain-error.ts';
import type { SentAnswer } from '../senders/send-client.ts';
import { SendError } from '../senders/send-options.ts';
import { limits } from '../config/limits.ts';
import { UnsignableError } from '../senders/sign-again.ts';
import { Forwarder, reasonOf } from './forward.ts';
import type { ForwardOptions } from './forward.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import { interrupted } from './print.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { Following, unreadText } from './follow-rows.ts';
import type { FollowedRow } from './follow-rows.ts';
import type { TrustOptions } from './read-relation.ts';
import { rest, staying } from './session.ts';
import type { CommandSession } from './session.ts';
import type { StoredTable } from './stored-requests.ts';
import { httpUrl, refuseRemote } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

export interface ListenOptions extends ForwardOptions, TrustOptions {
  readonly forwardTo: string;
  readonly allowRemote?: boolean;
  readonly state?: string;
  readonly json?: boolean;
}

export async function listenCommand(
  where: Where,
  names: readonly string[],
  options: ListenOptions,
  io: CommandIo,
): Promise<number> {
  const to = httpUrl(options.forwardTo, '--forward-to');
  refuseRemote(to, '--forward-to', options.allowRemote === true);
  const forwarder = await Forwarder.open(options, names.length > 0, io);
  const listening = new Listening(where, names, options, forwarder, io);
  try {
    await listening.run();
    return interrupted;
  } finally {
    forwarder.close();
  }
}

class Listening {
  readonly #where: Where;
  readonly #names: readonly string[];
  readonly #options: ListenOptions;
  readonly #forwarder: Forwarder;
  readonly #io: CommandIo;
  readonly #following: Following;
  /** What each table kept, and whose check it had, when that was said, by its oid. */
  readonly #announced = new Map<string, string>();

  constructor(
    where: Where,
    names: readonly string[],
    options: ListenOptions,
    forwarder: Forwarder,
    io: CommandIo,
  ) {
    this.#where = where;
    this.#names = names;
    this.#options = options;
    this.#forwarder = forwarder;
    this.#io = io;
    const trustsAll = options.trustOwner === true;
    this.#following = new Following(names, trustsAll, (state) => this.#save(state));
  }

  /** An error at the beginning ends the command; after a later one it waits and continues. */
  async run(): Promise<void> {
    const { state } = this.#options;
    const before = state === undefined ? null : await readState(state);
    if (before !== null && !this.#following.resume(before))
      throw new PlainError(`--state: ${state ?? ''} does not hold a place that listen has written`);
    await staying(this.#where.dsn, 'listen', this.#io, async (session, begin) => {
      const { tables, unread, isAnother } = await this.#following.begin(session);
      if (this.#names.length > 0 && unread.length > 0) throw new PlainError(unreadText(unread).trim());
      const isFirst = begin();
      if (isFirst) this.#forwarder.refuseOthers(tables);
      if (isAnother)
        this.#io.note('the database is another one, or was restored: forwarding only new rows\n');
      const what =
        this.#names.length === 0 ? 'all webhook tables' : tables.map(({ from }) => from).join(', ');
      this.#io.note(
        isFirst
          ? `listening to ${what}; forwarding to ${this.#options.forwardTo}\n${unreadText(unread)}`
          : 'listening again\n',
      );
      for (const table of tables) this.#announce(table);
      await this.#follow(session);
    });
  }

  async #follow(session: CommandSession): Promise<void> {
    while (!this.#io.signal.aborted) {
      const began = this.#io.elapsed();
      let sent = 0;
      for await (const row of this.#following.look(session)) {
        if (!(await this.#forward(row))) return;
        sent += 1;
      }
      // Looking at many tables takes at most a tenth of the time.
      const tookMs = sent > 0 ? 0 : this.#io.elapsed() - began;
      await rest(this.#io, Math.max(limits.listenPauseMs, tookMs * limits.listenRestTimes));
    }
  }

  /** Once a table, and again when it keeps other parts than before or has another sender's check. */
  #announce(table: StoredTable): void {
    const kept = `${table.keeps.sender ?? ''} ${table.request}`;
    if (this.#announced.get(table.oid) === kept) return;
    this.#announced.set(table.oid, kept);
    this.#forwarder.announce(table);
  }

  /** false: interrupted. */
  async #forward({ table, request }: FollowedRow): Promise<boolean> {
    this.#announce(table);
    const headers = { ...request.headers, 'headgate-table': encodeURI(`${table.schema}.${table.table}`) };
    for (let failures = 0; !this.#io.signal.aborted; failures++) {
      const began = this.#io.elapsed();
      try {
        const answer = await this.#forwarder.send({ ...request, headers }, this.#options.forwardTo, table);
        this.#show(table, request.body.length, answer, this.#io.elapsed() - began);
        return true;
      } catch (error) {
        if (error instanceof SendError) throw error;
        if (error instanceof UnsignableError) {
          this.#io.note(`${plain(table.from)}: a request was not sent: ${plain(error.message)}\n`);
          return true;
        }
        if (this.#io.signal.aborted) return false;
        if (failures === 0) this.#io.note(`waiting for ${this.#options.forwardTo}: ${reasonOf(error)}\n`);
        await rest(
          this.#io,
          backoffMs(failures + 1, limits.listenPauseMs, limits.listenRetryMs, Math.random),
        );
      }
    }
    return false;
  }

  #show({ schema, table }: StoredTable, bytes: number, { status, body }: SentAnswer, tookMs: number): void {
    const ms = Math.round(tookMs);
    const at = new Date(this.#io.clock()).toISOString();
    const shown = body.slice(0, limits.listenShownCharsMax);
    if (this.#options.json === true)
      return this.#io.print(jsonLine({ at, schema, table, bytes, status, answer: shown, ms }));
    const line = `${at.slice(11, 23)}  ${status}  ${plain(`${schema}.${table}`)}  ${bytes} B  ${ms} ms`;
    this.#io.print(`${line}${shown === '' ? '' : `  ${plain(shown)}`}\n`);
  }

  async #save(text: string): Promise<void> {
    const { state } = this.#options;
    if (state === undefined) return;
    await writeFile(`${state}.next`, text);
    await rename(`${state}.next`, state);
  }
}

/** null: no state was saved yet. */
async function readState(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new PlainError(`--state: ${file} cannot be read`);
  }
}
