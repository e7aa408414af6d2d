/**
 * The statements behind the list of endpoints and the charts: webhook tables of the role by page, filtered, sorted and counted by the
 * engine; and requests over time. Takes filters, returns SQL, under the rules of statements.ts. Pure.
 */
import { tookBoundsMs } from '../observe/durations.ts';
import { literal } from './quote.ts';
import { locked, reasonOf, rowsEstimate, tableBytes } from './statements.ts';
import type { TableRef } from './statements.ts';

export const shows = ['all', 'need', 'open', 'quiet', 'never'] as const;
export type Show = (typeof shows)[number];
export const sorts = ['state', 'name', 'requests', 'refused'] as const;
export type Sort = (typeof sorts)[number];

export interface EndpointFilter {
  /** A part of the name of the table, its schema, or one of its secrets; '': all. */
  readonly text: string;
  readonly show: Show;
  readonly sort: Sort;
  /** Of a sender, or of all others; null: any, or none. */
  readonly checks: Checks | null;
  /** A schema, and a role; '': any. */
  readonly schema: string;
  readonly owner: string;
  /** From 0. */
  readonly page: number;
}

/** Checks by their keys (`countSenders`). */
interface Checks {
  /** Of all senders that are known. */
  readonly ids: readonly string[];
  readonly keys: readonly string[];
  /** Every other one. */
  readonly isNot: boolean;
}

export const noEndpointFilter: EndpointFilter = {
  text: '',
  show: 'all',
  sort: 'state',
  checks: null,
  schema: '',
  owner: '',
  page: 0,
};

export const endpointsPage = 50;
/** Of those that are counted by their sender. */
const checksMax = 500;

const secretsOf = (oid: string): string =>
  `(SELECT string_agg(x.name, ', ' ORDER BY b.position) FROM headgate.webhook_table_secret b JOIN headgate.secret x ON x.id = b.secret_id WHERE b.relation::oid = ${oid})`;

const stateOf = (of: string): string =>
  'state stored_at since since_unauthorized since_refused since_unavailable stored unauthorized refused unavailable log_problem missing'
    .split(' ')
    .map((column) => `${of}.${column}`)
    .join(', ');

/** How many reasons a sentence about an endpoint has. */
export const reasonsMax = 3;

/** Why the requests that its state is about were refused, as far as they are kept, as rows of listReasons. */
const reasonsIn = (of: string, oid: string): string => `(SELECT pg_catalog.json_agg(k) FROM (
    SELECT max(r.status)::text AS status, r.code, ${reasonOf('r.')} AS cause, count(*)::text AS requests
    FROM headgate.rejected_requests r
    WHERE r.relation::oid = ${oid}
      AND r.received_at > CASE ${of}.state WHEN 'nothing stored'::text THEN coalesce(${of}.stored_at, '-infinity') ELSE now() - interval '1 hour' END
    GROUP BY r.code, 3
    ORDER BY count(*) DESC, max(r.id) DESC
    LIMIT ${reasonsMax}
  ) k) AS reasons`;

/** Of one table: headgate.endpoint_states. */
export const readState = (oid: number): string => `SELECT ${stateOf('e')}, ${reasonsIn('e', 'e.relation')}
FROM headgate.endpoint_states e WHERE e.relation = ${oid}::oid`;

/** What it is about, in psql. */
export const showGaps = ({ schema, table }: TableRef): string => `SELECT * FROM headgate.gaps
WHERE schema_name = ${literal(schema)} AND table_name = ${literal(table)}
ORDER BY window_from DESC`;

/**
 * Every webhook table of the role with its state and its rank: 0 nothing gets in, 1 most signatures fail, a tenth does
 * not fit, or deliveries of its sender's log are missing or cannot be known, 2 open to anyone, 3 some are refused, 4 all are stored, 5 none came.
 */
