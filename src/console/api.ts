/** Types only: the messages between the console's page and its server. Values of rows are texts, as PostgreSQL writes them. */
import type { TailLine } from '../observe/tail.ts';
import type { Cause } from '../types/cause.ts';
import type { HmacForm, TriedRequest } from './custom-hmac.ts';
import type { KeptFilter, RequestResult } from './request-filter.ts';

/** GET /console/api/login: how to log in. */
export interface LoginInfo {
  /** `link`: by a one-time link; `password`: by role and password of the SQL port. */
  readonly by: 'link' | 'password';
  readonly database: string;
}

/** POST /console/api/login. */
export type LoginRequest =
  | { readonly link: string }
  /** The key of a link of `SharedKey`. */
  | { readonly shared: string }
  | { readonly user: string; readonly password: string; readonly database?: string };

export interface Login {
  readonly token: string;
}

/** POST /console/api/share: what stands behind `#s=` in a link that logs in once, as the role of this session. */
export interface SharedKey {
  readonly key: string;
}

/** POST /console/api/shared-link: whose login it shares. It stays usable, unless `drop` is true: then it is none any more. */
export interface SharedCall {
  readonly key: string;
  readonly drop: boolean;
}

export interface SharedLogin {
  readonly role: string;
  readonly database: string;
  /** How long a login by it may last at most. */
  readonly leftMs: number;
}

/** GET /console/api/me. */
export interface Me {
  readonly role: string;
  readonly superuser: boolean;
  /** It may create tables in some schema of the database, or schemas. */
  readonly creates: boolean;
  readonly database: string;
  /** The login came of a link by which another one is shared: it is shared no further, and stays in its database. */
  readonly shared: boolean;
  /** The same in all tabs of the login; it gives no rights. */
  readonly login: string;
  /**
   * The part before `/webhook/…`, as senders reach it if HEADGATE_PUBLIC_URL is set, otherwise as this machine does; null: the listener
   * is off.
   */
  readonly base: string | null;
  /** The same, as this machine reaches it. */
  readonly own: string | null;
  /** The events gateway's URL, as this machine calls it. */
  readonly gateway: string;
  /** HEADGATE_PUBLIC_URL is set. */
  readonly public: boolean;
  readonly version: string;
  readonly engine: string;
  /** For psql: host, port and role. */
  readonly psql: string;
  /** Of refusals, by which requests may be filtered. */
  readonly codes: readonly string[];
  /** Those of them whose requests are kept, if there is room. */
  readonly keptCodes: readonly string[];
}

/** POST /console/api/sql. */
export interface SqlCall {
  readonly sql: string;
  /** false: one statement in a read-only transaction. true: as given, possibly several statements. */
  readonly write: boolean;
  /**
   * true: a statement of the console itself. Each of its names means PostgreSQL's own object, whatever the role's search_path is:
   * other roles may have created functions there that fit the arguments better.
   */
  readonly own?: boolean;
  /** The time zone of the result; '' or absent: the role's. */
  readonly zone?: string;
}

/** POST /console/api/which-sender: the check of a table, and the names of its secrets there. Answered with a SenderName, or null. */
export interface SenderCheck {
  readonly expression: string;
  readonly secrets: readonly string[];
}

export interface SenderName {
  readonly id: string;
  readonly name: string;
}

export interface SqlColumn {
  readonly name: string;
  /** pg_type.oid */
  readonly type: number;
}

export interface SqlTable {
  readonly columns: readonly SqlColumn[];
  /** As the engine wrote them: no digits are parsed as a number. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** As psql prints it, e.g. `INSERT 0 1`; '' if only the first rows were read. */
  readonly command: string;
  /** There are more rows than shown. */
  readonly more: boolean;
}

export interface SqlNotice {
  readonly severity: string;
  readonly message: string;
  readonly detail: string | null;
  readonly hint: string | null;
}

export interface SqlResponse {
  /** One for each statement that returns something; the last one is the answer. */
  readonly tables: readonly SqlTable[];
  readonly notices: readonly SqlNotice[];
  readonly ms: number;
}

