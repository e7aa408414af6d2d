/** Types only: what the main process and its listener processes say to each other. Plain values: they go as JSON. */
import type { MetricFamily } from '../../admin/merged-metrics.ts';
import type { EngineReach } from '../../engine/attached.ts';
import type { Passed } from '../../access/gate.ts';
import type { HeldQuestion, HeldRequest, TailBatch } from '../../tables/tail.ts';
import type { Observation, TableName } from '../../tables/observations.ts';
import type { Refusal } from '../../tables/refusals.ts';
import type { Settings } from '../../tables/settings.ts';

/** All that a listener process has to know. Goes over the channel: a command line or an environment can be read by others. */
export interface Assignment {
  readonly settings: Settings;
  /** How the embedded engine is reached; null: it is that of `settings.databaseUrl`. */
  readonly reach: EngineReach | null;
  /** How many listener processes share the bounds of one Headgate. */
  readonly of: number;
  /** What its commits are called at the engine: when it is gone they are known by it. */
  readonly commitName: string;
}

export interface TableId {
  readonly database: string;
  /** pg_class.oid */
  readonly oid: number;
}

/** What streams may have left in a process. */
export interface Left extends TableId {
  /** Those of this client alone; null: of whoever. */
  readonly client: string | null;
}

/** The disk is the main process's: what it says of it, … */
export type SpoolTold =
  /** There is a spool for this database. */
  | { readonly what: 'opened'; readonly database: string }
  /** Requests of this table go to the disk from now on, … */
  | { readonly what: 'close'; readonly table: TableId; readonly sinceMs: number }
  /** … and to the lane again: nothing of it is left on the disk. */
  | { readonly what: 'open'; readonly table: TableId }
  | { readonly what: 'kept'; readonly answers: readonly KeptAnswer[] };

/** What became of a request. `on the disk`; `open`: nothing, its table goes to the lane again; or why it is not kept. */
export interface KeptAnswer {
  readonly id: number;
  readonly end: 'on the disk' | 'open' | Refusal;
}

/** … and what a listener process says. */
export type SpoolSaid =
  /** It has met that the database does not take rows of this table. */
  | { readonly what: 'fill'; readonly table: TableId; readonly sinceMs: number }
  /** Requests of this table wait for the disk here, and its lane has none left. */
  | { readonly what: 'closed'; readonly table: TableId }
  | {
      readonly what: 'keep';
      readonly table: TableName & TableId;
      /** Checked and decoded; `payload` in base64. */
      readonly requests: readonly { readonly id: number; readonly payload: string }[];
    };

export type Question =
  | { readonly what: 'report' }
  /** Whether outcomes are to be told as they come; those that are remembered first. */
  | { readonly what: 'tail'; readonly on: boolean }
  /** What an accepted request held. */
  | { readonly what: 'held'; readonly of: HeldQuestion }
  /** A statement of Headgate's own comes for this database: its catalog is, or will be, there. */
  | { readonly what: 'ensure'; readonly database: string }
  /** This database is about to be dropped or renamed. */
  | { readonly what: 'release'; readonly database: string }
  /** Another process opens a stream of this table: what streams have left here is to be stored before. */
  | { readonly what: 'settle'; readonly left: Left }
  /** Certificates are to be read again. */
  | { readonly what: 'reload' }
  /** Answers what was taken, takes nothing new, closes everything. */
  | { readonly what: 'drain' };

export interface Report {
  readonly metrics: readonly MetricFamily[];
  /** null: requests can be served; otherwise why not. */
  readonly unavailable: string | null;
}

/** Of questions that are not answered by having been done; null: it has none. */
export interface Answer {
  readonly report?: Report;
  readonly held?: HeldRequest | null;
}

export type ToListener =
  | { readonly kind: 'begin'; readonly assignment: Assignment }
  /** Comes with the connection. */
  | { readonly kind: 'connection' }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  /** What passed in other listener processes. */
  | { readonly kind: 'passed'; readonly passed: Passed }
  /** Of the fence with this id: whether all others have settled what they had. */
  | { readonly kind: 'fenced'; readonly id: number; readonly settled: boolean }
  | { readonly kind: 'spool'; readonly told: SpoolTold };

export type FromListener =
  | { readonly kind: 'serving' }
  /** It cannot begin; the message is for the terminal. */
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'said'; readonly observations: readonly Observation[] }
  /** So many connections have come, and so many have ended. */
  | { readonly kind: 'connections'; readonly taken: number; readonly ended: number }
  | { readonly kind: 'passed'; readonly passed: Passed }
  /** Outcomes, while they are asked for. */
  | { readonly kind: 'tail'; readonly batch: TailBatch }
  /** A stream of this table is about to be opened. */
  | { readonly kind: 'fence'; readonly id: number; readonly left: Left }
  | { readonly kind: 'spool'; readonly said: SpoolSaid }
  /** What is asked by this question takes long, and gets on. */
  | { readonly kind: 'getsOn'; readonly id: number }
  /** What was asked is done, as well as it could be. */
  | { readonly kind: 'answer'; readonly id: number; readonly answer: Answer };
