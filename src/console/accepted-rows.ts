/**
 * Rows of a table by the time at which their requests arrived, for tables with INCLUDE TIMESTAMP: which column holds it, the times before another
 * one, and the rows of one request. Takes names and times, returns SQL, which means the same in psql. Pure.
 */
import { identifier, literal, qualified, time } from './quote.ts';
import type { TableRef } from './statements.ts';

/** The column with the time of arrival (INCLUDE TIMESTAMP), whether an index has its order, and how large the table is. */
export const readArrival = (
  schema: string,
  table: string,
): string => `SELECT t.name, pg_relation_size(c.oid::regclass) AS bytes, pg_get_userbyid(c.relowner) = current_user AS own, EXISTS (
    SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND a.attname = t.name
  ) AS indexed
FROM headgate.webhook_table w JOIN pg_class c ON c.oid = w.relation::oid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT headgate.placed(w.relation, i.value) AS name FROM jsonb_array_elements(w.includes) i
  WHERE i.value ->> 'what'::text = 'timestamp'::text LIMIT 1
) t ON true
WHERE n.nspname = ${literal(schema)} AND c.relname = ${literal(table)}`;

/** Times of arrival on one page, and rows that are looked at for it. */
export const earlierMax = 50;
const earlierRowsMax = 1_000;

/**
 * When rows of a table arrived before a time (as PostgreSQL writes it), the newest first, and how many at each. Of the last one of the rows that were
 * looked at there may be more (`least`); `more`: there are earlier ones.
 */
export const earlierArrivals = (
  { schema, table }: TableRef,
  column: string,
  before: string,
  fromMs: number,
): string => `SELECT f.at, f.rows, f.looked > ${earlierRowsMax} AND f.places = f.place AS least, f.places > ${earlierMax} OR f.looked > ${earlierRowsMax} AS more
FROM (
  SELECT a.at, count(*) AS rows, sum(count(*)) OVER () AS looked, count(*) OVER () AS places, pg_catalog.row_number() OVER (ORDER BY a.at DESC) AS place
  FROM (
    SELECT t.${identifier(column)} AS at FROM ${qualified(schema, table)} t
    WHERE t.${identifier(column)} < timestamptz ${literal(before)}${
      fromMs === 0 ? '' : ` AND t.${identifier(column)} >= ${time(fromMs)}`
    }
    ORDER BY t.${identifier(column)} DESC
    LIMIT ${earlierRowsMax + 1}
  ) AS a
  GROUP BY a.at
) AS f
WHERE f.place <= ${earlierMax}
ORDER BY f.at DESC`;

/** Rows of a request, by the time of its arrival. */
export const rowsOfArrival = (schema: string, table: string, column: string, ms: number): string =>
  `SELECT * FROM ${qualified(schema, table)} WHERE ${identifier(column)} = ${time(ms)} LIMIT 10`;