const ranked = (
  filter: EndpointFilter,
): string => `${filter.checks === null ? '' : `${keyed(filter.checks.ids, filter.checks)}, `}listed AS MATERIALIZED (
  SELECT e.relation AS oid, e.schema_name AS nspname, e.table_name AS relname, w.expression, e.last_at, ${stateOf('e')},
    CASE WHEN e.state = 'nothing stored'::text THEN 0
      WHEN e.state IN ('signatures fail'::text, 'many refused'::text) OR e.log_problem IS NOT NULL OR e.missing > 0 THEN 1
      WHEN w.expression IS NULL THEN 2
      WHEN e.state = 'some refused'::text THEN 3
      WHEN e.state = 'stored'::text THEN 4 ELSE 5 END AS rank
  FROM headgate.endpoint_states e
  JOIN headgate.webhook_table w ON w.relation::oid = e.relation${conditionsOf(filter)
    .map((it, i) => `\n  ${i === 0 ? 'WHERE' : 'AND'} ${it}`)
    .join('')}
)`;

function conditionsOf({ text, checks, schema, owner }: EndpointFilter): readonly string[] {
  const keys = `(SELECT k.oid FROM keyed k WHERE ${checks?.isNot === true ? 'NOT ' : ''}(k.key = ANY (ARRAY[${checks?.keys.map(literal).join(', ') ?? ''}]::text[])))`;
  return [
    ...(text === ''
      ? []
      : [
          `strpos(lower(pg_catalog.concat(e.schema_name, '.'::text, e.table_name, ' '::text, ${secretsOf('e.relation')})), lower(${literal(text)})) > 0`,
        ]),
    ...(checks === null ? [] : [`e.relation IN ${keys}`]),
    ...(schema === '' ? [] : [`e.schema_name = ${literal(schema)}::text`]),
    ...(owner === ''
      ? []
      : [
          `e.relation IN (SELECT c.oid FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname = ${literal(owner)}::name)`,
        ]),
  ];
}

/**
 * Every check with a key: two checks with the same key are of the same sender. That depends on the expression without the names of its secrets, and on
 * the senders after which a secret is named.
 */
const keyed = (ids: readonly string[], { keys, isNot }: Omit<Checks, 'ids'> = anyCheck): string => {
  const forms = isNot
    ? ''
    : `\n  WHERE f.form = ANY (ARRAY[${[...new Set(keys.map(formOf))].map(literal).join(', ')}]::text[])`;
  return `keyed AS MATERIALIZED (
  SELECT f.oid, f.expression, f.aliases, pg_catalog.concat(f.form, '/'::text,
    (SELECT string_agg(DISTINCT i.id, ','::text ORDER BY i.id) FROM unnest(f.aliases) a (alias), unnest(${literal(`{${ids.join(',')}}`)}::text[]) i (id)
     WHERE a.alias = i.id OR pg_catalog.starts_with(a.alias, pg_catalog.concat(i.id, '_'::text)))) AS key
  FROM (
    SELECT w.relation::oid AS oid, w.expression, s.aliases, pg_catalog.concat(
      pg_catalog.hashtextextended(pg_catalog.regexp_replace(w.expression, '\\m('::text || s.names || ')\\M'::text, '?'::text, 'g'::text), 0::bigint)) AS form
    FROM headgate.webhook_table w
    CROSS JOIN LATERAL (
      SELECT pg_catalog.array_agg(b.alias ORDER BY b.position) AS aliases,
        string_agg(pg_catalog.regexp_replace(b.alias, '(\\W)'::text, '\\\\\\1'::text, 'g'::text), '|'::text) AS names
      FROM headgate.webhook_table_secret b WHERE b.relation::oid = w.relation::oid
    ) s
    WHERE w.expression IS NOT NULL AND headgate.sees_table(w.relation)
    OFFSET 0
  ) f${forms}
)`;
};

const anyCheck = { keys: [], isNot: true } as const;
const formOf = (key: string): string => key.split('/', 1)[0] ?? '';

/** Checks by key, those of most endpoints first, with the number of endpoints and one of the checks. */
export const countSenders = (ids: readonly string[]): string => `WITH ${keyed(ids)}
SELECT k.key, count(*) AS endpoints, (pg_catalog.array_agg(k.expression ORDER BY k.oid))[1] AS expression,
  (pg_catalog.array_agg(pg_catalog.array_to_json(k.aliases)::text ORDER BY k.oid))[1] AS aliases
FROM keyed k
GROUP BY k.key
ORDER BY endpoints DESC, k.key
LIMIT ${checksMax}`;

