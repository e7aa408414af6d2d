/** What each page of the console asks of the engine, as PostgreSQL counts it (pg_stat_statements): while it opens, and while nobody touches it. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Page } from 'playwright-core';
import { routes } from '../../src/console/routes.ts';
import type { ConsoleRoute } from '../../src/console/routes.ts';
import { within } from './within.ts';

/** Of the server that `costsOf` asks. */
export const countingSettings = [
  'shared_preload_libraries=pg_stat_statements',
  'pg_stat_statements.track_utility=off',
  'fsync=off',
] as const;

export interface Cost {
  readonly statements: number;
  readonly rows: number;
  /** Of 8 KiB, from memory or from the disk. */
  readonly blocks: number;
  readonly ms: number;
}

export interface PageCost {
  readonly route: ConsoleRoute;
  readonly opening: Cost;
  /** In a minute. */
  readonly rest: Cost;
}

/** An address of each route of the page, below the database. `table` is a webhook table in schema public, `id` of a refused request. */
export const addressesOf = (table: string, id: string): Readonly<Record<ConsoleRoute, string>> => ({
  '': '',
  requests: 'requests',
  endpoints: 'endpoints',
  endpoint: `endpoint/public/${table}`,
  new: 'new/stripe',
  sql: 'sql',
  secrets: 'secrets',
  events: 'events',
  health: 'health',
  diff: `diff/${id}/${id}`,
  refused: `refused/${id}`,
  request: `request/public/${table}`,
});

/** Statements of the role of the console; those that it runs for every statement, such as BEGIN, are not counted. */
async function read(stats: Client, role: string): Promise<Cost> {
  const { rows } = await stats.query<Cost>(
    `SELECT coalesce(sum(s.calls), 0)::int AS statements, coalesce(sum(s.rows), 0)::int AS rows,
       coalesce(sum(s.shared_blks_hit + s.shared_blks_read + s.local_blks_hit + s.local_blks_read + s.temp_blks_read), 0)::int AS blocks,
       coalesce(sum(s.total_exec_time), 0)::float8 AS ms
     FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid WHERE r.rolname = $1 AND s.query !~* '^select (pg_catalog\\.)?set_config'`,
    [role],
  );
  return rows[0] ?? { statements: 0, rows: 0, blocks: 0, ms: 0 };
}

/** Until nothing was asked for a second. */
async function settled(stats: Client, role: string): Promise<Cost> {
  let before = -1;
  return within(60_000, async () => {
    const cost = await read(stats, role);
    const isStill = cost.statements === before;
    before = cost.statements;
    await delay(1_000);
    if (!isStill) throw new Error('the page still asks');
    return cost;
  });
}

/** `base`: of the console, with the database. The page is logged in as `role`. */
export async function costsOf(
  page: Page,
  base: string,
  stats: Client,
  role: string,
  addresses: Readonly<Record<ConsoleRoute, string>>,
  restMs: number,
  of: readonly ConsoleRoute[] = routes,
): Promise<readonly PageCost[]> {
  const found: PageCost[] = [];
  for (const route of of) {
    await page.goto('about:blank');
    await settled(stats, role);
    await stats.query('SELECT pg_stat_statements_reset()');
    await page.goto(`${base}/${addresses[route]}`);
    await page.locator('main h1').first().waitFor();
    const opening = await settled(stats, role);
    await stats.query('SELECT pg_stat_statements_reset()');
    const fromMs = performance.now();
    await delay(restMs);
    const rest = await read(stats, role);
    const minutes = (performance.now() - fromMs) / 60_000;
    const perMinute = Object.fromEntries(Object.entries(rest).map(([name, n]) => [name, n / minutes]));
    found.push({ route, opening, rest: perMinute as unknown as Cost });
  }
  return found;
}
