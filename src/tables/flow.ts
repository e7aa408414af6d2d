/**
 * Types only: what the rooms pass to each other. No room imports another stage; they meet here and are joined
 * in ingest.ts and main.ts.
 */
import type { Dedupe } from './delivery-id.ts';
import type { Into } from './into.ts';
import type { Refusal } from './refusals.ts';

/** A request up to its headers, with the function that reads its body. */
export interface Arrival {
  readonly method: string;
  /** The request target as received: path and query, undecoded. */
  readonly target: string;
  /** Header names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  readonly header?: HeaderReader | undefined;
  /** Time of arrival, ms since 1970. */
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** The announced length of the body; 0 or absent: unknown. */
  readonly announcedBytes?: number;
  /** Reads the body; throws `Refused` (408, 411, 413, 415 …), or rejects with it. Called at most once. */
  body(): Buffer | Promise<Buffer>;
}

/** The value of a header, by its name in lower case, without reading the others. null: absent; undefined: received more than once. */
export type HeaderReader = (name: string) => string | null | undefined;

/** What a VALIDATE expression may read. */
export interface CheckRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly header?: HeaderReader | undefined;
  readonly arrivedAtMs: number;
  readonly body: Buffer;
}

/** A compiled VALIDATE expression: true accepts; false, NULL and every error refuse. Never throws. */
export type Check = (request: CheckRequest) => boolean;

/** The first thing that was not true, in one line for the owner, without secrets and data of the sender. Costs far more than the check. */
export type WhyRefused = (request: CheckRequest) => string;

/** The answer to a sender's handshake. */
export interface HandshakeAnswer {
  readonly status: number;
  /** Content-Type; null: none. */
  readonly type: string | null;
  /** Names and values in turn: visible ASCII. */
  readonly headers: readonly string[];
  /** One char for each byte. */
  readonly body: string;
  /** The secret that came with the handshake, for a rule that learns. */
  readonly learned?: string;
}

/** One compiled ANSWER … WHEN. */
export interface Answering {
  /** Methods that it can match; null: any. */
  readonly methods: ReadonlySet<string> | null;
  /** null: it does not match. Never throws because of a request. */
  readonly answer: (request: CheckRequest) => HandshakeAnswer | null;
}

/** The secret that a rule learns, while its window is open. */
export interface Learns {
  readonly name: string;
  /** The id under which it is sealed now. */
  readonly sealId: string;
  /** Its value; '': none yet. */
  readonly value: string;
}

export interface HandshakeRule extends Answering {
  /** Absent: it learns nothing. */
  readonly learns?: Learns;
  /** Its place among the ANSWER clauses of the table, from 1. */
  readonly place: number;
}

/** The answer to a committed request, instead of `{"rows":n}`. */
export interface CommittedAnswer extends HandshakeAnswer {
  /** Headers of the request that are returned under these names; `header` in lower case. */
  readonly echoes: readonly { readonly name: string; readonly header: string }[];
}

/** A sender's handshake and its result, for the owner of the table. */
export interface AskedHandshake {
  readonly target: Target;
  readonly method: string;
  readonly remoteAddress: string;
  /** ms since 1970 */
  readonly askedAtMs: number;
  /** The place of the rule that matched, from 1; null: none did. */
  readonly place: number | null;
  readonly status: number;
  readonly outcome: 'answered' | 'unmatched' | 'too_many';
}

/** The ANSWER clauses of a table. */
export interface Answers {
  /** Tried before VALIDATE, in order; the first match answers. */
  readonly unchecked: readonly HandshakeRule[];
  /** Tried once VALIDATE has accepted. */
  readonly checked: readonly HandshakeRule[];
  /** Whether one of them can match a POST. */
  readonly asksByPost: boolean;
  /** Whether one of them learns a secret. */
  readonly learns?: boolean;
  readonly committed: CommittedAnswer | null;
}

