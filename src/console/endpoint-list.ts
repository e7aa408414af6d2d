/**
 * The statements behind the list of endpoints and the charts: webhook tables of the role by page, filtered, sorted and counted by the
 * engine; and requests over time. Takes filters, returns SQL, under the rules of statements.ts. Pure.
 */
import { tookBoundsMs } from '../observe/durations.ts';
import { literal } from './quote.ts';
import type { TableRef } from './statements.ts';
import { locked, tableBytes } from './table-sizes.ts';

export const shows = ['all', 'need', 'open', 'quiet'] as const;
export type Show = (typeof shows)[number];
export const sorts = ['state', 'name', 'requests', 'refused'] as const;
export type Sort = (typeof sorts)[number];

export interface EndpointFilter {
  /** A part of the name of the table, its schema, or one of its secrets; '': all. */
  readonly text: string;
  readonly show: Show;
  readonly sort: Sort;
  /** From 0. */
  readonly page: number;
}

export const endpointsPage = 50;

const secretsOf = (oid: string): string =>
  `(SELECT string_agg(x.name, ', ' ORDER BY b.position) FROM headgate.webhook_table_secret b JOIN headgate.secret x ON x.id = b.secret_id WHERE b.relation::oid = ${oid})`;

/** Of tables that are compared with their sender's log: why it is not read, and what is missing of the last 7 days. */
const gaps = `gaps AS MATERIALIZED (
  SELECT g.schema_name, g.table_name, max(g.problem) AS problem,
    sum(g.missing) FILTER (WHERE g.state IN ('missing'::text, 'lost'::text) AND g.window_to > now() - interval '7 days') AS missing
  FROM headgate.gaps g GROUP BY 1, 2
)`;

/** The same of one table; no row: it is not compared. */
export const readGap = ({ schema, table }: TableRef): string => `WITH ${gaps}
SELECT g.problem, g.missing FROM gaps g WHERE g.schema_name = ${literal(schema)} AND g.table_name = ${literal(table)}`;

/** What it is about, in psql. */
export const showGaps = ({ schema, table }: TableRef): string => `SELECT * FROM headgate.gaps
WHERE schema_name = ${literal(schema)} AND table_name = ${literal(table)}
ORDER BY window_from DESC`;

/**
 * Every webhook table of the role with its requests of the last hour and its rank: 0 nothing gets in, 1 most signatures fail, a tenth does
 * not fit, or deliveries of its sender's log are missing or cannot be known, 2 open to anyone, 3 some are refused, 4 all are stored, 5 none came.
 */
const ranked = (text: string): string => `${gaps}, hour AS MATERIALIZED (
  SELECT t.schema_name, t.table_name, sum(t.stored) AS stored, sum(t.unauthorized) AS unauthorized,
    sum(t.refused) AS refused, sum(t.unavailable) AS unavailable
  FROM headgate.traffic t WHERE t.minute > now() - interval '1 hour' GROUP BY 1, 2
), listed AS MATERIALIZED (
  SELECT c.oid, n.nspname, c.relname, w.expression, w.created_at, h.stored, h.unauthorized, h.refused, h.unavailable, g.problem, g.missing,
    CASE WHEN h.stored = 0 AND h.unauthorized + h.refused + h.unavailable > 0 THEN 0
      WHEN h.unauthorized * 2 > h.stored + h.unauthorized + h.refused + h.unavailable
        OR h.refused * 10 > h.stored + h.unauthorized + h.refused + h.unavailable
        OR g.problem IS NOT NULL OR g.missing > 0 THEN 1
      WHEN w.expression IS NULL THEN 2
      WHEN h.unauthorized + h.refused + h.unavailable > 0 THEN 3
      WHEN h.stored > 0 THEN 4 ELSE 5 END AS rank
  FROM headgate.webhook_table w
  JOIN pg_class c ON c.oid = w.relation::oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN hour h ON h.schema_name = n.nspname::text AND h.table_name = c.relname::text
  LEFT JOIN gaps g ON g.schema_name = n.nspname::text AND g.table_name = c.relname::text
  WHERE headgate.sees_table(w.relation)${
    text === ''
      ? ''
      : `\n    AND strpos(lower(pg_catalog.concat(n.nspname, '.'::text, c.relname, ' '::text, ${secretsOf('c.oid')})), lower(${literal(text)})) > 0`
  }
)`;

