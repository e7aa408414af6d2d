/**
 * `headgate listen`: each new row of webhook tables is sent on to a program on the developer's machine as the request that it was made
 * of, one after the other, and its answer is shown. Gives the exit status; goes on until it is interrupted.
 *
 *   connecting ──reached──► looking ──rows──► sending ──answered──► looking
 *       ▲                      │                 └──nobody there──► sending the same one again, a little later
 *       └──── lost ◄───────────┘
 *
 * Nothing is skipped while either side is away: what was not answered is sent when both are back. A request whose answer was lost
 * is sent twice. With --state the place survives this program, too; without it a start begins with what comes from then on.
 */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { backoffMs } from '../../kit/backoff.ts';
import { PlainError } from '../../kit/plain-error.ts';
import type { Answer } from '../../senders/send-client.ts';
import { SendError } from '../../senders/send-options.ts';
import { limits } from '../../tables/limits.ts';
import { Forwarder, reasonOf } from './forward.ts';
import type { ForwardOptions } from './forward.ts';
import { plain } from '../../kit/terminal.ts';
import { interrupted } from './io.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { distanceFrom, parsePosition, writtenBetween } from '../../kit/position.ts';
import { connect, DatabaseFailure } from './session.ts';
import type { Session, Texts } from './session.ts';
import { requestOf, storedTables } from './stored.ts';
import type { StoredTable } from './stored.ts';
import { httpUrl, refuseRemote } from './where.ts';
import type { Where } from './where.ts';

export interface ListenOptions extends ForwardOptions {
  readonly forwardTo: string;
  readonly allowRemote?: boolean;
  readonly state?: string;
  readonly json?: boolean;
}

/** Everything below `from` was sent; of what lies between it and `until`, of each table all up to a row. */
interface Place {
  from: bigint;
  until: bigint;
  /** By oid: distance and place of the last row that was sent. */
  readonly sent: Map<string, readonly [string, string, string]>;
}