/** A table that takes rows, as one reading of the catalog found it. Immutable; a changed table is a new Target. */
export interface Target {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid */
  readonly oid: number;
  /** null: the table has no VALIDATE. `'unusable'`: its VALIDATE cannot be evaluated now: 503, never accepted. */
  readonly check: Check | null | 'unusable';
  /** Why the check refuses a request; absent: there is no check, or the reason cannot be told. */
  readonly whyRefused?: WhyRefused | undefined;
  /** Absent: the table has no ANSWER. */
  readonly answers?: Answers | undefined;
  /** false: answered after COMMIT without waiting for the disk (webhook.wait_for_persistence = false). */
  readonly waitsForDisk: boolean;
  /** The database has Headgate's lock tables, so that transactions with the same keys can wait for each other in order. */
  readonly hasLocks: boolean;
  readonly shape: Shape;
  readonly code: Code;
  readonly intake: Intake;
  readonly spool?: SpoolChoice | undefined;
  /** Absent: every request is stored, however often it is sent. */
  readonly dedupe?: Dedupe | undefined;
  /** Absent: the table names no topics of AWS SNS. */
  readonly sns?: SnsTopics | undefined;
  /** Subscriptions of Event Grid, in lower case, that are confirmed by a URL. */
  readonly eventGrid?: ReadonlySet<string> | undefined;
  /** The content of accepted requests may be looked at (console/held.ts). */
  readonly inspected?: boolean | undefined;
  /** Absent: rows go into the table itself. */
  readonly into?: Into | undefined;
}

export interface SnsTopics {
  /** By ARN. */
  readonly topics: ReadonlyMap<string, Readonly<Record<'arn' | 'region' | 'host', string>>>;
  /** The secret that holds the certificate: the first one of VALIDATE. */
  readonly secret: Learns;
}

/** What happens to webhooks of a table while its database is unreachable. */
export interface SpoolChoice {
  /** `fallback`: they are kept on Headgate's own disk. null: as the setting says. */
  readonly mode: 'off' | 'fallback' | null;
  /** The HTTP status of a request that was kept. */
  readonly status: 200 | 202;
}

/** Whose code runs when rows are stored, and with whose rights: docs/security.md. */
export interface Code {
  /** pg_class.relowner */
  readonly owner: number;
  /** The name of that role when the catalog was read. */
  readonly ownerName: string;
  /** Whose session stores its rows. `writer`: they run no code, and that role stores such rows of all owners. `headgate`: Headgate's own role, its own tables with code. */
  readonly as: 'writer' | 'headgate' | 'owner';
  /** The same for rows that are looked for, which PostgreSQL plans: code of statistics may run. `writer`: there is no other session. */
  readonly deletesAs: 'writer' | 'headgate' | 'owner';
  /** Storing a row ran nothing but harmless functions of PostgreSQL itself when the table was read. */
  readonly inert: boolean;
  /** The role that must be allowed to write into the table, whoever stores its rows. */
  readonly writer: string;
  /** The schema with functions that spare the engine work; `headgate_functions`, for the gateway's role, has only hold_inert and stays. null: none. */
  readonly functionsIn: 'headgate' | 'headgate_functions' | null;
}

/** The texts of one ANSWER, each as its owner wrote it. */
export interface AnswerText {
  readonly unchecked: boolean;
  /** null: it answers committed requests. */
  readonly when: string | null;
  readonly status: number | null;
  readonly type: string | null;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly body: string | null;
  /** The secret that is learned, and the text of its value; absent: none. */
  readonly learn?: { readonly secret: string; readonly value: string };
}

/** Which text of an ANSWER; a number: the value of that HEADER. */
export type AnswerPart = 'when' | 'body' | 'status' | 'type' | 'learn' | number;

