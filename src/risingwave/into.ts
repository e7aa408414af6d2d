/**
 * The commit stage of tables whose rows go into RisingWave (WITH (into = …)). Takes their groups, and returns outcomes to those that wait for them,
 * or the result for a whole group to the spool. Refuses with what commit.ts does, and with `engine_unavailable` for any problem there that is not a
 * row's fault: the sender does not learn of it, and the reason is observed. Uses sessions of the tables' servers, at most `intoServersMax` of them.
 */
import { KnownRelations } from '../relations/known-relations.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { relationName } from '../kit/sql-text.ts';
import type { Group, Outcome } from '../types/rows.ts';
import type { Target, Into } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused, refusal } from '../errors/refusals.ts';
import { RwCommit } from './commit.ts';
import type { Stored } from './commit.ts';
import { poolConfigOf } from './client.ts';
import { causeOf } from './row-at-fault.ts';
import { fillingOnly, RisingWaveLookup } from './relations.ts';
import type { RwConflict } from './relations.ts';
import { RwSessions } from './sessions.ts';

interface RemoteTarget {
  readonly found: Target;
  readonly target: Target | string;
}

interface RemoteServer {
  readonly into: Into;
  readonly relations: Pick<KnownRelations<unknown, RwConflict>, 'find' | 'forget'>;
}

export class IntoRisingWave {
  readonly #options: Pick<StageContext, 'observe' | 'clock'>;
  /** By key; the first is the least recently used. */
  readonly #servers = new Map<string, RemoteServer>();
  readonly #sessions = new RwSessions((key) => {
    const server = this.#servers.get(key);
    if (server === undefined) throw new Error('a connection to a server that is not known any more');
    return poolConfigOf(server.into);
  });
  /** The table as it was found there, and what was made of it for a table here. */
  readonly #made = rememberedOf<Target, { now: RemoteTarget | null }>(() => ({ now: null }));
  readonly #awaited: RwCommit;
  readonly #kept: RwCommit;

  constructor(options: Pick<StageContext, 'observe' | 'clock'>) {
    const observe: Observe = (it) =>
      options.observe(it.kind === 'group.committed' ? { ...it, elsewhere: true } : it);
    this.#options = { ...options, observe };
    this.#awaited = new RwCommit(this.#sessions, limits.intoDeadlineMs, this.#options);
    this.#kept = new RwCommit(this.#sessions, limits.intoHandOverMs, this.#options);
  }

  async commit(group: Group): Promise<readonly Outcome[]> {
    const { target, rows } = group;
    const there = await this.#find(target);
    if (typeof there === 'string') return this.#away(group, there);
    const outcomes = await this.#awaited.commit(movedTo(group, there), target);
    if (outcomes.some((it) => codeOf(it) === 'table_changed')) this.#forget(target);
    return outcomes.map((it) => {
      if (it.kind !== 'aborted' || it.refusal.code !== 'relation_not_writable') return it;
      return this.#away({ target, rows, members: [1] }, it.refusal.message)[0] ?? it;
    });
  }

  /** Stores all of a group, for the spool. Never rejects. */
  async store(group: Group): Promise<Stored> {
    const started = this.#options.clock();
    const { target: table, rows, bytes } = group;
    const there = await this.#find(table);
    if (typeof there === 'string') return { kind: 'away', refusal: refusal('engine_unavailable', there) };
    const stored = await this.#kept.store(movedTo(group, there));
    if (stored.kind === 'changed') this.#forget(table);
    const seconds = (this.#options.clock() - started) / 1_000;
    if (stored.kind === 'stored')
      this.#options.observe({ kind: 'group.committed', table, rows, bytes, seconds });
    return stored;
  }

  /** In-flight work is not waited for: the spool hands it over at the next start. */
  stop(): void {
    this.#sessions.stop();
  }

  async close(): Promise<void> {
    this.stop();
    await this.#sessions.close();
  }

  /** The table there, or why rows cannot go into it now. */
  async #find(target: Target): Promise<Target | string> {
    const { into, schema, table } = target;
    if (into === undefined) return 'its rows stay here';
    try {
      const found = await this.#serverOf(into).relations.find(relationName(target), null);
      const made = this.#made(target);
      if (made.now?.found === found) return made.now.target;
      const filling = fillingOnly(found, target);
      // The column may be added in the meantime.
      if (typeof filling === 'string') this.#forget(target);
      const why =
        typeof filling === 'string'
          ? `the table ${schema}.${table} there has no column "${filling}"`
          : filling;
      made.now = { found, target: why };
      return why;
    } catch (error) {
      if (error instanceof Refused && error.refusal.code === 'relation_not_found')
        return `there is no table ${schema}.${table} there`;
      return causeOf(error instanceof Error ? error.message : String(error));
    }
  }

  #forget(target: Target): void {
    if (target.into !== undefined) this.#servers.get(target.into.key)?.relations.forget(relationName(target));
    this.#made(target).now = null;
  }

  #serverOf(into: Into): RemoteServer {
    const known = this.#servers.get(into.key);
    this.#servers.delete(into.key);
    const server = known ?? { into, relations: this.#relationsOf(into) };
    this.#servers.set(into.key, server);
    const [oldest] = this.#servers.keys();
    if (oldest !== undefined && this.#servers.size > limits.intoServersMax) {
      this.#servers.delete(oldest);
      void this.#sessions.release(oldest);
    }
    return server;
  }

  #relationsOf({ key, database }: Into): RemoteServer['relations'] {
    const query = async (sql: string): Promise<readonly object[]> => {
      const answer = await this.#sessions.run(key, sql, limits.engineAnswerMs);
      if (answer.kind === 'done') return answer.result.rows;
      throw answer.error;
    };
    return new KnownRelations(new RisingWaveLookup(database, query), { limits, clock: this.#options.clock });
  }

  #away(
    group: { readonly target: Target; readonly rows: number; readonly members: readonly unknown[] },
    reason: string,
  ): readonly Outcome[] {
    const { target: table, rows, members } = group;
    this.#options.observe({ kind: 'group.aborted', table, rows, sqlstate: '08001', reason });
    return members.map(() => ({ kind: 'aborted', refusal: refusal('engine_unavailable') }));
  }
}

const codeOf = (it: Outcome): string => (it.kind === 'committed' ? '' : it.refusal.code);

function movedTo(group: Group, target: Target): Group {
  return { ...group, target, members: group.members.map((rows) => ({ ...rows, target })) };
}
