/** Types only: what the main process and its listener processes say to each other. Plain values: they go as JSON. */
import type { MetricFamily } from '../../admin/merged-metrics.ts';
import type { EngineReach } from '../../engine/attached.ts';
import type { Passed } from '../../access/gate.ts';
import type { TailBatch } from '../../tables/tail.ts';
import type { Observation } from '../../tables/observations.ts';
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

export type Question =
  | { readonly what: 'report' }
  /** Whether outcomes are to be told as they come; those that are remembered first. */
  | { readonly what: 'tail'; readonly on: boolean }
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

export type ToListener =
  | { readonly kind: 'begin'; readonly assignment: Assignment }
  /** Comes with the connection. */
  | { readonly kind: 'connection' }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  /** What passed in other listener processes. */
  | { readonly kind: 'passed'; readonly passed: Passed }
  /** Of the fence with this id: whether all others have settled what they had. */
  | { readonly kind: 'fenced'; readonly id: number; readonly settled: boolean };

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
  /** What is asked by this question takes long, and gets on. */
  | { readonly kind: 'getsOn'; readonly id: number }
  /** `report`: of the question for it. Whatever else was asked is done, as well as it could be. */
  | { readonly kind: 'answer'; readonly id: number; readonly report: Report | null };
