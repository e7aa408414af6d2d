/**
 * Waits for the commits that a dead listener process left at the engine. Takes the name of its commits; resolves once no session
 * has that name, at the latest after `listenerLeftMs`, when the engine's own statement timeout has ended the rest. Never rejects.
 * Queries the engine; changes nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { Engine } from '../../engine/engine.ts';
import { hangUp } from '../../engine/close-client.ts';
import { ownerLoginPrefix, writerName } from '../../engine/login-names.ts';
import { backoffMs } from '../../kit/backoff.ts';
import { limits } from '../../config/limits.ts';

/** Of the roles that commit: every role may read such a name, and give it to a session of its own. */
const leftSql = `select from pg_catalog.pg_stat_activity a
  join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.usesysid
  where a.application_name operator(pg_catalog.=) $1::pg_catalog.text 
    and (r.rolname in (session_user, '${writerName}') or pg_catalog.starts_with(r.rolname::pg_catalog.text, '${ownerLoginPrefix}'))`;

interface WaitSurroundings {
  readonly engine: Pick<Engine, 'clientConfig' | 'defaultDatabase'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly random: () => number;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

export async function commitsEnded(commitName: string, surroundings: WaitSurroundings): Promise<void> {
  const { clock, random, signal } = surroundings;
  const latest = clock() + limits.listenerLeftMs;
  for (let attempt = 1; clock() < latest && !signal.aborted; attempt++) {
    // An engine that does not answer may still be storing.
    if (await areGone(commitName, surroundings).catch(() => false)) return;
    const pauseMs = backoffMs(attempt, limits.fateRetryMinMs, limits.fateRetryMs, random);
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

async function areGone(commitName: string, { engine }: WaitSurroundings): Promise<boolean> {
  const client = new Client({
    ...engine.clientConfig(engine.defaultDatabase),
    connectionTimeoutMillis: limits.listenerAnswerMs,
    query_timeout: limits.listenerAnswerMs,
  });
  // If the connection ends between two queries, the next query reports it.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query(leftSql, [commitName]);
    return rowCount === 0;
  } finally {
    await hangUp(client);
  }
}