export async function listenCommand(
  where: Where,
  names: readonly string[],
  options: ListenOptions,
  io: CommandIo,
): Promise<number> {
  const to = httpUrl(options.forwardTo, '--forward-to');
  refuseRemote(to, '--forward-to', options.allowRemote === true);
  const forwarder = await Forwarder.open(options, io);
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
  #place: Place | null = null;
  #begun = false;

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
  }

  /** What is wrong from the beginning ends it; what breaks later is waited for. */
  async run(): Promise<void> {
    this.#place = await readState(this.#options.state);
    for (let failures = 0; !this.#io.signal.aborted;) {
      let session: Session | null = null;
      try {
        session = await connect(this.#where.dsn, 'listen');
        await this.#begin(session);
        failures = 0;
        await this.#follow(session);
      } catch (error) {
        if (this.#io.signal.aborted) return;
        if (!this.#begun || !(error instanceof DatabaseFailure && error.mayPass)) throw error;
        if (failures === 0) this.#io.note(`waiting for Headgate: ${error.message.split('\n', 1)[0] ?? ''}\n`);
        failures += 1;
        await this.#rest(backoffMs(failures, limits.listenPauseMs, limits.listenRetryMs, Math.random));
      } finally {
        await session?.close();
      }
    }
  }

  async #begin(session: Session): Promise<void> {
    const tables = await storedTables(session, this.#names);
    const now = await session.position();
    // Another server, or one that was made anew, counts from another number.
    if (this.#place !== null && this.#place.from > now) {
      this.#io.note('the database is another one, or was restored: listening from now on\n');
      this.#place = null;
    }
    const first = !this.#begun;
    this.#begun = true;
    this.#place ??= { from: now, until: now, sent: new Map() };
    await this.#save();
    if (!first) return this.#io.note('listening again\n');
    const what = this.#names.length === 0 ? 'all webhook tables' : tables.map(({ from }) => from).join(', ');
    this.#io.note(`listening to ${what}; forwarding to ${this.#options.forwardTo}\n`);
  }

  async #follow(session: Session): Promise<void> {
    const place = this.#place;
    if (place === null) return;
    while (!this.#io.signal.aborted) {
      const began = this.#io.elapsed();
      if (place.until === place.from) place.until = await session.position();
      let sent = 0;
      if (place.until > place.from) {
        for (const table of await storedTables(session, this.#names))
          sent += await this.#forwardAll(session, table, place);
        place.from = place.until;
        place.sent.clear();
        await this.#save();
      }
      // What a look at a large table costs the database is a tenth of its time at most.
      const tookMs = sent > 0 ? 0 : this.#io.elapsed() - began;
      await this.#rest(Math.max(limits.listenPauseMs, tookMs * limits.listenRestTimes));
    }
  }

  async #forwardAll(session: Session, table: StoredTable, place: Place): Promise<number> {
    const distance = distanceFrom(place.from);
    for (let count = 0; ; count += limits.commandRowsMax) {
      const last = place.sent.get(table.oid);
      const behind =
        last === undefined ? '' : ` AND (${distance}, t.tableoid, t.ctid) > ($1::bigint, $2::oid, $3::tid)`;
      const rows = await session.rows(
        `SELECT ${distance}::text AS distance, t.tableoid::text AS tableoid, t.ctid::text AS ctid, ${table.request}
FROM ${table.from} t WHERE ${writtenBetween(place.from, place.until)}${behind}
ORDER BY ${distance}, t.tableoid, t.ctid LIMIT ${limits.commandRowsMax}`,
        last ?? [],
      );
      for (const row of rows) {
        if (!(await this.#forward(table, row))) return count;
        place.sent.set(table.oid, [row['distance'] ?? '0', row['tableoid'] ?? '0', row['ctid'] ?? '(0,0)']);
        await this.#save();
      }
      if (rows.length < limits.commandRowsMax) return count + rows.length;
    }
  }

  /** false: interrupted. */
  async #forward(table: StoredTable, row: Texts): Promise<boolean> {
    const request = requestOf(row);
    const headers = { ...request.headers, 'headgate-table': encodeURI(`${table.schema}.${table.table}`) };
    for (let failures = 0; !this.#io.signal.aborted; failures++) {
      const began = this.#io.elapsed();
      try {
        const answer = await this.#forwarder.send(
          { ...request, headers },
          this.#options.forwardTo,
          table.contentType,
        );
        this.#show(table, request.body.length, answer, this.#io.elapsed() - began);
        return true;
      } catch (error) {
        if (error instanceof SendError) throw error;
        if (this.#io.signal.aborted) return false;
        if (failures === 0) this.#io.note(`waiting for ${this.#options.forwardTo}: ${reasonOf(error)}\n`);
        await this.#rest(backoffMs(failures + 1, limits.listenPauseMs, limits.listenRetryMs, Math.random));
      }
    }
    return false;
  }

  #show({ schema, table }: StoredTable, bytes: number, { status, body }: Answer, tookMs: number): void {
    const ms = Math.round(tookMs);
    const at = new Date(this.#io.clock()).toISOString();
    const shown = body.slice(0, limits.listenShownCharsMax);
    if (this.#options.json === true)
      return this.#io.print(`${JSON.stringify({ at, schema, table, bytes, status, answer: shown, ms })}\n`);
    const line = `${at.slice(11, 23)}  ${status}  ${plain(`${schema}.${table}`)}  ${bytes} B  ${ms} ms`;
    this.#io.print(`${line}${shown === '' ? '' : `  ${plain(shown)}`}\n`);
  }

  async #save(): Promise<void> {
    const { state } = this.#options;
    if (state === undefined || this.#place === null) return;
    const { from, until, sent } = this.#place;
    const text = JSON.stringify({ from: String(from), until: String(until), sent: [...sent] });
    await writeFile(`${state}.next`, text);
    await rename(`${state}.next`, state);
  }

  /** The only way this pause fails is the signal. */
  async #rest(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#io.signal }).catch(() => undefined);
  }
}

/** null: there is none yet. */
async function readState(file: string | undefined): Promise<Place | null> {
  if (file === undefined) return null;
  try {
    const { from, until, sent } = JSON.parse(await readFile(file, 'utf8')) as {
      from: string;
      until: string;
      sent: [string, readonly [string, string, string]][];
    };
    const [first, second] = [parsePosition(from), parsePosition(until)];
    if (first === null || second === null) throw new PlainError('');
    return { from: first, until: second, sent: new Map(sent) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new PlainError(`--state: ${file} is no place that listen has written`);
  }
}
