/** What is shown of all spools: by /readyz, and by the metrics. Types only. */
import type { TableName } from '../observe/observations.ts';

export interface SpoolDetail {
  /** Requests for tables that spool are accepted, whatever the database does. */
  readonly takes: boolean;
  readonly bytes: number;
  readonly tables: number;
  /** Spools, by table, whose requests do not arrive: another database's, or without their master key. */
  readonly held: number;
  /** Parts of files that could not be read, and are kept aside. */
  readonly damaged: number;
}

export interface SpoolState {
  /** Of all files, including those created ahead. */
  readonly bytes: number;
  /** The limit for `bytes`. */
  readonly bytesMax: number;
  /** Spools left as they are: another database's, or without their key. */
  readonly held: number;
  /** Parts of files that could not be read, and are kept aside until a person removes them. */
  readonly quarantined: number;
  /** Tables with requests kept, or that wait until everything has arrived. */
  readonly tables: readonly {
    readonly name: TableName;
    readonly requests: number;
    readonly seconds: number;
  }[];
}
