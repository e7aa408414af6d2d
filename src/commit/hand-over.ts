/**
 * The commit stage for requests from Headgate's own disk: stores all rows of a group, and the position up to which
 * they have arrived, in one transaction, or nothing. Takes a group and a passage; returns what became of it, and never
 * rejects. Members are not tried separately here: the caller knows the order that has to be kept.
 *
 * The position is taken first: its row is locked until the transaction ends. If another transaction hands over the same requests,
 * even one whose answer was lost, the second waits for the first, and then fails. `readArrived` reads it, and rejects with the engine's error.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { PoolClient } from 'pg';
import type { Group, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { storesDocuments, forRows } from './write-mode.ts';
import { ackTimeoutOf, noConnection } from './group-session.ts';
import { CommitSession } from './session.ts';
import type { CommitContext } from './session.ts';
import type { CommitPools } from './commit-pools.ts';
import { lent, runDurably } from './durable.ts';
import { requestSql, requestStep } from './headgate-request.ts';
import { tellIgnored } from './observed-groups.ts';
import type { IntoRisingWave } from '../risingwave/into.ts';
import { limits as allLimits } from '../config/limits.ts';
import { DocumentGroup } from './document-group.ts';
import { DecodedGroup } from './decoded-group.ts';
import { textOf, executeMessages } from './wire-message.ts';
import { toStatement } from './prepared-statements.ts';
import { blameOf } from './interpret-reply.ts';
import { storeAgain } from './row-at-fault.ts';
import { TableStatements } from './table-statements.ts';
import type { StatementStep } from './statement-step.ts';

/** Requests of one table that arrive together. */
export interface HandOverBatch {
  /** 32 hexadecimal digits. */
  readonly spool: string;
  readonly first: bigint;
  readonly last: bigint;
}

export interface HandOverPosition {
  /** headgate.home(): which database has answered. */
  readonly home: string;
  /** The last request that has arrived, by the table's oid. */
  readonly positions: ReadonlyMap<number, bigint>;
  /** The tables that were moved here, by headgate.home() of where they were and their oid there. */
  readonly moved: ReadonlyMap<string, ReadonlyMap<number, number>>;
}

export type HandedOver =
  | { readonly kind: 'committed' }
  /** Nobody knows: the position will tell. */
  | { readonly kind: 'unknown' }
  /** The position is not the one that was assumed, or code of the table says so. */
  | { readonly kind: 'moved' }
  /** The table is not what the rows were made for: they have to be made again. */
  | { readonly kind: 'changed' }
  /** It timed out, or ended the connection, while its rows were being stored; storing none does not. */
  | { readonly kind: 'slow'; readonly refusal: Refusal }
  /** No row is at fault, and it may pass. */
  | { readonly kind: 'away'; readonly refusal: Refusal }
  /** A row of it is refused; with the reason if the request was alone. */
  | { readonly kind: 'refused'; readonly refusal: Refusal };

const movedState = 'HG002';
const typeOids = { uuid: 2950, oid: 26, int8: 20 } as const;
const advance = toStatement('select headgate.advance($1, $2, $3, $4)', [
  typeOids.uuid,
  typeOids.oid,
  typeOids.int8,
  typeOids.int8,
]);

export class SpoolCommit {
  readonly #context: CommitContext;
  /** Where rows of tables with `into` go; null: there are none. */
  readonly #elsewhere: Pick<IntoRisingWave, 'store'> | null;

  constructor(context: CommitContext, elsewhere: Pick<IntoRisingWave, 'store'> | null = null) {
    this.#context = context;
    this.#elsewhere = elsewhere;
  }

