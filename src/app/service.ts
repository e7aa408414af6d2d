/** A running service, and one that starts. Types only. */
import type { Console } from '../console/console.ts';
import type { Engine } from '../engine/engine.ts';
import type { Closer } from '../kit/closer.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import type { Readiness } from './readiness.ts';
import type { Stopped } from './stopping.ts';

export interface BoundAddress {
  readonly host: string;
  readonly port: number;
}

export interface Service extends Readiness {
  readonly engine: Engine;
  /** `listen` is null if the webhook listener is off. */
  readonly doors: {
    readonly listen: BoundAddress | null;
    readonly sql: BoundAddress;
    readonly gateway: BoundAddress;
    readonly admin: BoundAddress;
  };
  /** On the admin port; null: it is off. */
  readonly console: Console | null;
  /** Answers accepted requests, accepts no new ones, then closes (stopping.ts). Calling it again has no effect. */
  stop(reason: string): Promise<Stopped>;
  /** Reads the doors' certificates again; null: no door has one. */
  readonly reload: (() => Promise<void>) | null;
}

/** The engine while it starts, when only the log receives its observations. */
export interface EngineStarting {
  readonly opened: Promise<Engine>;
  /** Replays the observations until now, and passes on all later ones. */
  heardBy(observe: Observe): void;
}

export interface Starting {
  readonly settings: Settings;
  readonly log: Observe;
  readonly version: string;
  readonly engine: EngineStarting;
  readonly closer: Closer;
}