/** Any answer other than 2xx. */
export interface ApiError {
  readonly error: string;
  /** A code of refusals.ts, or `sql_error`. */
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
  /** How many more occurred than are shown. */
  readonly skipped: number;
  /** Once a second: why no request can be accepted at present; null: they can. Absent: this event does not say. */
  readonly notReady?: string | null;
}

/** POST /console/api/requests: a page of the list of all requests. */
export interface ListCall {
  readonly filter: KeptFilter;
  /** The arrival, in ms, and id of a request beyond which the page begins; null: the newest. */
  readonly from: readonly [number, string] | null;
  readonly counts: boolean;
}

export interface ListAnswer {
  /** Newest first. */
  readonly rows: readonly ListedRequest[];
  /** Where the next page begins; null: there is none. */
  readonly next: readonly [number, string] | null;
  /** A text was looked for in so many of the requests that were kept, and there are more; null: in all. */
  readonly lookedThrough: number | null;
  /** The database does not answer: only what is remembered. */
  readonly away: boolean;
  readonly counts: ListCounts | null;
}

export interface ListCounts {
  readonly by: Readonly<Record<RequestResult, number>>;
  /** Refused ones that the database has: only they can be retried. */
  readonly kept: number;
  /** false: the text of the filter was left out. */
  readonly whole: boolean;
  /** Of the oldest; null: there is none. */
  readonly rememberedSinceMs: number | null;
  /** What arrived before is not remembered, whatever became of it. */
  readonly forgottenMs: number;
  readonly refusedSinceMs: number | null;
  readonly handshakesSinceMs: number | null;
}

/** `id`: `r` and a number: refused and kept; `h`: a handshake that was kept; otherwise one that a process remembers. */
export interface ListedRequest extends Omit<TailLine, 'oid' | 'door'> {
  /** `spool`: accepted while the database was away, and refused afterwards. */
  readonly door: TailLine['door'] | 'spool';
  /** Of those that were kept. */
  readonly reason: string | null;
  readonly cause: Cause | null;
  readonly authenticated: boolean | null;
  readonly keptBytes: number | null;
  /** By the role: it may be retried and deleted. */
  readonly owned: boolean | null;
  /** `retry_outcome`: `waiting`, `running`, `committed` ("Retried: stored"), or why it was not stored; null: it was not retried. */
  readonly retry: string | null;
}

/** A sender that Headgate knows, for the wizard. */
export interface SenderInfo {
  readonly id: string;
  readonly name: string;
  /** Other names by which people look for it. */
  readonly aliases: readonly string[];
  readonly theme: string;
  /** What the secret is, and where it is found. */
  readonly what: string;
  readonly where: string;
  readonly steps: readonly string[];
  /** The option `format` of its table. */
  readonly format: 'json' | 'form' | 'text';
  /** Columns for the event's name and the delivery's id that the document gives, as SQL. */
  readonly columns: readonly string[];
  /** The same from headers, as INCLUDE clauses. */
  readonly includes: readonly string[];
  /** Where a repeated delivery has the id of the first one, as `dedupe = 'sender'` reads it; null: nobody has verified that there is one. */
  readonly once: string | null;
  /** Its place among those that are used most, from 1; null: it is not one of them. */
  readonly rank: number | null;
  /** People make up the secret and type it at the sender; false: the sender shows it. */
  readonly chosen: boolean;
  /** How old a signature may be, in seconds; null: it has no time, or none that is checked. */
  readonly toleranceS: number | null;
  /** A second secret, which only its question needs, such as a verify token; null: none. */
  readonly answerSecret: { readonly what: string; readonly where: string } | null;
  /** It brings its secret with its first question. */
  readonly learns: boolean;
  /** For a service that has ended, or will; null: it has not. */
  readonly ended: string | null;
  readonly signsUrl: boolean;
  readonly handshake: string | null;
  /** The secret is not a text that can be generated here. */
  readonly paired: boolean;
  /** The required form of a secret, in words; null: any text. */
  readonly form: string | null;
  readonly contentType: string;
  /** The headers that its check reads, and the one with its signature; null: in the body or in the URL. */
  readonly headers: readonly string[];
  readonly signatureHeader: string | null;
}

