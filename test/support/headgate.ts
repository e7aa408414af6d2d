/**
 * The real program for black-box tests: a child process on free ports with a data directory of its own, accessed only through
 * its doors. Everything it created is removed when the test ends, even if it fails.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { asked } from './asked.ts';
import type { Answer } from './asked.ts';
import { onEnd, removeFolder, wholeFile } from './cleanup.ts';
import type { Scope } from './cleanup.ts';
import { fromTemplate } from './template.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/**
 * One, so that the suite means the same on every machine; to run all of it on several listener processes:
 * `HEADGATE_TEST_LISTENERS=2 npm test`.
 */
const { HEADGATE_TEST_LISTENERS: count = '1' } = process.env;
const listeners = { HEADGATE_LISTENERS: count === '' ? '1' : count };

/**
 * Longer than any door takes: a connection that is neither accepted nor refused fails with a message, and the test with it.
 */
export const connectionTimeoutMillis = 60_000;

/** Longer than any start takes on a busy machine. */
const readyMs = 120_000;

/** The same options with which scripts/test.mjs runs the files. */
export const forSeconds = [
  '--require',
  fileURLToPath(new URL('../../../scripts/for-seconds.cjs', import.meta.url)),
];

export interface Ports {
  readonly listen: { host: string; port: number };
  readonly sql: { host: string; port: number };
  readonly gateway: { host: string; port: number };
  readonly admin: { host: string; port: number };
}

