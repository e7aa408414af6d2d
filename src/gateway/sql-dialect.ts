/**
 * What POST /v1/sql and streams need to know about a kind of server. Types and data only: one for PostgreSQL, and one for RisingWave,
 * each line of which names something that RisingWave lacks (src/common/src/types/postgres_type.rs and src/frontend/src/handler of its
 * repository).
 */
import { limits } from '../config/limits.ts';
import type { RewriteSql } from '../ddl/rewrite.ts';
import { encodeText, integerTypes } from './sql-types.ts';
import type { SqlType } from './sql-types.ts';

export interface SqlDialect {
  /** Translates statements that the server does not know. */
  readonly rewrite: RewriteSql;
  /** DISCARD ALL resets a session. */
  readonly renews: boolean;
  /** Several statements of one text are one transaction. */
  readonly transactions: boolean;
  /** The maximum of parameters of one statement. */
  readonly paramsMax: number;
  /** A statement's name in PostgreSQL; `tag`: the server's own name. */
  readonly command: (tag: string) => string;
  /** Rows have addresses, so that a stream can follow them. */
  readonly streams: boolean;
  /** All types besides the common ones; null: the server is queried for them. */
  readonly types: ReadonlyMap<number, SqlType> | null;
}

export function postgresDialect(rewrite: RewriteSql): SqlDialect {
  return {
    rewrite,
    renews: true,
    transactions: true,
    paramsMax: limits.gatewaySqlParamsMax,
    command: (tag) => tag,
    streams: true,
    types: null,
  };
}

/** Types without a PostgreSQL oid are named by their content, and shown as RisingWave prints them. */
const printed = (name: string): SqlType => ({ name, encode: encodeText, element: null });

const risingwaveTypes: ReadonlyMap<number, SqlType> = new Map([
  ...integerTypes(1301, 'rw_int256', 1302),
  [1303, printed('map')],
  [1304, printed('map[]')],
  [1305, printed('vector')],
  [1306, printed('vector[]')],
  [1307, printed('variant')],
  [1308, printed('variant[]')],
]);

export function risingwaveDialect(rewrite: RewriteSql): SqlDialect {
  // Turns CREATE_TABLE and SET_VARIABLE into CREATE TABLE and SET.
  const command = (tag: string): string => tag.replaceAll('_', ' ').replace(/^SET VARIABLE$/, 'SET');
  return {
    rewrite,
    renews: false,
    transactions: false,
    paramsMax: limits.risingwaveParamsMax,
    command,
    streams: false,
    types: risingwaveTypes,
  };
}
