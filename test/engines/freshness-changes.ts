/** Eleven kinds of change that Headgate has to notice, each with requests that are right after it, or were right before. */

export interface Send {
  readonly door: 'webhook' | 'events';
  readonly table: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Change {
  readonly name: string;
  /** Each is a statement of a role that owns everything. */
  readonly before: readonly string[];
  readonly change: string;
  /** Not one of Headgate's statements: it is made in the database, past every Headgate. */
  readonly isPlain?: boolean;
  /** Accepted from the change on. */
  readonly right?: Send;
  /** Accepted until the change. */
  readonly wrong?: Send;
}

const checked = (secret: string): string =>
  `VALIDATE SECRET ${secret} AS secure_compare(headers->>'x', ${secret})`;
export const webhook = `WITH (connector = 'webhook')`;
const x = (value: string) => ({ headers: { x: value } });

export const changes: readonly Change[] = [
  {
    name: 'ALTER SECRET',
    before: [
      `CREATE SECRET s1 WITH (backend = 'meta') AS 'old'`,
      `CREATE TABLE a1 (data JSONB) ${webhook} ${checked('s1')}`,
    ],
    change: `ALTER SECRET s1 AS 'new'`,
    right: { door: 'webhook', table: 'a1', ...x('new') },
    wrong: { door: 'webhook', table: 'a1', ...x('old') },
  },
  {
    name: 'ALTER TABLE … VALIDATE',
    before: [
      `CREATE SECRET s2 WITH (backend = 'meta') AS 'old'`,
      `CREATE SECRET s3 WITH (backend = 'meta') AS 'new'`,
      `CREATE TABLE a2 (data JSONB) ${webhook} ${checked('s2')}`,
    ],
    change: `ALTER TABLE a2 ${checked('s3')}`,
    right: { door: 'webhook', table: 'a2', ...x('new') },
    wrong: { door: 'webhook', table: 'a2', ...x('old') },
  },
  {
    name: 'CREATE TABLE',
    before: [],
    change: `CREATE TABLE a3 (data JSONB) ${webhook}`,
    right: { door: 'webhook', table: 'a3' },
  },
  {
    name: 'DROP TABLE',
    before: [`CREATE TABLE a4 (data JSONB) ${webhook}`],
    change: 'DROP TABLE a4',
    isPlain: true,
    wrong: { door: 'webhook', table: 'a4' },
  },
  {
    name: 'RENAME TO',
    before: [`CREATE TABLE a5 (data JSONB) ${webhook}`],
    change: 'ALTER TABLE a5 RENAME TO b5',
    isPlain: true,
    right: { door: 'webhook', table: 'b5' },
    wrong: { door: 'webhook', table: 'a5' },
  },
  {
    name: 'SET SCHEMA',
    before: ['CREATE SCHEMA IF NOT EXISTS elsewhere', `CREATE TABLE a6 (data JSONB) ${webhook}`],
    change: 'ALTER TABLE a6 SET SCHEMA elsewhere',
    isPlain: true,
    right: { door: 'webhook', table: 'elsewhere/a6' },
    wrong: { door: 'webhook', table: 'a6' },
  },
  {
    name: 'ADD COLUMN',
    before: [`CREATE TABLE a7 (id INT, note TEXT) ${webhook}`],
    change: 'ALTER TABLE a7 ADD COLUMN extra TEXT',
    isPlain: true,
    right: { door: 'events', table: 'a7', body: '{"extra":"there"}' },
  },
  {
    name: 'ALTER COLUMN … TYPE',
    before: [`CREATE TABLE a8 (n INT, note TEXT) ${webhook}`],
    change: 'ALTER TABLE a8 ALTER COLUMN n TYPE TEXT',
    isPlain: true,
    right: { door: 'webhook', table: 'a8', body: '{"n":"a text"}' },
  },
  {
    name: 'OWNER TO',
    before: [`CREATE TABLE a9 (data JSONB) ${webhook}`],
    change: 'ALTER TABLE a9 OWNER TO fresh_owner',
    isPlain: true,
    right: { door: 'webhook', table: 'a9' },
  },
  {
    name: 'DROP TOKEN',
    before: [`CREATE TABLE a10 (data JSONB) ${webhook}`, 'CREATE TOKEN t10 FOR INSERT ON a10'],
    change: 'DROP TOKEN t10',
    wrong: { door: 'events', table: 'a10', body: '{"data":{}}' },
  },
  {
    name: 'DROP VALIDATE',
    before: [
      `CREATE SECRET s11 WITH (backend = 'meta') AS 'old'`,
      `CREATE TABLE a11 (data JSONB) ${webhook} ${checked('s11')}`,
    ],
    change: 'ALTER TABLE a11 DROP VALIDATE',
    right: { door: 'webhook', table: 'a11' },
  },
];