/** How rows get into a table: what commit must know about it. */
export interface Shape {
  /**
   * The version of the table: its columns, and which of its parts run code. Compared inside the transaction that
   * stores the rows, so that no row enters a table of another shape.
   */
  readonly version: string;
  /**
   * `copy`: documents go unchanged into the one column of `columns`, which is jsonb and has no key.
   * Otherwise each document is a JSON object whose keys are names of `columns`, and a row whose key already exists is
   * refused by the engine (`insert`), replaced (`upsert`: the last writer wins), or left alone (`ignore`).
   */
  readonly writeMode: 'copy' | 'insert' | 'upsert' | 'ignore';
  /** The columns that are written, in the table's order: neither generated ones nor those that only their default fills. */
  readonly columns: readonly Column[];
  /** The primary key, in its order; empty: none. */
  readonly key: readonly KeyColumn[];
  /**
   * The column that takes whole documents: its member is always present, and a JSON null in it is a document like any other.
   * If the column is of type JSON, the member is a string that holds the document's text. null: keys fill the columns.
   */
  readonly document: string | null;
  /** What happens to a value that does not fit its column: the request is refused, or NULL is stored and counted. */
  readonly onTypeError: 'reject' | 'null';
  readonly distributedByCitus?: boolean;
}

export interface Column {
  readonly name: string;
  /** As PostgreSQL prints it, qualified if it is not PostgreSQL's own: `numeric(10,2)`, `public.mood`. */
  readonly type: string;
  /** pg_type.oid; for a domain, that of its base type. */
  readonly baseType: number;
  /** The SQL expression that fills the column if a document lacks the key; null: NULL. */
  readonly fallback: string | null;
}

export interface KeyColumn {
  readonly name: string;
  /** A generated column of the key is not written; this is the SQL expression over `columns` that computes it. */
  readonly generated: string | null;
  /** How the key's index compares the column; absent: by PostgreSQL's own `=`. */
  readonly equality?: Equality;
}

export interface Equality {
  /** For OPERATOR(…): `pg_catalog.=`, `public.=`. */
  readonly operator: string;
  /** What both sides are cast to, so that no other operator of that name fits better; null: the operator takes many types. */
  readonly type: string | null;
}

/** What happens to a webhook request's body and headers: what decode must know about a table. */
export interface Intake {
  readonly format: 'json' | 'form' | 'text' | 'bytes';
  /** The body has one document per line; all are stored, or none. */
  readonly batched: boolean;
  /** The column that takes the whole document; null: the document's keys fill the columns of the same name. */
  readonly document: string | null;
  /** What happens to members whose keys are no columns: ignored, refused, or put as one object into a JSONB column. */
  readonly unknown: 'ignore' | 'reject' | { readonly into: string };
  readonly includes: readonly Include[];
  /** Lower-case names of headers that INCLUDE HEADERS leaves out, because they carry credentials; null: all of them. */
  readonly hiddenHeaders: ReadonlySet<string> | null;
}

/** A column that is filled from the request, not from a document in its body. */
export type Include =
  | { readonly what: 'header'; readonly header: string; readonly column: string }
  | {
      readonly what: 'headers' | 'timestamp' | 'body' | 'method' | 'path' | 'query' | 'remote address';
      readonly column: string;
    };

/** What decode reads of a request besides its body. */
export type DecodeHead = Omit<Arrival, 'announcedBytes' | 'body'>;

export interface DecodeRequest extends DecodeHead {
  readonly body: Buffer;
}

/** JSON documents in one buffer. */
export interface Documents {
  readonly bytes: Buffer;
  /** Where each document begins and ends in `bytes`, in turn; null: all of it is one document. */
  readonly spans: Uint32Array | null;
}

