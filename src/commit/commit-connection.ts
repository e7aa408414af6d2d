/**
 * What is known of one connection that commits, from its opening to its end: what its session was before any code ran in it, the pool that it is
 * lent from, and the statements that it has prepared. Takes a connection; returns its state, the same each time.
 */
import type { ClientBase, Pool, PoolClient } from 'pg';
import { limits } from '../config/limits.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { PreparedStatements } from './prepared-statements.ts';

/** What a session was before any code ran in it. */
export interface SessionFacts {
  /** Headgate's role. */
  readonly role: string;
  /** The search_path that the server gives this role: the code of tables sees it, as it does for any other client. */
  readonly path: string;
  /** The lowest synchronous_commit that makes a row durable on this server. */
  readonly commit: string;
  /** The server's log can be followed: each row of a COPY is then written separately (document-copy.ts). */
  readonly apart: boolean;
}

/** What removes what code has left in a session. */
export interface Reset {
  readonly sql: string;
  /** How many statements it holds. */
  readonly count: number;
}

/** As whom a pool connects, and for what. */
export type CommitRole = 'own' | 'writer' | 'code';

export interface CommitPool {
  readonly database: string;
  readonly kind: CommitRole;
  readonly pool: Pool;
  readonly shared: boolean;
  /** When the engine last had no connection left for it. */
  limitedAtMs: number | null;
  /** Whether it was logged. */
  said: boolean;
  /** Given back in this turn of the event loop. */
  readonly warm: PoolClient[];
  /** Nothing of it is kept any more. */
  isOver: boolean;
  /** Connections that keep a statement for each of very many tables. */
  readonly learned: Set<ClientBase>;
  /** Asked once per database; null: not yet. */
  isPgpool: Promise<boolean> | null;
}

export class CommitConnection {
  /** The statements that exist on it. */
  readonly prepared = new PreparedStatements();
  /** Those of shared transactions (multi-table-statement.ts), apart: for the few connections that keep one for each of thousands of tables. */
  readonly preparedForMany = new PreparedStatements(limits.sharedStatementsMax);
  /** The incarnation of the server that it belongs to; null: not known. */
  incarnation: string | null = null;
  /** The table whose code has run in its session last. */
  codeOf: number | null = null;
  /** The session is lent again: this has to be sent first. */
  reset: Reset | null = null;
  /** The pool that it is lent from; null: none of CommitPools, as sessions of owners. */
  pool: CommitPool | null = null;
  #facts: SessionFacts | null = null;

  /** Throws if the connection is none of CommitPools. */
  get facts(): SessionFacts {
    if (this.#facts === null) throw new Error('a connection that no pool has prepared');
    return this.#facts;
  }

  set facts(facts: SessionFacts) {
    this.#facts = facts;
  }

  /** Returned once for each time the session is lent. */
  takeReset(): Reset | null {
    const { reset } = this;
    this.reset = null;
    return reset;
  }
}

export const connectionOf = rememberedOf<ClientBase, CommitConnection>(() => new CommitConnection());
