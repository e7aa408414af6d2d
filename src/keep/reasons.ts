/** What is said in headgate.kept if rows of a table are not removed. Pure. */
import type { Looked } from './statements.ts';

/** For the owner of the table. */
export const reasons = {
  noTime: 'no column takes the time of arrival: INCLUDE TIMESTAMP AS column, of type TIMESTAMPTZ',
  stranger: (name: string) =>
    `removing its rows could run code of role "${name}" (foreign keys, partitions, tables that inherit)`,
  landlord: (name: string) =>
    `its schema belongs to role "${name}", which could put another table in its place`,
  owner: ({ ownerName, role }: Looked) =>
    `removing its rows runs code of its owner: GRANT "${ownerName}" TO "${role}", and let that role create schemas in the database`,
  unfit: (schema: string) =>
    `the schema "${schema}", in which Headgate makes its functions, belongs to another role, or others may use it: drop it`,
  slow: 'finding the oldest rows takes too long: CREATE INDEX on the column of their arrival',
} as const;

/** Why the rows of a table are not removed for now; null: it is no longer the table that was meant. */
export class Left extends Error {
  readonly why: string | null;

  constructor(why: string | null) {
    super(why ?? 'changed');
    this.why = why;
  }
}