/** The rows of one request, ready for the engine: all of them are committed, or none. */
export interface Rows {
  readonly target: Target;
  /** One document per row, in the form that `target.shape.writeMode` asks for. */
  readonly documents: Documents;
  readonly count: number;
  /** Their size as a lane counts it. */
  readonly bytes: number;
  /** 1 for a row that means: delete what has this key; null: no row does. */
  readonly deletes: Uint8Array | null;
  /** Rows that leave some columns of an existing row as they are, with the names; null: no row does. */
  readonly keeps: ReadonlyMap<number, readonly string[]> | null;
  /** Line of each row in its body, from 1; null: row i is line i + 1. */
  readonly lines: Uint32Array | null;
  /** How long the sender waits for the outcome, in ms from submission. */
  readonly ackTimeoutMs: number;
  readonly chain: Chain | null;
  /** null: no document had a member that is not stored. */
  readonly ignored: Ignored | null;
  /** Digest of the delivery's id, 32 hexadecimal digits; absent: it has none, or none is needed. */
  readonly delivery?: string;
  /** The same of what a copy of the delivery has to have in common with it; absent: its id is enough. */
  readonly content?: string;
}

/** Documents of which some members are not stored, because their keys are no columns. */
export interface Ignored {
  readonly documents: number;
  /** The first such keys of the table; one list for all of its rows, which may grow. */
  readonly keys: readonly string[];
}

/** Rows of one chain take effect in order: once some were not committed, none that are submitted after them are. */
export interface Chain {
  broken: boolean;
}

/** What became of a request's rows. `aborted`: certainly not stored. `unknown`: the connection was lost while committing; they may be stored. */
export type Outcome =
  /** `held`: the id by which the request can be looked up; absent: it cannot. */
  | { readonly kind: 'committed'; readonly rows: number; readonly held?: string }
  /** `row`: which of the rows is at fault, from 0, if known. */
  | { readonly kind: 'aborted'; readonly refusal: Refusal; readonly row?: number }
  | { readonly kind: 'unknown'; readonly refusal: Refusal };

/** A request that is on Headgate's disk, and becomes rows when the database is back. */
export interface Spooled {
  readonly kind: 'spooled';
  readonly rows: number;
  readonly held?: string;
  readonly status: 200 | 202;
  /** Its rows were with the lane before: a group that was given up may still be written to the engine, from the memory of the request. */
  readonly wasInLane: boolean;
}

/** A request whose delivery id is that of another delivery: its owner has it in headgate.rejected_requests, on the disk. */
export interface KeptApart {
  readonly kind: 'kept apart';
  readonly rows: number;
  readonly status: number;
}

/** A refused request, to be kept for the owner of the table. */
export interface RejectedRequest {
  readonly target: Target;
  readonly refusal: Refusal;
  /** `spool`: it was accepted, and the database refused it at the hand-over. */
  readonly door: 'http' | 'websocket' | 'spool';
  /** VALIDATE has accepted it, or the table has none. */
  readonly authenticated: boolean;
  readonly method: string;
  /** Path and query as received. */
  readonly requestTarget: string;
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** null: not read. */
  readonly body: Buffer | null;
}

/** A refused request that was kept, and for which the owner asks for another attempt. */
export interface KeptRequest {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid of the table that refused it. */
  readonly oid: number;
  readonly method: string;
  /** Path and query; the query's values are `***` if no column took them. */
  readonly requestTarget: string;
  /** As node:http gives them, without those of `leftOut`. */
  readonly rawHeaders: readonly string[];
  /** Lower-case names of the headers that were not kept. */
  readonly leftOut: ReadonlySet<string>;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly body: Buffer;
  /** It was kept because its delivery's id is that of another delivery, and is to be stored nevertheless. */
  readonly apart: boolean;
}

/** Runs a kept request through the stages again, without its check. Never rejects with Refused. */
export type RetryRejected = (request: KeptRequest) => Promise<Outcome>;

/** Requests of one table that go to the engine in one transaction. */
export interface Group {
  readonly target: Target;
  readonly members: readonly Rows[];
  readonly rows: number;
  readonly bytes: number;
}

/** The commit stage: one group in, one outcome per member out, in order. Never rejects. */
export type CommitGroup = (group: Group) => Promise<readonly Outcome[]>;
