/** Types only: the messages between the main process and its listener processes. Plain values: they are sent as JSON. */
import type { MetricFamily } from '../../admin/merged-metrics.ts';
import type { EngineReach } from '../../engine/attached-engine.ts';
import type { Passed } from '../../access/admission.ts';
import type { HeldQuestion, HeldRequest, Recall, TailBatch, TailLine } from '../../observe/tail.ts';
import type { Observation, TableName } from '../../observe/observations.ts';
import type { Refusal } from '../../errors/refusals.ts';
import type { Settings } from '../../config/settings.ts';

/**
 * Everything that a listener process has to know. Sent over the channel, because others can read a command line or an
 * environment.
 */
export interface Assignment {
  readonly settings: Settings;
  /** How to reach the embedded engine; null: the engine is that of `settings.databaseUrl`. */
  readonly reach: EngineReach | null;
  /** Of Headgate. */
  readonly version: string;
  /** How many listener processes share the bounds of one Headgate. */
  readonly of: number;
  /** The name of its commits at the engine, by which they are recognised once the process is gone. */
  readonly commitName: string;
}

export interface TableId {
  readonly database: string;
  /** pg_class.oid */
  readonly oid: number;
}

/** Rows that streams may have left in a process. */
export interface StreamLeftovers extends TableId {
  /** Those of this client only; null: of any client. */
  readonly client: string | null;
}

/** What the main process, which owns the disk, reports about it, … */
export type SpoolNotice =
  /** This database has a spool. */
  | { readonly what: 'opened'; readonly database: string }
  /** From now on requests of this table go to the disk, … */
  | { readonly what: 'close'; readonly table: TableId; readonly sinceMs: number }
  /** … and to the lane again: none of them is left on the disk. */
  | { readonly what: 'open'; readonly table: TableId }
  | { readonly what: 'kept'; readonly answers: readonly KeptAnswer[] };

/**
 * What became of a request: `on the disk`; `open`: it is not kept, because its table uses the lane again; or why it is not
 * kept.
 */
export interface KeptAnswer {
  readonly id: number;
  readonly end: 'on the disk' | 'open' | Refusal;
}

/** … and what a listener process reports. */
export type SpoolReply =
  /** It has found that the database does not accept rows of this table. */
  | { readonly what: 'fill'; readonly table: TableId; readonly sinceMs: number }
  /** Requests of this table wait for the disk here, and its lane has none left. */
  | { readonly what: 'closed'; readonly table: TableId }
  | {
      readonly what: 'keep';
      readonly table: TableName & TableId;
      /** Checked and decoded; `payload` in base64. */
      readonly requests: readonly { readonly id: number; readonly payload: string }[];
    };

export type ListenerRequest =
  | { readonly what: 'report' }
  /** Whether to report outcomes as they occur; those remembered come first. */
  | { readonly what: 'tail'; readonly on: boolean }
  /** Asks what an accepted request held. */
  | { readonly what: 'held'; readonly of: HeldQuestion }
  /** Asks which outcomes it remembers. */
  | { readonly what: 'recall'; readonly of: Recall }
  /** One of Headgate's own statements has arrived for this database: its catalog exists, or will. */
  | { readonly what: 'ensure'; readonly database: string }
  /** This database is about to be dropped or renamed. */
  | { readonly what: 'release'; readonly database: string }
  /** Another process opens a stream of this table: rows that streams have left here must be stored first. */
  | { readonly what: 'settle'; readonly left: StreamLeftovers }
  /** Read the certificates again. */
  | { readonly what: 'reload' }
  /** Answer the accepted requests, accept no new ones, close everything. */
  | { readonly what: 'drain' };

export interface Report {
  readonly metrics: readonly MetricFamily[];
  /** null: requests can be served; otherwise the reason. */
  readonly unavailable: string | null;
}

/** For questions that ask for something; empty if there is none. */
export interface ListenerAnswer {
  readonly report?: Report;
  readonly held?: HeldRequest | null;
  readonly lines?: readonly TailLine[];
}

export type ToListener =
  | { readonly kind: 'begin'; readonly assignment: Assignment }
  /** Sent together with the connection. */
  | { readonly kind: 'connection' }
  | { readonly kind: 'ask'; readonly id: number; readonly question: ListenerRequest }
  /** Requests that passed in other listener processes. */
  | { readonly kind: 'passed'; readonly passed: Passed }
  /** For the fence with this id: whether all other processes have settled their rows. */
  | { readonly kind: 'fenced'; readonly id: number; readonly settled: boolean }
  | { readonly kind: 'spool'; readonly told: SpoolNotice };

export type FromListener =
  | { readonly kind: 'serving' }
  /** It cannot start; the message is for the terminal. */
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'said'; readonly observations: readonly Observation[] }
  /** How many connections have arrived, and how many have ended. */
  | { readonly kind: 'connections'; readonly taken: number; readonly ended: number }
  | { readonly kind: 'passed'; readonly passed: Passed }
  /** Outcomes, while they are asked for. */
  | { readonly kind: 'tail'; readonly batch: TailBatch }
  /** A stream of this table is about to be opened. */
  | { readonly kind: 'fence'; readonly id: number; readonly left: StreamLeftovers }
  | { readonly kind: 'spool'; readonly said: SpoolReply }
  /** The work for this question takes long, and progresses. */
  | { readonly kind: 'getsOn'; readonly id: number }
  /** The request is done, as far as it could be. */
  | { readonly kind: 'answer'; readonly id: number; readonly answer: ListenerAnswer };