export interface StartOptions {
  /** Kept by the caller across restarts; if absent, created and removed here. */
  readonly dataDir?: string;
  /**
   * An empty data directory stays empty, and the start creates the cluster, which takes a second or two that other tests
   * avoid.
   */
  readonly fromNothing?: boolean;
  readonly args?: readonly string[];
  /** Replaces the free ports on loopback: everything else comes from `env`. */
  readonly onlyArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Shell commands that start the program: `ulimit -f 8; exec "$@" 2>/dev/full`. */
  readonly shell?: string;
  /** Standard error is a pipe that nothing reads. */
  readonly unread?: boolean;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class Headgate {
  readonly child: ChildProcess;
  readonly dataDir: string;
  readonly ended: Promise<Ended>;
  stdout = '';
  /** The log: one JSON object per line. */
  stderr = '';
  #ports: Ports | null = null;

  constructor(child: ChildProcess, dataDir: string, unread = false) {
    this.child = child;
    this.dataDir = dataDir;
    this.ended = new Promise((resolve) =>
      child.once(unread ? 'exit' : 'close', (code, signal) => resolve({ code, signal })),
    );
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    if (!unread) child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
  }

  get ports(): Ports {
    assert(this.#ports !== null, 'Headgate is ready');
    return this.#ports;
  }

  /** The arguments with which another one opens its doors on the same ports. */
  get samePorts(): readonly string[] {
    const doors = ['listen', 'sql', 'gateway', 'admin'] as const;
    return doors.map((door) => `--${door}-port=${this.ports[door].port}`);
  }

  get webhookUrl(): string {
    return `http://127.0.0.1:${this.ports.listen.port}/webhook`;
  }

  get gatewayUrl(): string {
    return `http://127.0.0.1:${this.ports.gateway.port}`;
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.ports.admin.port}`;
  }

  /** Resolves once the doors are open; rejects with the program's own message if it ends before. */
  async ready(): Promise<this> {
    const banner = new Promise<void>((resolve) => {
      const look = () => {
        // The last words of the banner, with the webhook listener and without, and while the database is away.
        if (
          /SELECT event, count\(\*\) FROM github_events|webhooks {2}off|is not ready yet[^]*\/metrics/.test(
            this.stdout,
          )
        )
          resolve();
      };
      this.child.stdout?.on('data', look);
      look();
    });
    const early = this.ended.then(({ code }) => {
      throw new Error(`headgate ended with ${code} before it was ready: ${this.stderr}`);
    });
    const late = new AbortController();
    const never = setTimeout(readyMs, null, { signal: late.signal }).then(() => {
      throw new Error(`headgate is not ready after ${readyMs} ms: ${this.stdout}${this.stderr}`);
    });
    never.catch(() => undefined);
    await Promise.race([banner, early, never]).finally(() => late.abort());
    this.#ports = JSON.parse(await readFile(join(this.dataDir, 'ports.json'), 'utf8')) as Ports;
    return this;
  }

  /** A node-postgres connection through the SQL door; closed with the test. */
  client(t: TestContext, database = 'dev'): Promise<Client> {
    return this.clientAs(t, 'root', database);
  }

  async clientAs(t: TestContext, user: string, database = 'dev'): Promise<Client> {
    const { port } = this.ports.sql;
    const client = new Client({ host: '127.0.0.1', port, user, database, connectionTimeoutMillis });
    client.on('error', () => {});
    await client.connect();
    onEnd(t, 'client', () => client.end());
    return client;
  }

  post(path: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Answer> {
    return asked(`${this.webhookUrl}/${path}`, { method: 'POST', body, headers });
  }

  signal(signal: NodeJS.Signals): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** On loopback. */
export const freePorts: readonly string[] = [
  '--listen-port=0',
  '--listen-host=127.0.0.1',
  '--sql-port=0',
  '--gateway-port=0',
  '--admin-port=0',
];

/** Starts the program without waiting for it. */
export async function spawnHeadgate(t: Scope, options: StartOptions = {}): Promise<Headgate> {
  const dataDir = options.dataDir ?? (await temporaryFolder(t));
  if (options.fromNothing !== true && !isExternal(options)) await fromTemplate(dataDir);
  // A flag given twice is refused.
  const ports = freePorts.filter(
    (flag) => options.args?.some((arg) => arg.split('=')[0] === flag.split('=')[0]) !== true,
  );
  const command = [
    process.execPath,
    ...forSeconds,
    cli,
    'start',
    ...(options.onlyArgs ?? [`--data-dir=${dataDir}`, ...ports, ...(options.args ?? [])]),
  ];
  const child = spawn(
    options.shell === undefined ? process.execPath : '/bin/sh',
    options.shell === undefined ? command.slice(1) : ['-c', options.shell, 'sh', ...command],
    {
      env: {
        PATH: process.env['PATH'],
        HOME: process.env['HOME'],
        ...listeners,
        // Most tests send no token.
        ...(isExternal(options) ? { HEADGATE_INSECURE: 'true' } : {}),
        ...options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  return watched(t, child, dataDir, options.unread);
}

/** Ended with the test, unless it has already ended. */
export function watched(t: Scope, child: ChildProcess, dataDir: string, unread = false): Headgate {
  const headgate = new Headgate(child, dataDir, unread);
  onEnd(t, 'headgate', async () => {
    if (child.exitCode === null && child.signalCode === null) await headgate.signal('SIGTERM');
  });
  return headgate;
}

export async function startHeadgate(t: Scope, options: StartOptions = {}): Promise<Headgate> {
  return (await spawnHeadgate(t, options)).ready();
}

/**
 * One for several tests of a file, started by the first that calls it. Call it at the top level of the file. No test may stop
 * it, read the whole log, or count what the others do as well.
 */
export function sharedHeadgate(options: StartOptions = {}): () => Promise<Headgate> {
  const file = wholeFile();
  let started: Promise<Headgate> | null = null;
  return () => (started ??= startHeadgate(file, options));
}

function isExternal({ env, args = [] }: StartOptions): boolean {
  return env?.['HEADGATE_DATABASE_URL'] !== undefined || args.some((arg) => arg.startsWith('--database-url'));
}

/** Removed at the end of the test, after everything opened in it is closed. */
export async function temporaryFolder(t: Scope): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-test-'));
  onEnd(t, folder, () => removeFolder(folder));
  return folder;
}
