/**
 * Everything worth saying, typed once. Log lines, metrics and test spies are readers of this one union;
 * rooms say what happened and never log or count by themselves.
 */
import type { RefusalCode } from './refusals.ts';

export type Observation =
  /** A request was answered. `table` is null for a path that leads to no table: label sets stay bounded. */
  | {
      readonly kind: 'request.answered';
      readonly table: TableName | null;
      readonly status: number;
      readonly code: RefusalCode | 'committed';
      readonly rows: number;
      readonly seconds: number;
    }
  /** A bug in Headgate met a request; `requestId` is in the answer. */
  | { readonly kind: 'request.failed'; readonly requestId: string; readonly error: unknown }
  /** The first message of a WebSocket was accepted. */
  | { readonly kind: 'websocket.opened'; readonly table: TableName | null }
  /** `code`: why Headgate closed it, or `closed`: its client did. `opened`: its first message had been accepted. */
  | {
      readonly kind: 'websocket.closed';
      readonly table: TableName | null;
      readonly opened: boolean;
      readonly code: RefusalCode | 'closed';
      readonly batches: number;
      readonly rows: number;
      readonly seconds: number;
    }
  /** A batch of a WebSocket was acknowledged, or refused. */
  | {
      readonly kind: 'batch.answered';
      readonly table: TableName | null;
      readonly code: RefusalCode | 'committed';
      readonly rows: number;
      readonly seconds: number;
    }
  | {
      readonly kind: 'group.committed';
      readonly table: TableName;
      readonly rows: number;
      readonly bytes: number;
      readonly seconds: number;
    }
  | {
      readonly kind: 'group.aborted';
      readonly table: TableName;
      readonly rows: number;
      readonly sqlstate: string;
      readonly reason: string;
    }
  | {
      readonly kind: 'group.unknown';
      readonly table: TableName;
      readonly rows: number;
      readonly reason: string;
    }
  /** Values that did not fit their columns were stored as NULL, because the table's owner wants it so. */
  | { readonly kind: 'values.nulled'; readonly table: TableName; readonly values: number }
  | { readonly kind: 'engine.starting'; readonly engine: string }
  | {
      readonly kind: 'engine.ready';
      readonly engine: string;
      readonly version: string;
      readonly seconds: number;
    }
  | { readonly kind: 'engine.lost'; readonly engine: string; readonly reason: string }
  | { readonly kind: 'engine.orphan_stopped'; readonly pid: number }
  | { readonly kind: 'engine.said'; readonly line: string }
  | { readonly kind: 'engine.stopped'; readonly engine: string }
  | {
      readonly kind: 'catalog.loaded';
      readonly database: string;
      readonly tables: number;
      readonly version: number;
    }
  | { readonly kind: 'catalog.unreadable'; readonly database: string; readonly reason: string }
  | { readonly kind: 'catalog.table_unusable'; readonly table: TableName; readonly reason: string }
  | {
      readonly kind: 'catalog.migrated';
      readonly database: string;
      readonly from: number;
      readonly to: number;
    }
  | { readonly kind: 'sql.connected'; readonly session: number; readonly remoteAddress: string }
  | { readonly kind: 'sql.closed'; readonly session: number; readonly reason: string }
  | { readonly kind: 'sql.rewritten'; readonly session: number; readonly statements: number }
  /** A bug in Headgate met a statement; its client reads XX000. */
  | { readonly kind: 'sql.failed'; readonly session: number; readonly error: unknown }
  | { readonly kind: 'door.opened'; readonly door: string; readonly address: string }
  | { readonly kind: 'service.ready' }
  | { readonly kind: 'service.draining'; readonly reason: string }
  | { readonly kind: 'service.stopped' };

export interface TableName {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

export type Observe = (observation: Observation) => void;

/** Hands each observation to every reader, in order. A reader must not throw. */
export function observers(...readers: readonly Observe[]): Observe {
  return (observation) => {
    for (const reader of readers) reader(observation);
  };
}
