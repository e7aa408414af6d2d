/** Who takes part in the path of a request (ingest.ts), and how far a request has come. Types only. */
import type { Catalog } from '../catalog/catalog.ts';
import type { StageContext } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import type { ConflictingDeliveries } from '../reject/conflicting-deliveries.ts';
import type { Rejects } from '../reject/rejected-requests.ts';
import type { Arrival } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import type { SenderHandshakes } from './handshake.ts';
import type { Pipeline } from './pipeline.ts';
import type { Sns } from './sns.ts';

/** Who takes part besides the way to the table; a retry has none of the optional ones. */
export interface Stages {
  readonly way: Pipeline;
  /** Read again when the engine has reported that the table has changed. */
  readonly catalog: Pick<Catalog, 'refresh'>;
  /** A monotonic clock, ms. */
  readonly clock: StageContext['clock'];
  /** Keeps refused requests for the owners of their tables. */
  readonly rejects?: Pick<Rejects, 'keep'>;
  /** Keeps requests with the id of another delivery; absent: they are refused. */
  readonly apart?: Pick<ConflictingDeliveries, 'keep'>;
  /** Called with what a request to an inspected table held, once it is stored; returns the id to look it up by. Never throws. */
  readonly hold?: (target: Target, arrival: Arrival, body: Buffer) => string;
  /** Certificates and confirmations of SNS, and confirmations of Event Grid; absent: off. */
  readonly sns?: Pick<Sns, 'certify' | 'stored'>;
  /** Answers the handshakes of senders; absent: none is answered. */
  readonly handshakes?: SenderHandshakes;
}

export interface IngestHooks {
  /** Called with the table that the request is for, as soon as it is known. */
  target(table: TableName & Pick<Target, 'answers'>): void;
}

/** How far a request has come. */
export interface RequestProgress {
  /** When it arrived, by the clock. */
  readonly sinceMs: number;
  /** What this attempt has found. */
  found: Target | null;
  target: Target | null;
  body: Buffer | null;
  authenticated: boolean;
  /** Its rows may be in flight to the engine. */
  submitted: boolean;
}