  handOver(group: Group, passage: HandOverBatch): Promise<HandedOver> {
    if (group.target.into !== undefined && this.#elsewhere !== null)
      return this.#away(group, passage, this.#elsewhere);
    return this.#here(group, passage);
  }

  /** The position is written after the rows, which may be there twice. */
  async #away(
    group: Group,
    passage: HandOverBatch,
    elsewhere: Pick<IntoRisingWave, 'store'>,
  ): Promise<HandedOver> {
    const { target, members } = group;
    const stored = await elsewhere.store(group);
    if (stored.kind !== 'stored') return stored;
    try {
      await passWith(this.#context.pools, target, passage, null, allLimits.catalogWaitMs);
    } catch {
      // The position is read again; if it is still the old one, the rows are stored again.
      return away;
    }
    const committed = members.map(({ count }) => ({ kind: 'committed', rows: count }) as const);
    tellIgnored(this.#context.observe, group, committed);
    return { kind: 'committed' };
  }

  async #here(group: Group, passage: HandOverBatch): Promise<HandedOver> {
    const { pools, observe, clock } = this.#context;
    const target = waiting(forRows(group));
    let client: PoolClient;
    try {
      client = await pools.connectFor(target);
    } catch (error) {
      return { kind: 'away', refusal: noConnection(error) };
    }
    let usable = false;
    try {
      // As long as a group that waits for its answer would get.
      const open = () => new CommitSession(this.#context, target, client, clock(), ackTimeoutOf(group));
      let session = open();
      const started = clock();
      const passing = triedGroup(session, target, passage, this.#context);
      let end = await pass(passing, group.members);
      if (end.kind === 'away' && end.refusal.code === 'deadline' && session.usable) {
        session = open();
        const others = triedGroup(session, target, passage, this.#context);
        if ((await others.stands()) === null) end = { kind: 'slow', refusal: end.refusal };
      }
      usable = end.kind !== 'changed' && session.usable;
      const { rows, bytes } = group;
      if (end.kind === 'committed') {
        const seconds = (clock() - started) / 1_000;
        observe({ kind: 'group.committed', table: group.target, rows, bytes, seconds });
        if (passing instanceof DecodedGroup) passing.tell();
      }
      return end;
    } finally {
      client.release(!usable);
    }
  }
}

/** The commit waits for the disk, whatever the table has chosen: requests that have arrived are deleted from Headgate's disk. */
const waiting = rememberedOf((target: Target): Target =>
  target.waitsForDisk ? target : { ...target, waitsForDisk: true },
);

/** Behind a statement that marks the requests as arrived, in the same transaction: documents by COPY, in one query with it. */
function triedGroup(
  session: CommitSession,
  target: Target,
  passage: HandOverBatch,
  context: CommitContext,
): DocumentGroup | DecodedGroup {
  if (!storesDocuments(target))
    return new DecodedGroup(session, new PassingStatements(target, passage), context);
  const { spool, first, last } = passage;
  const advance =
    target.code.as === 'owner'
      ? requestSql('advance', { spool, relation: target.oid, first: String(first), last: String(last) })
      : `select headgate.advance('${spool}'::pg_catalog.uuid, ${target.oid}, ${first}, ${last})`;
  // Never prepared: always the COPY, one query with `advance`, which PostgreSQL commits at its end.
  return new DocumentGroup(session, target, context.limits, advance);
}

async function pass(group: DocumentGroup | DecodedGroup, given: readonly Rows[]): Promise<HandedOver> {
  let members = given;
  for (const member of given) {
    const refused = group.refuse(member);
    if (refused !== null) return asEnd(refused);
  }
  for (let tries = 1; ; tries++) {
    // The position passes all of them, so all of them are stored or copies.
    const first = await group.store(members, true);
    if (first.kind === 'committed') return { kind: 'committed' };
    // Nothing was stored: once more if what the engine said leaves a chance.
    const attempt = await storeAgain(group, members, true, first);
    if (attempt.kind === 'committed') return { kind: 'committed' };
    if (attempt.kind === 'lost') return { kind: 'unknown' };
    // The first statement of a COPY says so; between others the table's own code may.
    const isFirst = attempt.completed === 0 || group instanceof DecodedGroup;
    if (attempt.sqlstate === movedState && isFirst) return { kind: 'moved' };
    const judged = blameOf(attempt);
    if (judged.blame === 'group') return asEnd(judged.outcome);
    if (judged.blame !== 'row' && judged.blame !== 'suspect') return away;
    const sifted = await group.sift(members, attempt);
    const refused = sifted.find((it): it is Outcome => 'kind' in it);
    if (refused !== undefined) return asEnd(refused);
    const next = sifted.filter((it): it is Rows => !('kind' in it));
    // With NULL for what does not fit; or once more, if it may have been no row's fault.
    const isOther = next.some((it, i) => it !== members[i]);
    if (tries === 1 && (isOther || judged.blame === 'suspect')) {
      members = next;
      continue;
    }
    const [only] = members;
    if (members.length > 1 || only === undefined) return { kind: 'refused', refusal: refusal('row_refused') };
    const instead = await group.stands();
    return asEnd(instead ?? (await group.explain(only, attempt)));
  }
}

const away: HandedOver = { kind: 'away', refusal: refusal('engine_unavailable') };
const sendersFault: ReadonlySet<string> = new Set([
  'row_refused',
  'payload_undecodable',
  'body_not_json',
  'delivery_differs',
  'version_missing',
]);

function asEnd(outcome: Outcome): HandedOver {
  if (outcome.kind === 'committed') return { kind: 'committed' };
  if (outcome.kind === 'unknown') return { kind: 'unknown' };
  const { refusal: why } = outcome;
  if (why.code === 'table_changed') return { kind: 'changed' };
  return { kind: sendersFault.has(why.code) ? 'refused' : 'away', refusal: why };
}

/** The statements of a table, after one that marks the requests as arrived. */
class PassingStatements extends TableStatements {
  readonly #advance: StatementStep;

  constructor(target: Target, { spool, first, last }: HandOverBatch) {
    super(target);
    const parameters = [spool, String(target.oid), String(first), String(last)];
    const given = { spool, relation: target.oid, first: String(first), last: String(last) };
    this.#advance =
      target.code.as === 'owner'
        ? requestStep('advance', given)
        : {
            statement: advance,
            messages: (name = advance.name) => executeMessages(name, parameters.map(textOf)),
          };
  }

  override before(steps: readonly StatementStep[]): readonly StatementStep[] {
    return [this.#advance, ...super.before(steps)];
  }
}

/** For one spool. Rejects when the engine cannot be asked. */
export async function readArrived(
  pools: CommitPools,
  database: string,
  spool: string,
  timeoutMs: number,
): Promise<HandOverPosition> {
  return lent(pools, database, async (client) => {
    const text = `select headgate.home() as home, p.relation::pg_catalog.text as relation, p.position::pg_catalog.text as position,
        (select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(m.home, m.oid::pg_catalog.int8, m.relation::pg_catalog.oid::pg_catalog.int8))
          from headgate.moved_table m) as moved
      from (values (1)) as one left join headgate.spool_position p on p.spool operator(pg_catalog.=) $1::pg_catalog.uuid`;
    const query = { text, values: [spool], query_timeout: timeoutMs };
    const { rows } = await client.query<ArrivedRow>(query);
    const positions = new Map<number, bigint>();
    for (const { relation, position } of rows)
      if (relation !== null && position !== null) positions.set(Number(relation), BigInt(position));
    return { home: rows[0]?.home ?? '', positions, moved: byHome(rows[0]?.moved ?? []) };
  });
}

function byHome(moved: readonly (readonly [string, number, number])[]) {
  const homes = new Map<string, Map<number, number>>();
  for (const [home, there, here] of moved)
    homes.set(home, (homes.get(home) ?? new Map<number, number>()).set(there, here));
  return homes;
}

interface ArrivedRow {
  readonly home: string;
  readonly relation: string | null;
  readonly position: string | null;
  readonly moved: readonly (readonly [string, number, number])[] | null;
}

/** Marks requests as arrived, together with another statement. Rejects with the engine's error. */
export async function passWith(
  pools: CommitPools,
  { database, oid }: Pick<Target, 'database' | 'oid'>,
  { spool, first, last }: HandOverBatch,
  statement: { readonly text: string; readonly values: unknown[] } | null,
  timeoutMs: number,
): Promise<void> {
  const advance = {
    text: 'select headgate.advance($1::pg_catalog.uuid, $2::pg_catalog.oid, $3::pg_catalog.int8, $4::pg_catalog.int8)',
    values: [spool, oid, String(first), String(last)],
  };
  const statements = statement === null ? [advance] : [advance, statement];
  await runDurably(pools, database, statements, timeoutMs);
}