const named = { schema: 'n.nspname', owner: 'r.rolname' } as const;
export type Named = keyof typeof named;

/** Schemas, or owners, whose names contain a text, those of most endpoints first. */
export const countNames = (
  of: Named,
  text: string,
  max: number,
): string => `SELECT ${named[of]} AS name, count(*) AS endpoints
FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation::oid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
WHERE headgate.sees_table(w.relation)${text === '' ? '' : ` AND strpos(lower(${named[of]}::text), lower(${literal(text)})) > 0`}
GROUP BY ${named[of]}
ORDER BY endpoints DESC, ${named[of]}
LIMIT ${max}`;

const showing: Readonly<Record<Show, string>> = {
  all: 'true',
  need: 'l.rank < 2',
  open: 'l.expression IS NULL',
  quiet: 'l.rank = 5 AND l.last_at IS NOT NULL',
  never: 'l.last_at IS NULL',
};

const sorting: Readonly<Record<Sort, string>> = {
  state: 'l.rank, l.unauthorized + l.refused + l.unavailable DESC, ',
  name: '',
  requests: 'l.stored + l.unauthorized + l.refused + l.unavailable DESC, ',
  refused: 'l.unauthorized + l.refused DESC, ',
};

export const countEndpoints = (filter: EndpointFilter): string => `WITH ${ranked(filter)}
SELECT ${shows.map((show) => `count(*) FILTER (WHERE ${showing[show]}) AS "${show}"`).join(', ')} FROM listed l`;

/** All of the role. */
export const countTables = `SELECT count(*) AS "all" FROM headgate.webhook_table w WHERE headgate.sees_table(w.relation)`;

/** One page, with what only its own tables are asked for. */
export const listEndpoints = (filter: EndpointFilter): string => `WITH ${locked}, ${ranked(filter)},
shown AS MATERIALIZED (
  SELECT l.*, pg_catalog.row_number() OVER () AS place FROM (
    SELECT l.* FROM listed l WHERE ${showing[filter.show]}
    ORDER BY ${sorting[filter.sort]}l.nspname, l.relname
    LIMIT ${endpointsPage} OFFSET ${Math.trunc(filter.page) * endpointsPage}
  ) l
)
SELECT s.oid, s.nspname, s.relname, s.expression, ${secretsOf('s.oid')} AS secrets,
  (SELECT pg_catalog.json_agg(b.alias ORDER BY b.position) FROM headgate.webhook_table_secret b WHERE b.relation::oid = s.oid) AS aliases,
  s.rank, s.last_at, ${stateOf('s')},
  ${rowsEstimate('c')} AS rows_estimate, ${tableBytes('s.oid')} AS bytes
FROM shown s
JOIN pg_class c ON c.oid = s.oid
ORDER BY s.place`;

/** The first whose names contain a text, those that begin with it in front. */
export const findEndpoints = (text: string, max: number): string => `SELECT n.nspname, c.relname
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.sees_table(w.relation) AND strpos(lower(c.relname::text), lower(${literal(text)})) > 0
ORDER BY strpos(lower(c.relname::text), lower(${literal(text)})), length(c.relname::text), n.nspname, c.relname
LIMIT ${max}`;

/** For each class of durations. */
const tooks = (each: (place: number) => string): string =>
  [...tookBoundsMs, 0].map((_, i) => each(i + 1)).join(', ');

const tables = (of: readonly TableRef[]): string =>
  of.map(({ schema, table }) => `(${literal(schema)}, ${literal(table)})`).join(', ');

