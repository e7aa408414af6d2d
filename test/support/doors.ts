/**
 * The running program on each kind of engine: what a test claims about webhook tables must hold for the embedded engine
 * and for an external PostgreSQL, here Debian's older one.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { onEnd } from './cleanup.ts';
import { startHeadgate } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { sampleOf, sampleSeed } from './sample.ts';
import { startServer } from './server.ts';
import { requireTool } from './tools.ts';

export interface Doors {
  readonly headgate: Headgate;
  /** Through the SQL door, as the owner of the database. */
  readonly client: Client;
  readonly database: string;
  /** Posts into a table of schema public: a path like `orders`. */
  readonly post: (table: string, body: string | Buffer, headers?: Record<string, string>) => Promise<Posted>;
  /** The rows of a query, as arrays of text. */
  readonly rows: (sql: string) => Promise<readonly (readonly (string | null)[])[]>;
}

export interface Posted {
  readonly status: number;
  readonly code: string;
  readonly text: string;
}

type Body = (t: TestContext, doors: Doors) => Promise<void>;
type Env = Readonly<Record<string, string>>;

const engines: Readonly<Record<string, (t: TestContext, body: Body, env: Env) => Promise<void>>> = {
  'the embedded engine': async (t, body, env) => {
    const headgate = await startHeadgate(t, { env });
    await body(t, await open(t, headgate, 'dev'));
  },
  'an external PostgreSQL': async (t, body, env) => {
    const postgres = requireTool(t, 'postgres');
    if (postgres === null) return;
    const server = await startServer(dirname(postgres));
    onEnd(t, 'server', () => server.close());
    const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
    const headgate = await startHeadgate(t, { env: { ...env, HEADGATE_DATABASE_URL: dsn } });
    await body(t, await open(t, headgate, 'postgres'));
  },
};

/** One test, whose steps are subtests that share the program: on one kind of engine, another one in each run, and in the long run on each. */
export function onSomeEngine(name: string, body: Body, env: Env = {}): void {
  for (const engine of sampleOf(Object.keys(engines), 1))
    void test(`${name}, on ${engine}`, async (t) => {
      t.diagnostic(sampleSeed);
      await engines[engine]?.(t, body, env);
    });
}

async function open(t: TestContext, headgate: Headgate, database: string): Promise<Doors> {
  const client = await headgate.client(t, database);
  return {
    headgate,
    client,
    database,
    post: async (table, body, headers = {}) => {
      const { status, text } = await headgate.post(`${database}/public/${table}`, body, headers);
      const { code = '' } = JSON.parse(text) as { code?: string };
      return { status, code, text };
    },
    rows: async (sql) => {
      const { rows } = await client.query<(string | null)[]>({
        text: sql,
        rowMode: 'array',
        types: { getTypeParser: () => (value: string | Buffer) => String(value) },
      });
      return rows;
    },
  };
}

/** Posts and expects this many rows to be committed. */
export async function accepted(posted: Promise<Posted>, rows = 1): Promise<void> {
  const { status, text } = await posted;
  assert.deepEqual([status, text], [200, `{"rows":${rows}}`]);
}

/** Posts and expects 422 with this text in the answer. */
export async function refusedBy(posted: Promise<Posted>, words: RegExp): Promise<void> {
  const { status, text } = await posted;
  assert.equal(status, 422, text);
  assert.match((JSON.parse(text) as { error: string }).error, words);
}
