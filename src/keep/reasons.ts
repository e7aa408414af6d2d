/** What is said in headgate.kept if rows of a table are not removed. Pure. */
/** For the owner of the table. */
export const reasons = {
  noTime: 'no column takes the time of arrival: INCLUDE TIMESTAMP AS column, of type TIMESTAMPTZ',
  landlord: (name: string) =>
    `its schema belongs to role "${name}", which could put another table in its place`,
  held: 'somebody holds a lock on the table, or on rows that could not be passed over: the next turn tries again',
  condition: (problem: string) => `keep_if is no condition on a row: ${problem}`,
  strange: (name: string) =>
    `keep_if names column "${name}", whose type is not PostgreSQL's own: its casts could be code of another role`,
  slow: 'finding the oldest rows takes too long: CREATE INDEX on the column of their arrival',
} as const;

/** Why the rows of a table are not removed for now; null: it is no longer the table that was meant. */
export class NotRemoved extends Error {
  readonly why: string | null;

  constructor(why: string | null) {
    super(why ?? 'changed');
    this.why = why;
  }
}
