/**
 * What POST /v1/sql and streams have to know of a kind of server. Types and data only: one for PostgreSQL, and one for RisingWave, of
 * which each line says what it does not have (src/common/src/types/postgres_type.rs and src/frontend/src/handler of its repository).
 */
import { limits } from '../tables/limits.ts';
import type { RewriteSql } from '../tables/sql-flow.ts';
import { encodeText, integerTypes } from './sql-types.ts';
import type { SqlType } from './sql-types.ts';

export interface SqlDialect {
  /** The statements that the server does not know, in its words. */
  readonly rewrite: RewriteSql;
  /** DISCARD ALL makes a session new. */
  readonly renews: boolean;
  /** Several statements of one text are one transaction. */
  readonly transactions: boolean;
  /** Parameters of one statement. */
  readonly paramsMax: number;
  /** What a statement is called, as PostgreSQL calls it; `tag`: the server's own word. */
  readonly command: (tag: string) => string;
  /** Rows have addresses, so that they can be followed. */
  readonly streams: boolean;
  /** All types beside those that it shares with every other; null: it is asked for them. */
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

/** Names without oids of their own are told by what they are, and shown as RisingWave prints them. */
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
  // CREATE_TABLE, SET_VARIABLE
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
