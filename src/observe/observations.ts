/**
 * Everything that Headgate reports, typed once. Log lines, metrics and test spies read this one union;
 * rooms report what happened and never log or count themselves.
 */
import type { RefusalCode } from '../errors/refusals.ts';

type WhatHappened =
  /** A request was answered. `table` is null for a path that names no table: label sets stay bounded. */
  | {
      readonly kind: 'request.answered';
      readonly table: AnsweredTable | null;
      readonly status: number;
      /** `handshake`: a handshake was answered. */
      readonly code: RefusalCode | 'committed' | 'handshake' | 'spooled';
      /** 0 of a delivery that was stored before (`dedupe`), whatever its sender reads. */
      readonly rows: number;
      /** Rows that were not newer than what the table has; absent: none. */
      readonly stale?: number;
      readonly seconds: number;
      /** ms since 1970; absent if no request was read. */
      readonly arrivedAtMs?: number;
      /** Of a request that led to no table, without its query, up to 200 characters. */
      readonly path?: string;
      /** The client's address, behind trusted proxies; that of the connection if no request was read. */
      readonly remoteAddress?: string;
      /** Announced length of the body; absent if none was announced. */
      readonly bytes?: number;
      /** The id by which the request can be looked up (console/accepted-requests.ts). */
      readonly held?: string;
      /** Absent: the request is not traced. */
      readonly traceId?: string;
    }
  /** A request hit a bug in Headgate; `requestId` is in the answer. */
  | { readonly kind: 'request.failed'; readonly requestId: string; readonly error: unknown }
  /**
   * The events gateway answered. `code`: of refusals.ts, `ok`, `sql_error` for the engine's own errors, or `answer_aborted`: the connection ended before the
   * whole result was sent.
   */
  | {
      readonly kind: 'gateway.answered';
      readonly requestId: string;
      readonly route: 'events' | 'sql' | 'stream' | 'other';
      readonly remoteAddress: string;
      readonly status: number;
      readonly code: RefusalCode | 'ok' | 'sql_error' | 'answer_aborted';
      readonly rows: number;
      readonly seconds: number;
      /** Absent: the request is not traced. */
      readonly traceId?: string;
    }
  /** A reader follows the rows of a table from now on; `gateway.answered` reports the end, and how many rows there were. */
  | { readonly kind: 'stream.opened'; readonly requestId: string; readonly remoteAddress: string }
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
      readonly table: AnsweredTable | null;
      readonly code: RefusalCode | 'committed';
      readonly rows: number;
      readonly stale?: number;
      readonly seconds: number;
      /** Absent: the batch is not traced. */
      readonly traceId?: string;
    }
  /** For a terminal: how many more answers there were than those that it was told of (request-lines.ts). */
  | { readonly kind: 'requests.more'; readonly requests: number; readonly refused: number }
  | {
      readonly kind: 'group.committed';
      readonly table: TableName;
      readonly rows: number;
      readonly bytes: number;
      readonly seconds: number;
      /** The rows went to another server than the table's database, and that server determined `seconds`. */
      readonly elsewhere?: true;
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
  /** The answer to a commit was lost, and the engine was asked for the outcome. */
  | {
      readonly kind: 'group.settled';
      readonly table: TableName;
      readonly rows: number;
      readonly fate: 'committed' | 'aborted' | 'unknown';
    }
  /** Documents were stored without members whose keys are no columns; `keys`: the first such keys of the table. */
  | {
      readonly kind: 'keys.ignored';
      readonly table: AnsweredTable;
      readonly documents: number;
      readonly keys: readonly string[];
    }
  /** Values that did not fit their columns were stored as NULL, because the table's owner has chosen this. */
  | { readonly kind: 'values.nulled'; readonly table: TableName; readonly values: number }
  | {
      readonly kind: 'secret.learned' | 'secret.contested';
      readonly table: TableName;
      readonly secret: string;
      readonly remoteAddress: string;
    }
  | { readonly kind: 'sns.certificate' | 'sns.confirmed' | 'event_grid.confirmed'; readonly table: TableName }
  | { readonly kind: 'sns.failed' | 'event_grid.failed'; readonly table: TableName; readonly reason: string }
  /** Keys of an issuer of tokens (VALIDATE with jwks). */
  | { readonly kind: 'jwks.fetched'; readonly url: string; readonly keys: number }
  | { readonly kind: 'jwks.failed'; readonly url: string; readonly reason: string }
  /** Requests that were answered but not stored, because their delivery is already stored. */
  | { readonly kind: 'deliveries.repeated'; readonly table: TableName; readonly deliveries: number }
  /** Requests that were not stored, because their delivery's id came before with another body: each is kept for its owner, or its sender has it still. */
  | { readonly kind: 'deliveries.differ'; readonly table: TableName; readonly deliveries: number }
  /** Rows that changed nothing, because they were not newer than what their table has (the option `version`). */
  | { readonly kind: 'rows.stale'; readonly table: TableName; readonly rows: number }
  | { readonly kind: 'engine.starting'; readonly engine: string }
  | {
      readonly kind: 'engine.ready';
      readonly engine: string;
      readonly version: string;
      readonly seconds: number;
    }
  | { readonly kind: 'engine.lost'; readonly engine: string; readonly reason: string }
  /** Since the start it has not been reached. */
  | { readonly kind: 'engine.unreachable'; readonly engine: string; readonly reason: string }
  | { readonly kind: 'engine.orphan_stopped'; readonly pid: number }
  | { readonly kind: 'engine.said'; readonly line: string }
  | { readonly kind: 'engine.stopped'; readonly engine: string }
  | {
      readonly kind: 'catalog.loaded';
      readonly database: string;
      readonly tables: number;
      /** How many of them answer 503. */
      readonly unusable: number;
      readonly version: number;
    }
  | { readonly kind: 'catalog.unreadable'; readonly database: string; readonly reason: string }
  | { readonly kind: 'catalog.sealed_otherwise'; readonly database: string; readonly reason: string }
  | { readonly kind: 'catalog.table_unusable'; readonly table: TableName; readonly reason: string }
  /** An ANSWER of the table is ignored; its other requests are served. */
  | { readonly kind: 'catalog.answer_unusable'; readonly table: TableName; readonly reason: string }
  | {
      readonly kind: 'catalog.migrated';
      readonly database: string;
      readonly from: number;
      readonly to: number;
    }
  /** The schema headgate was gone, and an empty one was made: what it held of so many tables is lost. */
  | {
      readonly kind: 'catalog.lost';
      readonly database: string;
      readonly tables: number;
      readonly reason: string;
    }
  /** A row was sent on (docs/deliver.md), or was not. */
  | {
      readonly kind: 'delivery.attempted';
      readonly table: TableName;
      readonly row: string;
      readonly outcome: 'delivered' | 'failed' | 'dead';
      /** null: it was delivered. */
      readonly reason: string | null;
    }
  /** Rows of a table that wait to be sent on, those that had all their attempts, and how long the oldest one waits. */
  | {
      readonly kind: 'delivery.counted';
      readonly table: TableName;
      readonly open: number;
      readonly dead: number;
      readonly oldestS: number;
    }
  | { readonly kind: 'delivery.resumed'; readonly table: TableName; readonly host: string }
  /** Its receiver does not accept rows, or wants no more (410). */
  | {
      readonly kind: 'delivery.down';
      readonly table: TableName;
      readonly host: string;
      readonly ended: boolean;
      readonly reason: string;
    }
  /** The database, or the table, does not let its rows be sent on. */
  | { readonly kind: 'delivery.failed'; readonly table: TableName; readonly reason: string }
  /** Rows were removed that a table is no longer to keep. */
  | { readonly kind: 'keep.removed'; readonly table: TableName; readonly rows: number }
  /** Such rows cannot be removed; the table's owner finds the same reason in headgate.kept. */
  | { readonly kind: 'keep.refused'; readonly table: TableName; readonly reason: string }
  | { readonly kind: 'keep.failed'; readonly database: string; readonly reason: string }
  /** The log of a sender was read. `missing`: deliveries that have not come; `asked`: those of them that were asked for now. */
  | {
      readonly kind: 'reconcile.read';
      readonly table: TableName;
      readonly missing: number;
      readonly asked: number;
      readonly calls: number;
    }
  /** It was not read to its end; the table's owner finds the same reason in headgate.gaps. `repeated`: as in the turn before, of this process. */
  | {
      readonly kind: 'reconcile.refused';
      readonly table: TableName;
      readonly reason: string;
      readonly repeated: boolean;
    }
  | { readonly kind: 'reconcile.failed'; readonly database: string; readonly reason: string }
  /** Refused requests were written to headgate.rejected_requests. */
  | { readonly kind: 'rejected.stored'; readonly database: string; readonly rows: number }
  /** Refused requests were dropped: too many of one table in a short time, too many waiting, or the engine did not take them. */
  | {
      readonly kind: 'rejected.dropped';
      readonly database: string;
      readonly why: 'rate' | 'queue' | 'engine';
      readonly rows: number;
    }
  /** The engine allows no more connections for commits than these; reported once. */
  | {
      readonly kind: 'commit.connections_limited';
      readonly database: string;
      readonly connections: number;
      readonly reason: string;
    }
  /** A sender sent a handshake to a table that answers some. */
  | {
      readonly kind: 'handshake.asked';
      readonly table: TableName;
      readonly outcome: 'answered' | 'unmatched' | 'too_many';
    }
  /** Handshakes were not written to headgate.handshakes: too many of one table, too many waiting, or the engine did not take them. */
  | {
      readonly kind: 'handshakes.dropped';
      readonly database: string;
      readonly why: 'rate' | 'queue' | 'engine';
      readonly rows: number;
    }
  /** Refused requests cannot be written at present; reported once until they can. */
  | { readonly kind: 'rejected.unwritable'; readonly database: string; readonly reason: string }
  /** `outcome`: committed, unknown, or the code of the refusal. */
  | {
      readonly kind: 'rejected.retried';
      readonly database: string;
      readonly id: string;
      readonly outcome: RefusalCode | 'committed' | 'unknown';
    }
  /** The database takes no rows of a table: its requests go to the disk from now on. */
  | { readonly kind: 'spool.entered'; readonly table: TableName }
  /** All requests of the table have reached the database. */
  | { readonly kind: 'spool.left'; readonly table: TableName; readonly seconds: number }
  /** A request is on the disk. */
  | { readonly kind: 'spool.kept'; readonly table: TableName; readonly rows: number }
  /** Requests from the disk have reached the database. */
  | {
      readonly kind: 'spool.arrived';
      readonly table: TableName;
      readonly requests: number;
      readonly rows: number;
    }
  /** The database refused a request from the disk; it is in headgate.rejected_requests. */
  | {
      readonly kind: 'spool.refused';
      readonly table: TableName;
      readonly code: RefusalCode;
      readonly reason: string;
    }
  /** The requests kept for a table do not reach the database, and are tried again; reported once for consecutive failures that are all the same. */
  | { readonly kind: 'spool.blocked'; readonly table: TableName; readonly reason: string }
  /** A spool that belongs to another database or cannot be read: it is left as it is. */
  | {
      readonly kind: 'spool.held';
      readonly database: string;
      readonly spool: string;
      readonly reason: string;
    }
  /**
   * A part of a segment could not be read. `requests`: how many were in it; null: nothing tells. `place`: where it was put aside; null:
   * nothing is left of it.
   */
  | {
      readonly kind: 'spool.damaged';
      readonly database: string;
      readonly segment: string;
      readonly bytes: number;
      readonly requests: number | null;
      readonly reason: string;
      readonly place: string | null;
    }
  /** Headgate stops, and so many requests at most are on its disk and not in the database. */
  | {
      readonly kind: 'spool.waiting';
      readonly database: string;
      readonly requests: number;
      readonly folder: string;
    }
  /** The disk of the spool has failed; reported once for consecutive failures of one kind. */
  | { readonly kind: 'spool.failed'; readonly database: string; readonly reason: string }
  /** The disk of the spool works again, after so many failures. */
  | { readonly kind: 'spool.works'; readonly database: string; readonly failures: number }
  /** Tables are to spool, but cannot; reported once. */
  | { readonly kind: 'spool.unavailable'; readonly reason: string }
  | { readonly kind: 'sql.connected'; readonly session: number; readonly remoteAddress: string }
  /** A client of the SQL door was refused before it had a session: mostly a wrong password. */
  | {
      readonly kind: 'sql.login_failed';
      readonly remoteAddress: string;
      readonly user: string;
      readonly sqlstate: string;
    }
  /** A session of the console was opened as this role, by a link or a password. */
  | {
      readonly kind: 'console.entered';
      readonly user: string;
      readonly by: 'password' | 'link' | 'shared link';
      readonly remoteAddress: string;
    }
  /** A link was made that logs in once, as this role. */
  | { readonly kind: 'console.shared'; readonly user: string; readonly remoteAddress: string }
  /** An invalid link, a wrong password, or too many attempts; `user`: '' for a link. */
  | { readonly kind: 'console.login_failed'; readonly user: string; readonly remoteAddress: string }
  | { readonly kind: 'sql.closed'; readonly session: number; readonly reason: string }
  | { readonly kind: 'sql.rewritten'; readonly session: number; readonly statements: number }
  /** A statement hit a bug in Headgate; its client reads XX000. */
  | { readonly kind: 'sql.failed'; readonly session: number; readonly error: unknown }
  /** A door's certificate is in use from now on. */
  | {
      readonly kind: 'tls.loaded';
      readonly door: string;
      readonly subject: string;
      readonly expiresAtMs: number;
    }
  /** The certificate in use expires soon, has expired, or is not valid yet: reported at once, and every day. */
  | {
      readonly kind: 'tls.doubtful';
      readonly door: string;
      readonly subject: string;
      readonly state: 'expires soon' | 'expired' | 'not yet valid';
      readonly validFrom: string;
      readonly validUntil: string;
    }
  /** The files of a door's certificate have changed and cannot be used: the door continues with the old certificate. */
  | { readonly kind: 'tls.unusable'; readonly door: string; readonly reason: string }
  /** An authority is asked for a certificate. */
  | { readonly kind: 'certificate.asked'; readonly domains: readonly string[] }
  | {
      readonly kind: 'certificate.made';
      readonly domains: readonly string[];
      readonly expiresAtMs: number;
    }
  /** The authority issued none; it is asked again after `pauseMs`. */
  | {
      readonly kind: 'certificate.failed';
      readonly domains: readonly string[];
      readonly reason: string;
      /** In a row. */
      readonly failures: number;
      readonly pauseMs: number;
    }
  /** The place where certificates are kept cannot be read or written; reported once for consecutive failures that are all the same. */
  | { readonly kind: 'certificate.unkept'; readonly reason: string }
  | { readonly kind: 'door.opened'; readonly door: string; readonly address: string }
  /** An alert was delivered: how many conditions hold, and how many are over. */
  | { readonly kind: 'alerts.told'; readonly firing: number; readonly over: number }
  /** An alert could not be delivered; reported once for consecutive failures that are all the same. */
  | { readonly kind: 'alerts.failed'; readonly reason: string }
  /** The receiver of traces has spans. */
  | { readonly kind: 'spans.sent'; readonly spans: number }
  /** Spans that nobody will see: too many waited, the receiver did not take them, or Headgate stopped. */
  | {
      readonly kind: 'spans.dropped';
      readonly why: 'queue' | 'refused' | 'stopped';
      readonly spans: number;
    }
  /** Traces or metrics cannot be sent; reported once for consecutive failures that are all the same. */
  | { readonly kind: 'telemetry.failed'; readonly what: 'traces' | 'metrics'; readonly reason: string }
  | { readonly kind: 'telemetry.works'; readonly what: 'traces' | 'metrics' }
  | { readonly kind: 'operator.leading'; readonly identity: string }
  | { readonly kind: 'operator.following'; readonly identity: string; readonly leader: string }
  | { readonly kind: 'operator.lease_failed'; readonly identity: string; readonly reason: string }
  | { readonly kind: 'operator.watch_failed'; readonly resource: string; readonly reason: string }
  | { readonly kind: 'operator.reconciled'; readonly resource: string; readonly seconds: number }
  | { readonly kind: 'operator.reconcile_failed'; readonly resource: string; readonly reason: string }
  | {
      readonly kind: 'operator.told';
      readonly resource: string;
      readonly reason: string;
      readonly note: string;
    }
  | { readonly kind: 'operator.too_many'; readonly resource: string }
  /** A listener process accepts requests. */
  | { readonly kind: 'listener.started'; readonly pid: number; readonly seconds: number }
  /** A listener process has ended that should not have; another takes its place after `pauseMs`. */
  | {
      readonly kind: 'listener.lost';
      readonly pid: number;
      readonly reason: string;
      readonly pauseMs: number;
    }
  /** A line that a listener process wrote to standard error, or that not all of its lines could be reported. */
  | { readonly kind: 'listener.said'; readonly line: string }
  /** Log lines could not be written; now they can again. */
  | { readonly kind: 'log.lost'; readonly lines: number; readonly reason: string }
  /** How many lines of a kind were left out because there were too many. */
  | { readonly kind: 'log.thinned'; readonly of: string; readonly lines: number }
  | { readonly kind: 'service.ready' }
  /** The doors are open, and requests get 503 or are spooled until the database can be used; then `service.ready` follows. */
  | { readonly kind: 'service.waiting'; readonly reason: string }
  | { readonly kind: 'service.draining'; readonly reason: string }
  /** Something did not close in time and is cut off; what was committed is kept. */
  | { readonly kind: 'service.cut_off'; readonly what: string; readonly afterMs: number }
  | { readonly kind: 'service.stopped' };

/** `listener`: the number of the listener process concerned; absent: the main process, or there are no others. */
export type Observation = WhatHappened & { readonly listener?: number };

export interface TableName {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

/** `oid`: pg_class.oid; absent if only its name is known. */
interface AnsweredTable extends TableName {
  readonly oid?: number;
  readonly sender?: { readonly id: string | null } | undefined;
}

/**
 * Made by `observers` (context.ts) of those who read observations: the log, metrics, alerts and the readiness of the process (admin/, alerts/, engine/), the
 * console's tail, and the counts of answers for owners (`Rejects`). None of them changes what becomes of a request.
 */
export type Observe = (observation: Observation) => void;
