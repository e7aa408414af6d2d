/** A table that takes rows: a webhook table, or any relation that the events gateway stores rows in. Types only. */
import type { TableAnswers, Learns } from './answers.ts';
import type { Dedupe } from './table-options.ts';
import type { RequestCheck, WhyRefused } from './request.ts';
import type { Shape } from './shape.ts';

/**
 * A table that takes rows, as one reading of the catalog found it. Immutable; a changed table is a new Target. All of it is made when the table is read, so
 * that a request only looks it up and calls its closures: of a webhook table from the rows of the schema headgate (catalog/target.ts), of another relation
 * from PostgreSQL's catalog (gateway/relations.ts) or RisingWave's (risingwave/relations.ts), without check and options.
 */
export interface Target {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid */
  readonly oid: number;
  /**
   * What VALIDATE has become, with the secrets in it: the closure in `checkOf` (validate/program.ts), which shows by an example what runs. null: the table
   * has no VALIDATE. `'unusable'`: its VALIDATE cannot be evaluated now: 503, never accepted.
   */
  readonly check: RequestCheck | null | 'unusable';
  /** Keys that the check needs and that are fetched (validate/key-sets.ts); absent: it needs none. */
  readonly fetchedKeys?: FetchedKeys | undefined;
  /** The check reads the body as it was before it was decompressed. */
  readonly readsEncodedBody?: boolean | undefined;
  /** Why the check refuses a request; absent: there is no check, or the reason cannot be told. */
  readonly whyRefused?: WhyRefused | undefined;
  /** Whose webhooks these are, if its check is a known sender's; absent: it is not. */
  readonly sender?: KnownSender | undefined;
  /** Absent: the table has no ANSWER. */
  readonly answers?: TableAnswers | undefined;
  /** false: answered after COMMIT without waiting for the disk (webhook.wait_for_persistence = false). */
  readonly waitsForDisk: boolean;
  /** The database has Headgate's lock tables, so that transactions with the same keys can wait for each other in order. */
  readonly hasLocks: boolean;
  readonly shape: Shape;
  readonly code: Code;
  readonly intake: Intake;
  /** The methods of requests that are stored; absent: only POST. */
  readonly methods?: ReadonlySet<string> | undefined;
  readonly spool?: SpoolChoice | undefined;
  /** Absent: every request is stored, however often it is sent. */
  readonly dedupe?: Dedupe | undefined;
  /** Absent: the table names no topics of AWS SNS. */
  readonly sns?: SnsTopics | undefined;
  /** Subscriptions of Event Grid, in lower case, that are confirmed by a URL. */
  readonly eventGrid?: ReadonlySet<string> | undefined;
  /** The content of accepted requests may be looked at (console/accepted-requests.ts). */
  readonly inspected?: boolean | undefined;
  /** It is compared with the log of its sender (reconcile/). */
  readonly reconciled?: boolean | undefined;
  /** Absent: rows go into the table itself. */
  readonly into?: Into | undefined;
}

/** Keys of issuers of tokens, as a check needs them. */
export interface FetchedKeys {
  /** null: they are there. Otherwise resolves once they are; rejects with Refused if they cannot be fetched now. */
  ready(): Promise<void> | null;
  /** To be called at once after a check that was not true: whether keys were fetched again because a token named one that was not there. */
  renewed(): Promise<boolean>;
}

/** What is known of a table's sender without its secret. */
export interface KnownSender {
  /** Its id; null: the check is nobody's that Headgate knows. */
  readonly id: string | null;
  /** The name of a request's event; null: not known. Reads the body as JSON: not for the path of a request. */
  event(rawHeaders: readonly string[], body: Buffer | null): string | null;
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
  /** `headgate move` has closed its database: nothing is kept any more. */
  readonly isMoved?: boolean | undefined;
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
  /** Only roles that could act as Headgate's may rename the table's schema. */
  readonly schemaTrusted: boolean;
  /** The role that must be allowed to write into the table, whoever stores its rows. */
  readonly writer: string;
  /**
   * The schema with functions that spare the engine work. `headgate`: of webhook tables, always. `headgate_functions`, which has only confirm and stays: of
   * relations that the gateway's role may read, in databases of the embedded engine (gateway/gateway-functions.ts). null: of all other relations.
   */
  readonly functionsIn: 'headgate' | 'headgate_functions' | null;
  /** pg_type.oid of arrays of its rows: what stores them says by it which table it means, where there are no such functions; absent: that cannot be. */
  readonly rowsType?: number;
}

/** What happens to a webhook request's body and headers: what decode must know about a table. */
export interface Intake {
  readonly format: 'json' | 'form' | 'text' | 'bytes';
  /** What becomes of the files of a form: absent, their names, types and sizes; `content`: their bytes, too, in base64. */
  readonly files?: 'content' | undefined;
  /** Text that JSONB cannot hold is replaced by U+FFFD; absent: it is refused. */
  readonly replaces?: boolean | undefined;
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
      readonly what:
        | 'headers'
        | 'timestamp'
        | 'body'
        | 'method'
        | 'path'
        | 'query'
        | 'remote address'
        | 'traceparent';
      readonly column: string;
    };

/** Where the rows of a table go that stays empty (WITH (into = …)): one reading of the connection string; never shown. */
export interface Into {
  /** Another one whenever the connection string is. */
  readonly key: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** `verified`: and it is known who answers. */
  readonly tls: 'none' | 'encrypted' | 'verified';
  /** Its owner is no superuser: a server that lets Headgate in without asking for the password is not used. */
  readonly passwordRequired: boolean;
}
