/** Types only: what the console's page and its server say to each other. Values of rows are texts, as PostgreSQL writes them. */
import type { TailLine } from '../tables/tail.ts';
import type { RefusedFilter } from './statements.ts';

/** Of GET /console/api/login: how somebody gets in. */
export interface LoginInfo {
  /** `link`: by a one-time link; `password`: by role and password of the SQL port. */
  readonly by: 'link' | 'password';
  readonly database: string;
}

/** Of POST /console/api/login. */
export type LoginRequest =
  | { readonly link: string }
  | { readonly user: string; readonly password: string; readonly database?: string };

export interface Login {
  readonly token: string;
}

/** Of GET /console/api/me. */
export interface Me {
  readonly role: string;
  readonly superuser: boolean;
  readonly database: string;
  /** Before `/webhook/…`, as senders reach it where HEADGATE_PUBLIC_URL is set, else as this machine does; null: the listener is off. */
  readonly base: string | null;
  /** The same as this machine does. */
  readonly own: string | null;
  /** Of the events gateway, as this machine calls it. */
  readonly gateway: string;
  /** HEADGATE_PUBLIC_URL is set. */
  readonly public: boolean;
  readonly version: string;
  readonly engine: string;
  /** For psql: host, port and role. */
  readonly psql: string;
}

/** Of POST /console/api/sql. */
export interface SqlCall {
  readonly sql: string;
  /** false: one statement in a read-only transaction. true: as it is, several statements too. */
  readonly write: boolean;
}

export interface SqlColumn {
  readonly name: string;
  /** pg_type.oid */
  readonly type: number;
}

export interface SqlTable {
  readonly columns: readonly SqlColumn[];
  /** As the engine wrote them: no digit is read as a number. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** As psql prints it, e.g. `INSERT 0 1`; '' where only the first rows were read. */
  readonly command: string;
  /** There were more rows than are shown. */
  readonly more: boolean;
}

export interface SqlNotice {
  readonly severity: string;
  readonly message: string;
  readonly detail: string | null;
  readonly hint: string | null;
}

export interface SqlAnswer {
  /** One for each statement that yields something; the last one is the answer. */
  readonly tables: readonly SqlTable[];
  readonly notices: readonly SqlNotice[];
  readonly ms: number;
}

/** Of every answer that is not 2xx. */
export interface ApiError {
  readonly error: string;
  /** Of refusals.ts, or `sql_error`. */
  readonly code: string;
  readonly sqlstate?: string;
  readonly detail?: string;
  readonly hint?: string;
  /** 1-based, in characters of the SQL. */
  readonly position?: number;
}

/** One event of GET /console/api/tail. */
export interface TailEvent {
  readonly lines: readonly TailLine[];
  /** So many more came than are shown. */
  readonly skipped: number;
}

/** A sender that Headgate knows, for the wizard. */
export interface SenderInfo {
  readonly id: string;
  readonly name: string;
  readonly theme: string;
  /** What the secret is, and where it is found. */
  readonly what: string;
  readonly where: string;
  readonly steps: readonly string[];
  /** Header that tells a repeated delivery; null: none. */
  readonly deliveryHeader: string | null;
  readonly signsUrl: boolean;
  readonly handshake: string | null;
  /** The secret is no text that can be made up here. */
  readonly paired: boolean;
  /** What a secret has to be like, in words; null: any text will do. */
  readonly form: string | null;
  readonly contentType: string;
  /** What its check reads, and where its signature stands; null: in the body or in the URL. */
  readonly headers: readonly string[];
  readonly signatureHeader: string | null;
}

/** Of GET /console/api/health. */
export interface Health {
  /** null: requests can be taken. */
  readonly notReady: string | null;
  readonly engine: string;
  readonly version: string;
  readonly uptimeS: number;
  readonly memoryBytes: number;
  /** Since the start: requests by code. */
  readonly requests: readonly { readonly code: string; readonly status: string; readonly count: number }[];
  readonly rows: number;
  /** Upper bounds of the bucket in which the quantile lies, in s; null: no request yet. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly waitingRows: number;
  readonly listeners: readonly {
    readonly listener: number;
    readonly serving: boolean;
    readonly connections: number;
  }[];
}

/** Of GET /console/api/machine, for superusers and members of pg_monitor; null: for others. */
export interface Machine {
  readonly node: string;
  /** Of the data directory; null: it cannot be looked at. */
  readonly disk: {
    readonly folder: string;
    readonly freeBytes: number;
    readonly totalBytes: number;
    /** The database is on it, too. */
    readonly embedded: boolean;
    /** How long a write takes to be on it (median), in ms; null: none can be made. */
    readonly flushMs: number | null;
    readonly low: boolean;
    readonly slow: boolean;
  } | null;
  /** null: nothing spools. */
  readonly spool: {
    readonly takes: boolean;
    readonly bytes: number;
    readonly tables: number;
    readonly held: number;
  } | null;
  readonly certificates: readonly CertificateInfo[];
}

export interface CertificateInfo {
  readonly door: string;
  /** For which it is. */
  readonly names: string;
  /** Of it and of those that lead to its authority. */
  readonly untilMs: number;
  readonly state: 'valid' | 'expires soon' | 'expired' | 'not yet valid' | 'unreadable';
}

/** Of POST /console/api/send; `database` is the session's. */
export interface TestRequest {
  /** '': nobody signs it. */
  readonly sender: string;
  readonly secret: string;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

export interface TestAnswer {
  readonly status: number;
  readonly text: string;
}

/** Of POST /console/api/retry: all that these filters match (statements.ts). GET gives the state of the last one. */
export interface RetryCall {
  readonly filter: RefusedFilter;
  /** What VALIDATE has not accepted too. */
  readonly force: boolean;
}

export interface RetryState {
  readonly kind: 'running' | 'done' | 'cancelled' | 'failed';
  readonly total: number;
  readonly asked: number;
  /** What `headgate.retry_rejected` has said, and how often. */
  readonly said: readonly (readonly [string, number])[];
  /** What became of those that were asked for. */
  readonly outcomes: readonly (readonly [string, number])[];
  /** Of `failed`. */
  readonly error: string | null;
}

/** Of POST /console/api/replay; goes to a table of the session's database, and nowhere else. */
export interface ReplayRequest {
  readonly schema: string;
  readonly table: string;
  readonly method: string;
  /** Behind the path, with its `?`; '': none. */
  readonly query: string;
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
  /** Signed as the table's sender signs; false: sent with the headers as they are. */
  readonly sign: boolean;
}
