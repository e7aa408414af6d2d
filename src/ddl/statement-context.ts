/**
 * What Headgate's statements work with besides their text: the parsers of expressions, what is known of senders, seals, the catalog. Takes settings and
 * open rooms; fails with SqlFailure, as the client would read it from PostgreSQL.
 */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { candidateOf } from '../catalog/altered-check.ts';
import type { Candidate, CandidateQuestion } from '../catalog/altered-check.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { guardsOf, ownedBy } from '../catalog/role-queries.ts';
import type { CatalogTableQuery, GuardedTable } from '../catalog/role-queries.ts';
import type { Settings } from '../config/settings.ts';
import type { DatabaseRights } from '../engine/database-rights.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { Refused, refusals, SqlFailure } from '../errors/refusals.ts';
import { explainRequest } from '../ingest/explain.ts';
import { limits } from '../config/limits.ts';
import { SealError } from '../secrets/sealing.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { demandsOf } from '../senders/senders.ts';
import type { SenderDemands } from '../senders/senders.ts';
import { shownSpool } from '../spool/spool-state.ts';
import type { Spools } from '../spool/spools.ts';
import type { AnswerText } from '../types/answers.ts';
import type { ExplainedTable, ExplainQuestion, SqlSession } from '../types/sql.ts';
import { parseAnswer } from '../validate/answer.ts';
import type { ParsedAnswer } from '../validate/answer.ts';
import type { GuardText } from '../validate/answer-safety.ts';
import { ExpressionError, parseExpression } from '../validate/expression.ts';
import type { Expression } from '../validate/expression.ts';
import { StatementError } from './cursor.ts';
import type { ReleasedDatabase } from './plan.ts';
import type { EndpointState, Endpoints } from './endpoints.ts';

/** What statements need to know of an expression. */
export type ParsedCheck = Pick<
  Expression,
  | 'text'
  | 'payloadName'
  | 'headersRead'
  | 'readsAllHeaders'
  | 'secretLiterals'
  | 'readsBodyAlone'
  | 'warnings'
  | 'notices'
>;

/** And of one of an ANSWER. */
export type AnswerFacts = Pick<
  ParsedAnswer,
  'payloadName' | 'secretsRead' | 'secretsShown' | 'secretLiterals'
>;

type AskingRole = Pick<SqlSession, 'database' | 'user'>;

/** The rooms behind the statements. */
interface Behind {
  readonly settings: Pick<Settings, 'publicUrl' | 'intoHosts'>;
  readonly databases: Catalog;
  readonly sealing: Sealing;
  readonly endpoints: Endpoints;
  /** null: no requests are kept here. */
  readonly spool: Spools | null;
  readonly rights: Pick<DatabaseRights, 'may'>;
  /** Tells listener processes (app/listeners/) that the catalog of a database exists; if there are none, it does nothing. */
  readonly onEnsured: (database: string) => Promise<unknown>;
  /** Closes every connection of Headgate's to this database: `releaseDatabase` of app/wire-listener.ts, and the gateway's. */
  readonly release: (database: string) => Promise<void>;
}

export class StatementContext {
  readonly parseExpression = (text: string, scope: { secrets: readonly string[] }): ParsedCheck => {
    const parsed = parseExpression(text, scope);
    const problem = this.#behind.databases.compiler.keySets.problem(parsed.keyUrls);
    if (problem !== null) throw new ExpressionError('0A000', problem, null);
    return parsed;
  };
  /** Parses one ANSWER and judges it against the VALIDATE of its table; throws an error with `sqlstate`, `part` and `position`. */
  readonly parseAnswer: (
    text: AnswerText,
    scope: { secrets: readonly string[]; guard: GuardText | null },
  ) => AnswerFacts = parseAnswer;
  readonly #behind: Behind;

  constructor(behind: Behind) {
    this.#behind = behind;
  }

