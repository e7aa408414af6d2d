/**
 * What each page of the console asks of the engine, by its own table of routes, with a thousand endpoints of one role, a day of traffic and
 * refused requests. BENCH_CONSOLE_TABLES sets their number.
 */
import { Client } from 'pg';
import { chromium } from 'playwright-core';
import { routes } from '../src/console/routes.ts';
import { addressesOf, costsOf, countingSettings } from '../test/support/console-costs.ts';
import type { Cost } from '../test/support/console-costs.ts';
import { MortalServer } from '../test/support/mortal-server.ts';
import { findTool } from '../test/support/tools.ts';
import { within } from '../test/support/within.ts';
import { stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { startService } from './service.ts';
import type { Service } from './service.ts';

const many = Number(process.env['BENCH_CONSOLE_TABLES'] ?? 1_000);
/** Those of earlier versions lead to the others. */
const pages = routes.filter((it) => it !== 'refused' && it !== 'request');
const restMs = 30_000;
const role = 'looker';
/** Tables in one transaction. */
const together = 50;

/** Tables of the role, each with a request in every minute of a day; the first has refused some. */
async function fill(service: Service, root: Client): Promise<string> {
  await root.query(
    `CREATE EXTENSION pg_stat_statements; CREATE ROLE ${role} LOGIN; GRANT CREATE ON SCHEMA public TO ${role}`,
  );
  const owner = new Client({
    host: '127.0.0.1',
    port: service.ports.sql.port,
    user: role,
    database: 'postgres',
  });
  await owner.connect();
  try {
    for (let from = 0; from < many; from += together) {
      const names = Array.from({ length: Math.min(together, many - from) }, (_, i) => `t_${from + i}`);
      await owner.query('BEGIN');
      for (const name of names)
        await owner.query(
          `CREATE TABLE ${name} (n SMALLINT) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook')`,
        );
      await owner.query('COMMIT');
    }
  } finally {
    await owner.end();
  }
  await root.query(`INSERT INTO headgate.traffic_minute (relation, slot, minute, stored, unauthorized, refused, unavailable, rows, took, last_at)
    SELECT w.relation, (extract(epoch FROM m)::bigint / 60) % 1440, m, 5, 0, 1, 0, 5, array_fill(1, '{14}'), m
    FROM headgate.webhook_table w, generate_series(date_trunc('minute', now()) - interval '23 hours', date_trunc('minute', now()), '1 minute') m
    ORDER BY m
    ON CONFLICT DO NOTHING`);
  await root.query(`INSERT INTO headgate.traffic_total (owner_oid, owner, per, slot, at, stored, unauthorized, refused, unavailable, spooled, took)
    SELECT coalesce((SELECT r.oid FROM pg_roles r WHERE r.rolname = o.owner), 0), o.owner, 'minute', m.slot, m.minute, sum(m.stored), 0, sum(m.refused), 0, 0, array_fill(count(*)::int, '{14}')
    FROM headgate.traffic_minute m, (VALUES (''), ('${role}')) AS o (owner) GROUP BY 1, 2, 4, 5
    ON CONFLICT DO NOTHING`);
  for (let i = 0; i < 300; i++) {
    const { status } = await fetch(service.url('t_0'), {
      method: 'POST',
      body: `{"n":${i % 2 === 0 ? 70_000 : i}}`,
    });
    if (status !== (i % 2 === 0 ? 422 : 200)) throw new Error(`answered ${status}`);
  }
  const id = await within(10_000, async () => {
    const { rows } = await root.query<{ id: string; all: number }>(
      'SELECT max(id)::text AS id, count(*)::int AS all FROM headgate.rejected_requests',
    );
    if (rows[0]?.all !== 150) throw new Error('the refused requests were not kept');
    return rows[0].id;
  });
  await root.query('VACUUM ANALYZE');
  return id;
}

const figures = ({ statements, rows, blocks, ms }: Cost): readonly string[] => [
  statements.toFixed(0),
  rows.toFixed(0),
  blocks.toLocaleString('en-US', { maximumFractionDigits: 0 }),
  ms.toFixed(0),
];

async function run(): Promise<string> {
  const executablePath = findTool('chromium-headless-shell') ?? findTool('chromium');
  if (executablePath === null) return 'Not run: Chromium is not installed.';
  const server = await MortalServer.make(countingSettings);
  try {
    const service = await startService({
      env: { HEADGATE_DATABASE_URL: server.databaseUrl },
      database: 'postgres',
    });
    const root = new Client({ host: server.folder, user: 'root', database: 'postgres' });
    const browser = await chromium.launch({
      executablePath,
      args: [...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), '--disable-gpu'],
    });
    try {
      await root.connect();
      const id = await fill(service, root);
      const page = await browser.newPage({ reducedMotion: 'reduce', viewport: { width: 1440, height: 900 } });
      const base = `http://127.0.0.1:${service.ports.admin.port}/console/`;
      await page.goto(base);
      await page.getByLabel('Role').fill(role);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      const found = await costsOf(
        page,
        `${base}#/postgres`,
        root,
        role,
        addressesOf('t_0', id),
        restMs,
        pages,
      );
      const lines = found.map(({ route, opening, rest }) => [
        route === '' ? 'overview' : route,
        ...figures(opening),
        ...figures(rest),
      ]);
      const head = [
        'page',
        'statements',
        'rows',
        'blocks',
        'ms',
        'a minute: statements',
        'rows',
        'blocks',
        'ms',
      ];
      return [
        `${stamp()}; ${many.toLocaleString('en-US')} endpoints of a role that is no superuser, with counts of a day; blocks of 8 KiB, nearly all from memory.`,
        table(head, lines, 1),
      ].join('\n\n');
    } finally {
      await browser.close();
      await root.end();
      await service.stop();
    }
  } finally {
    await server.remove();
  }
}

export const consolePages: Bench = { name: 'console', run };
