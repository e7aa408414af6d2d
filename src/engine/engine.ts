/**
 * Where the tables live. Two engines implement this one seam: the embedded PostgreSQL (embedded.ts) and any
 * PostgreSQL by DSN (postgres.ts). Takes settings, gives connections; refuses with EngineError at start, and
 * afterwards lets callers meet connection errors, which they answer 503.
 */
import type { ConnectionOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { PlainError } from '../kit/plain-error.ts';

/** How to dial the engine's own port: the SQL door's relay speaks to it byte by byte. */
export type Endpoint =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly host: string;
      readonly port: number;
      readonly tls: boolean;
      /** How much of the server's certificate is believed, and ours; absent: everything is verified. */
      readonly tlsOptions?: ConnectionOptions;
    };

export interface Engine {
  readonly kind: 'embedded' | 'postgres';
  /** The database served when none is named. */
  readonly defaultDatabase: string;
  /**
   * For a client or a pool of the `pg` package, as Headgate's own role. Of several servers it names the one in use now;
   * a pool made with it follows when another is chosen.
   */
  clientConfig(database: string): ClientConfig;
  /** The same as another role; absent where Headgate does not decide who is let in without a password. */
  clientConfigAs?(database: string, role: string): ClientConfig;
  endpoint(): Endpoint;
  /** A write was refused because the server is read-only (25006): looks at once whether another is to be used. */
  doubt?(): void;
  /** Much was written that a start after an unclean end need not replay: sees to that beside everything else, where the engine is ours. */
  checkpoint?(): void;
  /** `server_version_num` of the engine as last seen, e.g. 180004; 0 before the first connection. */
  readonly serverVersion: number;
  /** null: reachable; otherwise why not, in one line without credentials. */
  readonly unavailable: string | null;
  /** null: it takes writes, as far as is known; otherwise why not. What only reads can go on. */
  readonly readOnly?: string | null;
  /** Ends at once, without order, an engine that is ours and does not end by itself. Never rejects. */
  cutOff?(): Promise<void>;
  /** Stops supervising and, where the engine is ours, the engine itself. */
  close(): Promise<void>;
}

/** The engine cannot be started or used as configured; the message is one line for the terminal. */
export class EngineError extends PlainError {
  override readonly name = 'EngineError';
}