const showing: Readonly<Record<Show, string>> = {
  all: 'true',
  need: 'l.rank < 2',
  open: 'l.expression IS NULL',
  quiet: 'l.rank = 5',
};

const sorting: Readonly<Record<Sort, string>> = {
  state: 'l.rank, coalesce(l.unauthorized + l.refused + l.unavailable, 0) DESC, ',
  name: '',
  requests: 'coalesce(l.stored + l.unauthorized + l.refused + l.unavailable, 0) DESC, ',
  refused: 'coalesce(l.unauthorized + l.refused, 0) DESC, ',
};

export const countEndpoints = (text: string): string => `WITH ${ranked(text)}
SELECT ${shows.map((show) => `count(*) FILTER (WHERE ${showing[show]}) AS "${show}"`).join(', ')} FROM listed l`;

/** All of the role. */
export const countTables = `SELECT count(*) AS "all" FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation)`;

/** One page, with what only its own tables are asked for. */
export const listEndpoints = ({
  text,
  show,
  sort,
  page,
}: EndpointFilter): string => `WITH ${locked}, ${ranked(text)},
shown AS MATERIALIZED (
  SELECT l.*, pg_catalog.row_number() OVER () AS place FROM (
    SELECT l.* FROM listed l WHERE ${showing[show]}
    ORDER BY ${sorting[sort]}l.nspname, l.relname
    LIMIT ${endpointsPage} OFFSET ${Math.trunc(page) * endpointsPage}
  ) l
)
SELECT s.oid, s.nspname, s.relname, s.expression, ${secretsOf('s.oid')} AS secrets,
  (SELECT pg_catalog.json_agg(b.alias ORDER BY b.position) FROM headgate.webhook_table_secret b WHERE b.relation::oid = s.oid) AS aliases,
  s.rank, s.stored, s.unauthorized, s.refused, s.unavailable, s.problem, s.missing, e.last_at, e.p99_ms,
  greatest(c.reltuples::bigint, pg_stat_get_live_tuples(s.oid)) AS rows_estimate, ${tableBytes('s.oid')} AS bytes
FROM shown s
JOIN pg_class c ON c.oid = s.oid
LEFT JOIN LATERAL (
  -- OFFSET 0: of these tables, not of all of them.
  SELECT x.last_at, x.p99_ms FROM headgate.endpoints x WHERE x.relation = s.oid OFFSET 0
) e ON true
ORDER BY s.place`;

/** The first whose names contain a text, those that begin with it in front. */
export const findEndpoints = (text: string, max: number): string => `SELECT n.nspname, c.relname
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.sees_table(w.relation) AND strpos(lower(c.relname::text), lower(${literal(text)})) > 0
ORDER BY strpos(lower(c.relname::text), lower(${literal(text)})), length(c.relname::text), n.nspname, c.relname
LIMIT ${max}`;

const tables = (of: readonly TableRef[]): string =>
  of.map(({ schema, table }) => `(${literal(schema)}, ${literal(table)})`).join(', ');

/** The day in quarters of an hour: `how long ago,stored,kept on disk,refused,unavailable`. */
export const listTraffic = (of: readonly TableRef[]): string => `SELECT schema_name, table_name,
  sum(stored) FILTER (WHERE ago < 4) AS stored, sum(unauthorized) FILTER (WHERE ago < 4) AS unauthorized,
  sum(refused) FILTER (WHERE ago < 4) AS refused, sum(unavailable) FILTER (WHERE ago < 4) AS unavailable,
  sum(stored + unauthorized + refused + unavailable) AS day_requests, sum(unauthorized + refused) AS day_refused,
  string_agg(pg_catalog.concat_ws(',', ago, stored - spooled, spooled, unauthorized + refused, unavailable), ' ') AS day
FROM (
  SELECT schema_name, table_name, floor(extract(epoch FROM now() - minute) / 900.0)::int AS ago, sum(stored) AS stored,
    sum(spooled) AS spooled, sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable
  FROM headgate.traffic WHERE (schema_name, table_name) IN (${of.length === 0 ? '(NULL::text, NULL::text)' : tables(of)})
  GROUP BY 1, 2, 3
) AS binned
GROUP BY 1, 2`;