  /** What a known sender requires in addition to its expression. */
  readonly demandsOf = (sender: string): SenderDemands => demandsOf(sender, this.#behind.settings.publicUrl);

  /** Whether there is a host that rows of tables may go to (WITH (into = …)). */
  get sendsElsewhere(): boolean {
    return this.#behind.settings.intoHosts.length > 0;
  }

  get hasKey(): boolean {
    return this.#behind.sealing.hasKey();
  }

  /** The first key is made when the catalog is first read. Waits for that, for a bounded time. Never rejects. */
  firstLook(): Promise<void> {
    return this.#behind.databases.opened(limits.catalogMadeMs);
  }

  /** Seals a text under the master key, bound to `identity`. Returns base64. */
  readonly seal = (plaintext: string, identity: string): string => {
    try {
      return this.#behind.sealing.seal(plaintext, identity);
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      throw new StatementError('55000', error.message, null);
    }
  };

  newId(): string {
    return randomUUID();
  }

  /** A clock in ms, for the rests in a search through a long text. */
  now(): number {
    return performance.now();
  }

  /** The tables of that name that the user may own, as they are committed. */
  guards(question: CatalogTableQuery): Promise<readonly GuardedTable[]> {
    return guardsOf(this.#behind.databases, question).catch(failStatement);
  }

  explain(question: ExplainQuestion): Promise<readonly ExplainedTable[]> {
    const { databases, settings } = this.#behind;
    return explainRequest(databases, settings.publicUrl, question).catch(failStatement);
  }

  /** What would guard a table, for EXPLAIN ALTER TABLE. Throws SqlFailure. */
  candidate(question: CandidateQuestion): Promise<Candidate> {
    return candidateOf(this.#behind.databases, question).catch(failStatement);
  }

  /** HEADGATE_PUBLIC_URL */
  get publicUrl(): string | null {
    return this.#behind.settings.publicUrl;
  }

  /** Creates the catalog in this database unless it exists, before one of Headgate's statements is sent. Throws SqlFailure. */
  async ensureCatalog(database: string): Promise<void> {
    await this.#behind.databases.ensure(database).catch(failStatement);
    await this.#behind.onEnsured(database);
  }

  /** Closes every connection of Headgate's to this database, if the session's role may do what needs that, and nobody else's connection is in the way. */
  async releaseDatabase(
    { user, database: current }: AskingRole,
    { database, mayStay }: ReleasedDatabase,
  ): Promise<void> {
    const ownStays = mayStay === 'own' && current === database;
    const sessions = mayStay === 'all' ? null : Number(ownStays);
    if (await this.#behind.rights.may(user, database, sessions)) await this.#behind.release(database);
  }

  /** What is stored on disk of requests to the tables of the asking role, by oid: the session can read what it is sent. */
  async spool(session: AskingRole): Promise<Readonly<Record<string, object>>> {
    const owned = await ownedBy(this.#behind.databases, session, 'owned').catch(failStatement);
    const kept = Object.entries(shownSpool(this.#behind.spool, session.database));
    return Object.fromEntries(kept.filter(([key]) => owned.has(0) || owned.has(parseInt(key, 10))));
  }

  /** The URL for webhooks, and whose check guards each table of the asking role, by oid. */
  endpoints(session: AskingRole): Promise<object> {
    return this.#behind.endpoints.of(session).catch(failStatement);
  }

  /** What has changed since of the senders whose checks these tables have, by oid; nothing, if it cannot be found out. Never rejects. */
  async former(session: AskingRole): Promise<object> {
    const { tables } = await this.#behind.endpoints.of(session).catch(() => ({ tables: {} }));
    const states: readonly (readonly [string, EndpointState])[] = Object.entries(tables);
    return Object.fromEntries(
      states.flatMap(([oid, { former }]) => (former === undefined ? [] : [[oid, former]])),
    );
  }
}

/** Of a StatementContext, which a test may replace. */
export type DdlContext = Pick<StatementContext, keyof StatementContext>;

/** Why a statement cannot be sent, as its client would read it from PostgreSQL. */
function failStatement(error: unknown): never {
  if (error instanceof SqlFailure) throw error;
  if (error instanceof Refused) {
    const { code, message } = error.refusal;
    throw new SqlFailure({ sqlstate: refusals[code].sqlstate, message });
  }
  const sqlstate = sqlstateOf(error) ?? '08006';
  throw new SqlFailure({ sqlstate, message: error instanceof Error ? error.message : String(error) });
}
