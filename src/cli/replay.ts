/**
 * `headgate replay`: sends stored requests of a table again, in their physical order, to another table or to a program on this machine, no
 * faster than --rate. Returns the exit status: 0 if every answer was 2xx. Does not change the table.
 */
import { PlainError } from '../kit/plain-error.ts';
import { Progress } from '../senders/send-tally.ts';
import { numberOf, SendError } from '../senders/send-options.ts';
import { limits } from '../config/limits.ts';
import { UnsignableError } from '../senders/sign-again.ts';
import { Forwarder, reasonOf } from './forward.ts';
import type { ForwardOptions } from './forward.ts';
import { interrupted } from './print.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { spanOf } from '../kit/duration.ts';
import { readRelation } from './read-relation.ts';
import type { TrustOptions } from './read-relation.ts';
import { databaseError, rest, within } from './session.ts';
import type { CommandSession, Texts } from './session.ts';
import { requestOf, storedTables } from './stored-requests.ts';
import type { StoredTable } from './stored-requests.ts';
import { httpUrl, refuseRemote, webhookUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

export interface ReplayOptions extends ForwardOptions, TrustOptions {
  readonly to: string;
  readonly since?: string;
  readonly where?: string;
  readonly rate?: string;
  readonly allowRemote?: boolean;
  readonly keepGoing?: boolean;
  readonly json?: boolean;
}

export async function replayCommand(
  where: Where,
  name: string,
  options: ReplayOptions,
  io: CommandIo,
): Promise<number> {
  const rate = numberOf(
    (options.rate ?? String(limits.replayRate)).replace(/\/s$/, ''),
    '--rate',
    limits.replayRateMax,
  );
  const span = options.since === undefined ? null : spanOf(options.since);
  const forwarder = await Forwarder.open(options, true, io);
  try {
    return await within(where.dsn, 'replay', async (session) => {
      const [table] = await storedTables(session, [name]);
      if (table === undefined) throw new PlainError(`you own no webhook table ${name}`);
      forwarder.refuseOthers([table]);
      const to = await targetOf(session, where, options, table.database);
      const relation = await readRelation(session, name, options, io);
      const from = `${relation.from} WHERE ${conditionOf(table, span, options.where)}`;
      // One snapshot of the table, so that rows stored meanwhile, by the replay itself too, are not replayed again.
      await session.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY');
      const [counted] = await session.rows(`SELECT count(*)::text AS n FROM ${from}`);
      const count = Number(counted?.['n'] ?? 0);
      forwarder.announce(table);
      const replay = new Replay(forwarder, to, table, count, rate, options.keepGoing === true, io);
      if (count > 0) {
        await session.rows(
          `DECLARE replay NO SCROLL CURSOR FOR SELECT ${table.request} FROM ${from} ORDER BY t.tableoid, t.ctid`,
        );
        await replay.run(async () => session.rows(`FETCH ${limits.commandRowsMax} FROM replay`));
      }
      return replay.end(options.json === true);
    });
  } finally {
    forwarder.close();
  }
}

function conditionOf(
  { arrival, table }: StoredTable,
  seconds: number | null,
  condition: string | undefined,
): string {
  if (seconds !== null && arrival === null)
    throw new PlainError(
      `--since: ${table} does not keep the time of arrival (INCLUDE TIMESTAMP AS column): choose rows with --where`,
    );
  const parts = [
    ...(seconds === null ? [] : [`${arrival ?? ''} >= now() - interval '${seconds} seconds'`]),
    // On its own line, so that a trailing SQL comment ends with it.
    ...(condition === undefined ? [] : [`(${condition}\n)`]),
  ];
  return parts.length === 0 ? 'true' : parts.join(' AND ');
}

async function targetOf(
  session: CommandSession,
  where: Where,
  { to, allowRemote }: ReplayOptions,
  database: string,
): Promise<string> {
  if (/^https?:/i.test(to)) {
    const url = httpUrl(to, '--to');
    refuseRemote(url, '--to', allowRemote === true);
    return to;
  }
  const [target] = await storedTables(session, [to]);
  if (target === undefined) throw new PlainError(`you own no webhook table ${to}`);
  return webhookUrl(where, database, target.schema, target.table);
}

class Replay {
  readonly #forwarder: Forwarder;
  readonly #to: string;
  readonly #table: StoredTable;
  readonly #count: number;
  readonly #everyMs: number;
  readonly #keepGoing: boolean;
  readonly #io: CommandIo;
  readonly #answers = new Map<string, number>();
  #done = 0;
  #answered = 0;
  /** Consecutive requests without an answer, and those without a 2xx. */
  #silent = 0;
  #refused = 0;

  constructor(
    forwarder: Forwarder,
    to: string,
    table: StoredTable,
    count: number,
    rate: number,
    keepGoing: boolean,
    io: CommandIo,
  ) {
    this.#forwarder = forwarder;
    this.#to = to;
    this.#table = table;
    this.#count = count;
    this.#everyMs = 1000 / rate;
    this.#keepGoing = keepGoing;
    this.#io = io;
  }

  async run(next: () => Promise<Texts[]>): Promise<void> {
    const { elapsed, signal } = this.#io;
    const progress = new Progress(this.#count, this.#io);
    const startedAt = elapsed();
    try {
      for (let rows = await next(); rows.length > 0; rows = await next()) {
        for (const row of rows) {
          const waitMs = startedAt + this.#done * this.#everyMs - elapsed();
          if (waitMs > 0) await rest(this.#io, waitMs);
          if (signal.aborted) return;
          await this.#send(row);
          progress.show(this.#done);
        }
      }
    } catch (error) {
      throw error instanceof PlainError ? error : databaseError(error);
    } finally {
      progress.end();
    }
  }

  async #send(row: Texts): Promise<void> {
    let answer: string;
    try {
      answer = String((await this.#forwarder.send(requestOf(row), this.#to, this.#table)).status);
      this.#silent = 0;
      this.#answered += 1;
      this.#refused = answer.startsWith('2') ? 0 : this.#refused + 1;
    } catch (error) {
      if (error instanceof SendError) throw error;
      if (this.#io.signal.aborted) return;
      const isUnsignable = error instanceof UnsignableError;
      answer = isUnsignable ? `not sent: ${plain(error.message)}` : `no answer: ${reasonOf(error)}`;
      if (!isUnsignable) this.#silent += 1;
    }
    this.#done += 1;
    this.#answers.set(answer, (this.#answers.get(answer) ?? 0) + 1);
    if (this.#silent === limits.replayFailuresMax)
      throw new PlainError(
        `${new URL(this.#to).host} does not answer: ${answer.replace('no answer: ', '')} (${this.#answered} were answered)`,
      );
    if (this.#refused === limits.replayFailuresMax && !this.#keepGoing)
      throw new PlainError(
        `${this.#refused} requests in a row were refused, the last with ${answer} (${this.#answered} of ${this.#count} were sent)${answer === '401' ? ': --sender signs them' : ''}; --keep-going sends the rest nevertheless`,
      );
  }

  end(json: boolean): number {
    const { print, signal } = this.#io;
    const answers = Object.fromEntries(this.#answers);
    if (json) print(jsonLine({ requests: this.#count, sent: this.#answered, answers }));
    else {
      print(`${this.#answered} of ${this.#count} sent\n`);
      for (const [answer, times] of this.#answers) print(`  ${answer}: ${times}\n`);
    }
    if (signal.aborted) return interrupted;
    return [...this.#answers.keys()].every((answer) => /^2\d\d$/.test(answer)) ? 0 : 1;
  }
}
