/**
 * Where the tables live. Two engines implement this one interface: the embedded PostgreSQL (embedded.ts) and any
 * PostgreSQL by DSN (postgres.ts). Takes settings, provides connections; refuses with EngineError at startup; later,
 * callers get connection errors, which they answer with 503.
 */
import type { ConnectionOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { PlainError } from '../kit/plain-error.ts';

/** How to connect to the engine's own port: the SQL door's relay speaks to it byte by byte. */
export type Endpoint =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly host: string;
      readonly port: number;
      readonly tls: boolean;
      /** How far the server's certificate is verified, and Headgate's own certificate; absent: everything is verified. */
      readonly tlsOptions?: ConnectionOptions;
    };

export interface Engine {
  readonly kind: 'embedded' | 'postgres';
  /** The database that is served if none is named. */
  readonly defaultDatabase: string;
  /**
   * For a client or a pool of the `pg` package, as Headgate's own role. If there are several servers, it refers to the
   * one in use now; a pool made with it follows when another is chosen.
   */
  clientConfig(database: string): ClientConfig;
  /** The same as another role; absent if Headgate does not decide who is let in without a password. */
  clientConfigAs?(database: string, role: string): ClientConfig;
  endpoint(): Endpoint;
  /** Called when a write was refused because the server is read-only (25006): checks at once whether to use another server. */
  doubt?(): void;
  /**
   * Called when much has been written that a start after an unclean end need not replay: runs a checkpoint in the background, if the
   * engine is Headgate's own.
   */
  checkpoint?(): void;
  /** `server_version_num` of the engine as last seen, e.g. 180004; 0 before the first connection. */
  readonly serverVersion: number;
  /** How many connections all roles together may have there, as last seen; 0 or absent: not known, or a bound of Headgate's own. */
  readonly connectionsMax?: number;
  /** null: reachable; otherwise the reason, in one line without credentials. */
  readonly unavailable: string | null;
  /** null: it accepts writes, as far as is known; otherwise the reason. Reading is still possible. */
  readonly readOnly?: string | null;
  /** Ends an engine of Headgate's own at once, uncleanly, if it does not end otherwise. Never rejects. */
  cutOff?(): Promise<void>;
  /** Stops supervising and, if the engine is Headgate's own, the engine itself. */
  close(): Promise<void>;
}

/** The engine cannot be started or used as configured; the message is one line for the terminal. */
export class EngineError extends PlainError {
  override readonly name = 'EngineError';
}