/** From `fromMs` until `untilMs`, in ms since 1970; null: since so many hours. */
export interface Span {
  readonly hours: number;
  readonly fromMs: number | null;
  readonly untilMs: number | null;
}

const hourMs = 3_600_000;

/** The size of some 60 to 100 bars, in seconds: whole minutes, or whole hours for what is more than a day ago, of which only those are known. */
export function barSOf({ hours, fromMs }: Span, nowMs: number): number {
  const isOld = hours > 24 || (fromMs !== null && fromMs < nowMs - 24 * hourMs);
  const sizes = isOld ? [1, 2, 3, 6, 8].map((it) => it * 3_600) : [60, 300, 900];
  return sizes.find((s) => (hours * 3_600) / s <= 100) ?? Math.ceil(hours / 100) * 3_600;
}

/** Requests by bars of `barS` seconds, which begin at multiples of it; of one table, or of all of the role. */
export function readTraffic(of: TableRef | null, { hours, fromMs, untilMs }: Span, barS: number): string {
  const [view, time] = barS < 3_600 ? ['traffic', 'minute'] : ['traffic_hours', 'hour'];
  const conditions = [
    fromMs === null
      ? `${time} > now() - interval '${Math.trunc(hours * 60)} minutes'`
      : `${time} >= pg_catalog.to_timestamp(${Math.trunc(fromMs / 1_000)})`,
    ...(untilMs === null ? [] : [`${time} < pg_catalog.to_timestamp(${Math.trunc(untilMs / 1_000)})`]),
    ...(of === null ? [] : [`schema_name = ${literal(of.schema)} AND table_name = ${literal(of.table)}`]),
  ];
  return `SELECT (floor(extract(epoch FROM ${time}) / ${barS}.0) * ${barS})::bigint AS at, sum(stored) AS stored,
  sum(spooled) AS spooled, sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable,
  pg_catalog.json_build_array(${tookBoundsMs.map((_, i) => `sum(took[${i + 1}])`).join(', ')}, sum(took[${tookBoundsMs.length + 1}])) AS took
FROM headgate.${view}
WHERE ${conditions.join('\n  AND ')}
GROUP BY 1
ORDER BY 1`;
}

/** Tables that need somebody: those of ranks 0 and 1, the worst first; `needing`: how many they are. */
export const listNeeds = `WITH ${ranked('')}
SELECT count(*) OVER () AS needing, l.nspname, l.relname, l.rank, l.stored, l.unauthorized, l.refused, l.unavailable, l.problem, l.missing,
  ${secretsOf('l.oid')} AS secrets, headgate.owns_table(l.oid) AS owned
FROM listed l WHERE l.rank < 2
ORDER BY l.rank, coalesce(l.unauthorized + l.refused + l.unavailable, 0) DESC, l.nspname, l.relname
LIMIT 5`;

/** What one endpoint is; no row: it is not one of the role's. */
export const readFacts = ({ schema, table }: TableRef): string => `WITH ${locked}
SELECT c.oid, w.options::text AS options, w.expression, headgate.owns_table(w.relation) AS owned,
  (SELECT pg_catalog.json_agg(b.alias ORDER BY b.position) FROM headgate.webhook_table_secret b WHERE b.relation::oid = c.oid) AS aliases,
  greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid)) AS rows_estimate, ${tableBytes('c.oid')} AS bytes
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND headgate.sees_table(w.relation)`;
