/** Types only: where the rows of a table go that stays empty (WITH (into = …)). */

/** One reading of the connection string; never shown. */
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
