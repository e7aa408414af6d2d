/**
 * `headgate deliver`: sends each row of a table to a receiver (deliver/deliveries.ts). Runs until it is interrupted, or the receiver answers 410;
 * returns the exit status.
 */
import { limits } from '../config/limits.ts';
import { Delivering } from '../deliver/deliveries.ts';
import type { Attempt } from '../deliver/deliveries.ts';
import { attemptsMax, concurrencyMax, planOf, refuseUnreachable } from '../deliver/plan.ts';
import type { DeliverSettings } from '../deliver/plan.ts';
import { abortWith } from '../kit/abort-signal.ts';
import { spanText } from '../kit/duration.ts';
import { stillNames } from '../kit/sql-text.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { numberOf } from '../senders/send-options.ts';
import type { Where } from './find-headgate.ts';
import { interrupted } from './print.ts';
import { readRelation } from './read-relation.ts';
import type { TrustOptions } from './read-relation.ts';
import { staying } from './session.ts';

export interface DeliverOptions extends TrustOptions {
  readonly to: string;
  readonly secretFile: string;
  readonly column?: string;
  readonly idColumn?: string;
  readonly key?: string;
  readonly concurrency?: string;
  readonly attempts?: string;
  readonly json?: boolean;
}

export async function deliverCommand(
  where: Where,
  table: string,
  options: DeliverOptions,
  settings: DeliverSettings,
  io: CommandIo,
): Promise<number> {
  const {
    concurrency = String(limits.deliverConcurrency),
    attempts = String(limits.leaseAttempts),
    ...others
  } = options;
  const numbers = {
    concurrency: numberOf(concurrency, '--concurrency', concurrencyMax),
    attempts: numberOf(attempts, '--attempts', attemptsMax),
  };
  const secret = (await io.read(options.secretFile)).toString('utf8');
  const plan = planOf(table, { ...others, ...numbers }, secret, settings);
  await refuseUnreachable(plan);
  // Ends `staying` once the receiver wants no more.
  const ended = new AbortController();
  const signal = abortWith(io.signal, ended.signal);
  let delivering: Delivering | undefined;
  await staying(where.dsn, 'deliver', { ...io, signal }, async (session, begin) => {
    // Whoever may write into it, too: its triggers are its owner's.
    const relation = await readRelation(session, table, options, io);
    delivering ??= new Delivering(plan, { told: (attempt) => say(attempt, options, io) }, relation.name);
    await delivering.work(
      (text, values) => session.typed(text, values),
      signal,
      () =>
        io.note(
          begin() ? `delivering ${plain(table)} to ${plan.to.href}; Ctrl-C ends\n` : 'delivering again\n',
        ),
      stillNames(relation.name, relation.oid),
    );
    if (!delivering.gone) return;
    io.note(`${plan.to.host} answered 410: it wants no more\n`);
    ended.abort();
  });
  return delivering?.gone === true ? 1 : interrupted;
}

function say({ id, attempt, outcome, why, againS }: Attempt, { json }: DeliverOptions, io: CommandIo): void {
  const seconds = againS === null ? null : Math.round(againS);
  if (json === true) return io.print(jsonLine({ id, attempt, outcome, why, again_seconds: seconds }));
  const said = why === null ? outcome : `${outcome}: ${plain(why)}`;
  io.note(
    `row ${plain(id)}, attempt ${attempt}: ${said}${seconds === null ? '' : `; again in ${spanText(seconds)}`}\n`,
  );
}