/** GET /console/api/health. */
export interface Health {
  /** null: requests can be accepted. */
  readonly notReady: string | null;
  readonly engine: string;
  readonly version: string;
  readonly uptimeS: number;
  readonly memoryBytes: number;
  /** Since the start: requests by code. */
  readonly requests: readonly { readonly code: string; readonly status: string; readonly count: number }[];
  readonly rows: number;
  /** Upper bounds of the buckets that contain the quantiles, in s; null: no request yet. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly waitingRows: number;
  readonly listeners: readonly {
    readonly listener: number;
    readonly serving: boolean;
    readonly connections: number;
  }[];
}

/** GET /console/api/machine, for superusers and members of pg_monitor; null: for others. */
export interface Machine {
  readonly node: string;
  /** The disk of the data directory; null: it cannot be read. */
  readonly disk: {
    readonly folder: string;
    readonly freeBytes: number;
    readonly totalBytes: number;
    /** The database is on it, too. */
    readonly embedded: boolean;
    /** How long a flush takes (median), in ms; null: it cannot be measured. */
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
    readonly damaged: number;
  } | null;
  readonly certificates: readonly CertificateInfo[];
}

export interface CertificateInfo {
  readonly door: string;
  /** The names for which it is valid. */
  readonly names: string;
  /** The earliest end of validity in its chain. */
  readonly untilMs: number;
  readonly state: 'valid' | 'expires soon' | 'expired' | 'not yet valid' | 'unreadable';
}

/** POST /console/api/send; `database` is the session's. */
export interface TestRequest {
  /** '': the request is not signed. */
  readonly sender: string;
  /** '': the table's own. */
  readonly secret: string;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

export interface TestAnswer {
  readonly status: number;
  readonly text: string;
  /** What was sent, in base64; absent: its body was given. */
  readonly body?: string;
}

/** POST /console/api/try-hmac: which of the ways to sign gives the signature of this request. The secret is not kept. */
export interface HmacTrial {
  readonly form: HmacForm;
  readonly secret: string;
  readonly request: TriedRequest;
}

export interface HmacVerdict {
  /** What the form says of the request, in order; the first that is false decides. */
  readonly steps: readonly { readonly ok: boolean; readonly text: string }[];
  /** A form that fits, if this one does not; null: none that was tried does. */
  readonly fits: HmacForm | null;
}

/** POST /console/api/retry: all requests that these filters match (retry-routes.ts). GET returns the state of the last retry. */
export interface RetryCall {
  readonly filter: KeptFilter;
  /** Includes requests that VALIDATE did not accept. */
  readonly force: boolean;
}

export interface RetryState {
  readonly kind: 'running' | 'done' | 'cancelled' | 'failed';
  /** Those that match and were not stored yet. */
  readonly total: number;
  readonly asked: number;
  /** The results of `headgate.retry_rejected`, and how often each occurred; and how many were `stored already`. */
  readonly said: readonly (readonly [string, number])[];
  /** The outcomes of the retried requests. */
  readonly outcomes: readonly (readonly [string, number])[];
  /** For `failed`. */
  readonly error: string | null;
}

/** POST /console/api/replay; goes to a table of the session's database, and nowhere else. */
export interface ReplayRequest {
  readonly schema: string;
  readonly table: string;
  readonly method: string;
  /** What follows the path, with its `?`; '': none. */
  readonly query: string;
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
  /** true: signed as the table's sender signs; false: sent with the headers unchanged. */
  readonly sign: boolean;
  /** Whether the request that it was made from has passed the table's check, or the table has none. */
  readonly checked: boolean;
  /** The table's name, which a person has typed to have signed what no check has accepted; '' otherwise. */
  readonly vouched: string;
}
