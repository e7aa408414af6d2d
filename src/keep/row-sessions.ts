/**
 * Sessions in which rows are looked for and removed: of Headgate's role, or of the owner of a table. Takes how to log in; a session that does not
 * answer in time is cut off, and what is left of it at the server is ended.
 */
import { Client } from 'pg';
import type { QueryResult, QueryResultRow } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { boundAnswers, cutOff, hangUp } from '../engine/close-client.ts';
import { OrphanedBackends } from '../engine/orphaned-backends.ts';
import type { OwnerLogin } from '../engine/owner-logins.ts';
import type { Limits } from '../config/limits.ts';
import * as sql from './statements.ts';

type TalkLimits = Pick<Limits, 'keepStatementMs' | 'keepAnswerMs'>;

export async function connected<T>(
  database: string,
  { config, ending }: Pick<OwnerLogin, 'config' | 'ending'>,
  options: { readonly limits: TalkLimits; readonly name?: string },
  signal: AbortSignal,
  work: (talk: RowSession) => Promise<T>,
): Promise<T> {
  const client = new Client({ ...config, application_name: options.name ?? 'headgate keep' });
  // An error of the connection is reported by the query that was waiting.
  client.on('error', () => {});
  const cut = (): void => cutOff(client);
  try {
    await client.connect();
    boundAnswers(client);
    signal.addEventListener('abort', cut, { once: true });
    return await work(new RowSession(client, options));
  } finally {
    signal.removeEventListener('abort', cut);
    // What it still holds would keep the next connection from its turn.
    const left = new OrphanedBackends(() => ending).left(database, client);
    await hangUp(client);
    if (!signal.aborted) await left;
  }
}

export function ownLogin(
  { engine }: { readonly engine: Pick<Engine, 'clientConfig'> },
  database: string,
): Pick<OwnerLogin, 'config' | 'ending'> {
  const config = engine.clientConfig(database);
  return { config, ending: config };
}

/** One session. */
export class RowSession {
  readonly #client: Client;
  readonly #limits: TalkLimits;

  constructor(client: Client, { limits }: { readonly limits: TalkLimits }) {
    this.#client = client;
    this.#limits = limits;
  }

  async rows<R extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return (await this.query<R>(text, values)).rows;
  }

  /** Code of an owner that catches the end of its statement must not keep the other tables waiting. */
  async query<R extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<QueryResult<R>> {
    const { keepStatementMs, keepAnswerMs } = this.#limits;
    const late = setTimeout(() => cutOff(this.#client), keepStatementMs + keepAnswerMs);
    try {
      return await this.#client.query<R>(text, values.length === 0 ? undefined : [...values]);
    } finally {
      clearTimeout(late);
    }
  }

  async transaction<T>(work: () => Promise<T>, begin = sql.begin): Promise<T> {
    await this.query(begin);
    try {
      const done = await work();
      await this.query('commit');
      return done;
    } catch (error) {
      await this.query('rollback').catch(() => undefined);
      throw error;
    }
  }
}
