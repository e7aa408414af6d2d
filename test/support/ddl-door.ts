/** A session through src/ddl on a real PostgreSQL, without the wire in between. */
import assert from 'node:assert/strict';
import { Client, type DatabaseError } from 'pg';
import { createRewriter } from '../../src/ddl/rewrite.ts';
import { fromBytes, testRooms, toBytes } from './ddl-rooms.ts';

const rewrite = createRewriter(testRooms());
const session = {
  database: 'postgres',
  user: 'postgres',
  standardConformingStrings: true,
  clientEncoding: 'UTF8',
};
export const webhook = (name: string): string =>
  `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook')`;

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly detail?: string;
  /** 1-based, in the original text. */
  readonly position: number | null;
}

/** A client as seen through the SQL door: its statements are rewritten, and error positions are mapped back. */
export class Door {
  readonly client: Client;
  readonly notices: string[] = [];

  constructor(socketDir: string, user: string, database = 'postgres') {
    this.client = new Client({ host: socketDir, user, database });
    this.client.on('notice', (notice) => this.notices.push(`${notice.severity}: ${notice.message}`));
  }

  async run(sql: string, extended = false): Promise<unknown[][]> {
    const made = rewrite(toBytes(sql), session);
    const result = made?.kind === 'deferred' ? await made.prepare() : made;
    assert.notEqual(result?.kind, 'error', JSON.stringify(result));
    const text = result?.kind === 'rewritten' ? fromBytes(result.sql) : sql;
    const answer = await this.client.query({
      text,
      rowMode: 'array',
      ...(extended ? { name: `s${sql}`.slice(0, 60) } : {}),
    });
    const answers = [answer].flat();
    // Of the statements behind the last of Headgate's there are no tags.
    if (result?.kind === 'rewritten') assert.ok(answers.length >= result.tags.length);
    return answers.at(-1)?.rows ?? [];
  }

  /** Whether the statement is passed on, changed or not, rather than refused before PostgreSQL reads it. */
  passes(sql: string): boolean {
    return rewrite(toBytes(sql), session)?.kind !== 'error';
  }

  async fails(sql: string): Promise<Failure> {
    const result = rewrite(toBytes(sql), session);
    const failure = await this.run(sql).then(
      () => assert.fail(`no error: ${sql}`),
      (error: unknown) => error as DatabaseError,
    );
    let position: number | null = null;
    if (
      result?.kind === 'rewritten' &&
      failure.internalPosition !== undefined &&
      failure.internalQuery !== undefined
    ) {
      const at = result.sql.indexOf(toBytes(failure.internalQuery)) + Number(failure.internalPosition) - 1;
      position = result.originalOffset(at) + 1;
    } else if (result?.kind === 'rewritten' && failure.position !== undefined) {
      position = result.originalOffset(Number(failure.position) - 1) + 1;
    }
    return {
      code: failure.code ?? '',
      message: failure.message,
      position,
      ...(failure.detail ? { detail: failure.detail } : {}),
    };
  }
}

export async function rows(door: Door, sql: string): Promise<unknown[][]> {
  return (await door.client.query({ text: sql, rowMode: 'array' })).rows as unknown[][];
}