/** The day in quarters of an hour: `how long ago,stored,kept on disk,refused,unavailable`; and how long all of it took. */
export const listTraffic = (of: readonly TableRef[]): string => `SELECT schema_name, table_name,
  sum(stored + unauthorized + refused + unavailable) AS day_requests, sum(unauthorized + refused) AS day_refused,
  string_agg(pg_catalog.concat_ws(',', ago, stored - spooled, spooled, unauthorized + refused, unavailable), ' ') AS day,
  pg_catalog.json_build_array(${tooks((i) => `sum(took[${i}])`)}) AS took
FROM (
  SELECT schema_name, table_name, floor(extract(epoch FROM now() - minute) / 900.0)::int AS ago, sum(stored) AS stored,
    sum(spooled) AS spooled, sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable,
    ARRAY[${tooks((i) => `sum(took[${i}])`)}] AS took
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
  const per = barS < 3_600 ? 'minute' : 'hour';
  const time = of === null ? 'at' : per;
  const view = of === null ? 'traffic_totals' : per === 'minute' ? 'traffic' : 'traffic_hours';
  const conditions = [
    ...(of === null ? [`per = '${per}'::text`] : []),
    fromMs === null
      ? `${time} > now() - interval '${Math.trunc(hours * 60)} minutes'`
      : `${time} >= pg_catalog.to_timestamp(${Math.trunc(fromMs / 1_000)})`,
    ...(untilMs === null ? [] : [`${time} < pg_catalog.to_timestamp(${Math.trunc(untilMs / 1_000)})`]),
    ...(of === null ? [] : [`schema_name = ${literal(of.schema)} AND table_name = ${literal(of.table)}`]),
  ];
  return `SELECT (floor(extract(epoch FROM ${time}) / ${barS}.0) * ${barS})::bigint AS at, sum(stored) AS stored,
  sum(spooled) AS spooled, sum(unauthorized) AS unauthorized, sum(refused) AS refused, sum(unavailable) AS unavailable,
  pg_catalog.json_build_array(${tooks((i) => `sum(took[${i}])`)}) AS took
FROM headgate.${view}
WHERE ${conditions.join('\n  AND ')}
GROUP BY 1
ORDER BY 1`;
}

/** Days whose requests are compared with as many days before: hours are known for 30. */
export const comparedDays = [1, 7] as const;

/**
 * The requests of the last days, and of as many before, by whole hours until the last full one. `known`: requests are known from before all of
 * them, so that none is missing of the days before.
 */
export function compareTraffic(of: TableRef | null, days: (typeof comparedDays)[number]): string {
  const [view, time] = of === null ? ['traffic_totals', 'at'] : ['traffic_hours', 'hour'];
  const condition =
    of === null
      ? `per = 'hour'::text`
      : `schema_name = ${literal(of.schema)} AND table_name = ${literal(of.table)}`;
  const hours = days * 24;
  return `SELECT coalesce(sum(n) FILTER (WHERE ago BETWEEN 1 AND ${hours}), 0) AS requests,
  coalesce(sum(n) FILTER (WHERE ago BETWEEN ${hours + 1} AND ${2 * hours}), 0) AS before, count(*) FILTER (WHERE ago > ${2 * hours}) > 0 AS known
FROM (
  SELECT floor(extract(epoch FROM now()) / 3600.0)::int - floor(extract(epoch FROM ${time}) / 3600.0)::int AS ago,
    stored + unauthorized + refused + unavailable AS n
  FROM headgate.${view}
  WHERE ${condition} AND ${time} > now() - interval '${3 * days} days'
) AS counted`;
}

/** Tables that need somebody: those of ranks 0 and 1, the worst first; `needing`: how many they are. */
export const listNeeds = `WITH ${ranked(noEndpointFilter)}
SELECT count(*) OVER () AS needing, l.nspname, l.relname, l.rank, ${stateOf('l')},
  ${secretsOf('l.oid')} AS secrets, headgate.owns_table(l.oid) AS owned, ${reasonsIn('l', 'l.oid')}
FROM listed l WHERE l.rank < 2
ORDER BY l.rank, l.unauthorized + l.refused + l.unavailable DESC, l.nspname, l.relname
LIMIT 5`;

/** What one endpoint is; no row: it is not one of the role's. */
export const readFacts = ({ schema, table }: TableRef): string => `WITH ${locked}
SELECT c.oid, w.options::text AS options, w.expression, headgate.owns_table(w.relation) AS owned,
  (SELECT pg_catalog.json_agg(b.alias ORDER BY b.position) FROM headgate.webhook_table_secret b WHERE b.relation::oid = c.oid) AS aliases,
  ${rowsEstimate('c')} AS rows_estimate, ${tableBytes('c.oid')} AS bytes
FROM headgate.webhook_table w
JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)} AND headgate.sees_table(w.relation)`;
