/** What the events gateway is opened with: where it listens, who may call, and the databases behind it. Types only. */
import type { TlsSource } from '../access/tls-source.ts';
import type { Limits } from '../config/limits.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import type { Observe } from '../observe/observations.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { EventStores } from './event-store.ts';
import type { GuardOptions } from './guard.ts';
import type { SqlSessions, SqlSurroundings } from './sql-sessions.ts';
import type { EventStreams } from './streams.ts';
import type { AskTokens } from './tokens.ts';

export interface GatewayOptions extends Omit<GuardOptions, 'secure'> {
  /** null: plain HTTP. */
  readonly tls: TlsSource | null;
  readonly observe: Observe;
  /** For sockets and what arrives on them. */
  readonly limits?: Limits;
  /** false: Node's parser reads every request. Default: true. */
  readonly fastPath?: boolean;
  /** 0: any free port. */
  readonly port: number;
  readonly fd?: ListenAt['fd'];
  readonly version: string;
  /** Monotonic, ms. */
  readonly clock?: () => number;
  readonly databases: GatewayDatabases;
  /** null or absent: no request is traced. */
  readonly tracer?: Pick<Tracer, 'begin' | 'end'> | null;
  /** The text of GET /v1/metrics; null: served elsewhere. */
  readonly metrics: { readonly contentType: string; readonly text: () => Promise<string> } | null;
}

export interface GatewayDatabases {
  /** The database named by `?database=`, or the default one; throws Refused if it does not exist. */
  readonly database: (name: string | undefined) => string;
  /** null: requests can be accepted; otherwise the reason, in one line without credentials. */
  readonly unavailable: () => string | null;
  readonly sql: SqlSurroundings;
  readonly events: EventStores;
  /** null: CREATE TOKEN has no tokens here. */
  readonly tokens: AskTokens | null;
}

/** What the door has opened for its requests. */
export interface OpenedGateway {
  readonly limits: Limits;
  readonly sessions: SqlSessions;
  readonly streams: EventStreams;
}
