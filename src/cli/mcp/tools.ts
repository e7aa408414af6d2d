/**
 * The tools of `headgate mcp`: what the commands print with --json, bounded, and a few SELECTs. Each runs with the rights of the role, on a
 * connection of its own, in a transaction that only reads; those that change something are there only with --allow-write. No tool sends
 * anything elsewhere, stores what a check refused (`force`), or takes or returns a secret.
 */
import { abortAfter } from '../../kit/abort-signal.ts';
import { hintOfRefusal } from '../../errors/refusals.ts';
import { limits } from '../../config/limits.ts';
import type { Settings } from '../../config/settings.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { quoteLiteral } from '../../kit/sql-text.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { senderPage } from '../../senders/sender-page.ts';
import { hintForSender, senderNamed } from '../../senders/senders.ts';
import { doctorCommand } from '../doctor.ts';
import { endpointsCommand } from '../endpoints.ts';
import { bodyOf, explainCommand } from '../explain.ts';
import type { Where } from '../find-headgate.ts';
import { initCommand } from '../init.ts';
import { sendersCommand } from '../senders.ts';
import { utcText, within } from '../session.ts';
import type { CommandSession } from '../session.ts';
import { perhaps, storedTables } from '../stored-requests.ts';
import { tailElsewhere } from '../tail.ts';
import type { ArgumentTypes } from './arguments.ts';
import { fetched } from './fetched.ts';
import { queryOf, queryRows, refuseCodeOf } from './query.ts';
import type { Tool, ToolResult } from './server.ts';

interface ToolSetting {
  readonly where: Where;
  readonly settings: Settings;
  readonly version: string;
  readonly io: CommandIo;
  readonly writes: boolean;
  /** Whether the role gets `query`. */
  readonly queries: boolean;
}

const table = { type: 'string', maxLength: 200, description: 'table, or schema.table' } as const;
const optional = { optional: true } as const;
const rowCount = {
  type: 'integer',
  minimum: 1,
  maximum: limits.mcpRowsMax,
  description: `at most so many, the newest first (default ${limits.mcpRowsMax})`,
  ...optional,
} as const;
const sinceMinutes = {
  type: 'integer',
  minimum: 1,
  maximum: 525_600,
  description: 'of the last so many minutes (default: a day)',
  ...optional,
} as const;
const requestId = {
  type: 'integer',
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'the id of a refused request',
} as const;

type ToolArguments = Readonly<Record<string, unknown>>;

const textOf = (given: ToolArguments, name: string): string => {
  const value = given[name];
  return typeof value === 'string' ? value : '';
};
const numberOf = (given: ToolArguments, name: string, otherwise: number): number => {
  const value = given[name];
  return typeof value === 'number' ? value : otherwise;
};

export function toolsOf(setting: ToolSetting): Tool[] {
  return [
    ...printed(setting),
    ...selected(setting),
    pages,
    ...(setting.queries ? [querying(setting)] : []),
    ...(setting.writes ? writing(setting) : []),
  ];
}

/** What commands print. */
function printed({ where, settings, version, io }: ToolSetting): Tool[] {
  const tool = (
    name: string,
    description: string,
    takes: ArgumentTypes,
    run: (given: ToolArguments, own: CommandIo) => Promise<number>,
  ): Tool => ({
    name,
    description,
    takes,
    writes: false,
    run: (given, signal) => printedBy(io, signal, (own) => run(given, own)),
  });
  const about = { version, local: false, which: 'one', json: true, alert: false } as const;
  return [
    tool(
      'endpoints',
      'The webhook tables of the role: address, check, rows, requests refused in 24 hours.',
      {},
      (_, own) => endpointsCommand(where, 'one', true, own),
    ),
    tool('explain', 'One refused request: why, and what to do.', { id: requestId }, (given, own) =>
      explainCommand(where, String(given['id']), true, own),
    ),
    tool(
      'wait',
      'Waits for the next request of a table, or of any table of the role, and its outcome.',
      {
        table: { ...table, ...optional },
        seconds: {
          type: 'integer',
          minimum: 1,
          maximum: limits.mcpWaitS,
          description: `how long (default ${limits.mcpWaitDefaultS})`,
          ...optional,
        },
      },
      async (given, own) => {
        await refuseNamed(where, given, own.signal);
        return next(where, given, own);
      },
    ),
    tool(
      'senders',
      'The senders that Headgate knows; with a word, those that have it in their name.',
      { word: { type: 'string', maxLength: 100, description: 'github, hub, facebook', ...optional } },
      async (given, own) => sendersCommand(given['word'] as string | undefined, true, own),
    ),
    tool('health', 'Problems of the database, its tables and the listener.', {}, (_, own) =>
      doctorCommand(where, settings, about, own),
    ),
  ];
}

/** `named`: looks names up, which mean the same to the role as elsewhere; `run` reads, under plain settings. */
const selecting =
  ({ where }: ToolSetting) =>
  <T>(
    name: string,
    description: string,
    takes: ArgumentTypes,
    named: (session: CommandSession, given: ToolArguments) => Promise<T>,
    run: (session: CommandSession, given: ToolArguments, found: T) => Promise<ToolResult>,
  ): Tool => ({
    name,
    description,
    takes,
    writes: false,
    run: (given, signal) =>
      connected(where, signal, async (session) => {
        const found = await named(session, given);
        await beginReading(session);
        return run(session, given, found);
      }),
  });

const relation = (session: CommandSession, given: ToolArguments): Promise<string> =>
  relationOf(session, textOf(given, 'table'));
const relationIfAny = async (session: CommandSession, given: ToolArguments): Promise<string | null> =>
  given['table'] === undefined ? null : relation(session, given);
const count = (given: ToolArguments): number => numberOf(given, 'limit', limits.mcpRowsMax);

function selected(setting: ToolSetting): Tool[] {
  const tool = selecting(setting);
  return [
    tool(
      'describe',
      'The CREATE TABLE of a table: columns, options, VALIDATE.',
      { table },
      relation,
      async (session, _, oid) => ({
        rows: await session.rows('SELECT * FROM headgate.show_create_table($1::oid)', [oid]),
      }),
    ),
    tool(
      'traffic',
      'Requests of each minute of the last day, by outcome, with latencies.',
      { table: { ...table, ...optional }, minutes: sinceMinutes },
      relationIfAny,
      (session, given, oid) => fetched(session, traffic(given, oid), limits.mcpQueryRowsMax),
    ),
    tool(
      'refused',
      'Requests that were refused and kept: reason, headers, the beginning of the body. Anybody may have written them.',
      {
        table: { ...table, ...optional },
        code: {
          type: 'string',
          maxLength: 64,
          description: 'of the refusal, such as signature_failed',
          ...optional,
        },
        minutes: sinceMinutes,
        limit: rowCount,
      },
      relationIfAny,
      async (session, given, oid) => {
        const found = await fetched(session, refused(given, oid), count(given));
        return { ...found, rows: found.rows.map(asExplained) };
      },
    ),
    tool(
      'rows',
      'Rows of a webhook table of the role, the newest first.',
      { table, limit: rowCount },
      async (session, given) => (await storedTables(session, [textOf(given, 'table')]))[0],
      async (session, given, found) => {
        if (found === undefined) throw new PlainError('this table does not exist');
        await refuseCodeOf(session, found);
        const order = found.arrival === null ? 't.ctid DESC' : `${found.arrival} DESC NULLS LAST`;
        return fetched(session, `SELECT t.* FROM ${found.from} t ORDER BY ${order}`, count(given));
      },
    ),
  ];
}

const pages: Tool = {
  name: 'sender',
  description: 'The page of a sender: its table, check, handshake, retries.',
  takes: { name: { type: 'string', maxLength: 100, description: 'as it follows USING' } },
  writes: false,
  run: async (given) => ({ rows: [{ page: pageOf(textOf(given, 'name')) }] }),
};

const querying = (setting: ToolSetting): Tool =>
  selecting(setting)(
    'query',
    `One SELECT with the rights of the role, at most ${limits.mcpQueryRowsMax} rows.`,
    { sql: { type: 'string', maxLength: 100_000, description: 'one SELECT, without volatile functions' } },
    (session, given) => queryOf(session, textOf(given, 'sql')),
    (session, _, query) => queryRows(session, query),
  );

function writing({ where, io }: ToolSetting): Tool[] {
  const ids = {
    type: 'array',
    items: { type: 'integer', minimum: 1 },
    maxItems: limits.mcpIdsMax,
    description: 'ids of refused requests',
  } as const;
  const each = (name: string, description: string, statement: string): Tool => ({
    name,
    description,
    takes: { ids },
    writes: true,
    run: async (given, signal) =>
      connected(where, signal, async (session) => {
        const rows: unknown[] = [];
        for (const id of given['ids'] as number[]) {
          if (signal.aborted) return { rows, truncated: true };
          rows.push({ id, ...(await session.rows(statement, [id]))[0] });
        }
        return { rows };
      }),
  });
  return [
    each(
      'retry',
      'Runs refused requests through the check again; those that pass are stored.',
      'SELECT headgate.retry_rejected($1::bigint)::text AS outcome',
    ),
    each(
      'forget',
      'Deletes refused requests that were kept.',
      'SELECT headgate.forget_rejected($1::bigint)::text AS deleted',
    ),
    {
      name: 'create_endpoint',
      description:
        'Creates a table and a secret for a known sender, and tries it with a signed delivery that is deleted again. A person then sets the sender’s secret with headgate secrets set.',
      takes: {
        sender: { type: 'string', maxLength: 100, description: 'as it follows USING' },
        table: { ...table, ...optional },
      },
      writes: true,
      run: async (given, signal) => {
        const named = typeof given['table'] === 'string' ? { table: given['table'] } : {};
        const made = await printedBy(io, signal, (own) =>
          initCommand(where, textOf(given, 'sender'), { json: true, wait: false, ...named }, own),
        );
        return {
          rows: made.rows.map((row) => ({
            ...(row as ToolArguments),
            secret: `set it with: headgate secrets set ${String((row as ToolArguments)['table'])}_secret`,
          })),
        };
      },
    },
  ];
}

/** A transaction that only reads; it ends with its connection. */
async function beginReading(session: CommandSession): Promise<void> {
  await session.begin('READ ONLY');
  await session.typed(`SET LOCAL statement_timeout = ${limits.mcpStatementMs}`);
}

async function connected(
  where: Where,
  signal: AbortSignal,
  run: (session: CommandSession) => Promise<ToolResult>,
): Promise<ToolResult> {
  return within(where.dsn, 'mcp', async (session) => {
    const stop = (): void => void session.close();
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await run(session);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  });
}

/** What a command prints with --json. */
async function printedBy(
  io: CommandIo,
  signal: AbortSignal,
  run: (io: CommandIo) => Promise<number>,
): Promise<ToolResult> {
  const printed: string[] = [];
  const noted: string[] = [];
  const { ask: _, columns: __, ...rest } = io;
  const own: CommandIo = {
    ...rest,
    print: (text) => void printed.push(text),
    note: (text) => void noted.push(text),
    colours: false,
    signal,
  };
  const status = await run(own);
  if (printed.length === 0 && status !== 0) throw new PlainError(noted.join('').trim());
  return {
    rows: printed
      .join('')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown),
  };
}

/** `wait` reads a table that is named if that runs no code of others, whoever its owner is. Throws PlainError. */
async function refuseNamed(where: Where, given: ToolArguments, signal: AbortSignal): Promise<void> {
  const name = textOf(given, 'table');
  if (name === '') return;
  await connected(where, signal, async (session) => {
    const [found] = await storedTables(session, [name]);
    await beginReading(session);
    if (found !== undefined) await refuseCodeOf(session, found);
    return { rows: [] };
  });
}

/** The first line that `tail` prints; nothing, if none comes in time. */
async function next(where: Where, given: ToolArguments, io: CommandIo): Promise<number> {
  const done = new AbortController();
  const waitMs = numberOf(given, 'seconds', limits.mcpWaitDefaultS) * 1000;
  const named = typeof given['table'] === 'string' ? { table: given['table'], trustOwner: true } : {};
  const print = (text: string): void => {
    if (!done.signal.aborted) io.print(text);
    done.abort();
  };
  const signal = abortAfter(waitMs, io.signal, done.signal);
  await tailElsewhere(where, { ...named, json: true }, { ...io, print, note: () => undefined, signal });
  return 0;
}

async function relationOf(session: CommandSession, name: string): Promise<string> {
  const oid = await session.relation(name);
  if (oid === null) throw new PlainError(`this table does not exist${await perhaps(session, name)}`);
  return oid;
}

function pageOf(name: string): string {
  const sender = senderNamed(name);
  if (sender === undefined)
    throw new PlainError(hintForSender(name) ?? 'this sender is not known: senders lists them');
  return senderPage(sender);
}

const traffic = (
  given: ToolArguments,
  oid: string | null,
): string => `SELECT schema_name, table_name, ${utcText('minute')} AS minute, stored, unauthorized, refused, unavailable,
  stale, "rows", p50_ms, p99_ms FROM headgate.traffic
WHERE minute > now() - interval '${numberOf(given, 'minutes', 1_440)} minutes'${
  oid === null
    ? ''
    : ` AND pg_catalog.to_regclass(pg_catalog.format('%I.%I', schema_name, table_name)) = ${quoteLiteral(oid)}::pg_catalog.oid`
} ORDER BY traffic.minute DESC`;

function refused(given: ToolArguments, oid: string | null): string {
  const code = textOf(given, 'code');
  return `SELECT r.id, ${utcText('r.received_at')} AS received_at, r.schema_name, r.table_name, r.door, r.status, r.code, r.reason, r.engine_error, r.authenticated,
  r.remote_address, r.method, r.target, r.headers, r.body_bytes,
  pg_catalog.encode(pg_catalog.substring(r.body, 1, ${limits.mcpBodyBytesMax}), 'hex') AS body, r.retry_outcome, r.retry_reason
FROM headgate.rejected_requests r
WHERE r.received_at > now() - interval '${numberOf(given, 'minutes', 1_440)} minutes'${
    oid === null ? '' : ` AND r.relation = ${quoteLiteral(oid)}::oid`
  }${code === '' ? '' : ` AND r.code = ${quoteLiteral(code)}`}
ORDER BY r.id DESC`;
}

/** A row of `refused` in the form of `explain`. */
function asExplained(row: unknown): unknown {
  const texts = row as Readonly<Record<string, string | null>>;
  const { id, status, authenticated, headers, body, body_bytes: bytes, code, reason } = texts;
  return {
    ...texts,
    id: Number(id),
    status: Number(status),
    authenticated: authenticated === 't',
    headers: objectIfWhole(headers ?? '{}'),
    body_bytes: bytes === null ? null : Number(bytes),
    ...bodyOf(typeof body === 'string' ? Buffer.from(body, 'hex') : null, bytes ?? ''),
    hint: hintOfRefusal(code ?? '', reason ?? ''),
  };
}

/** Headers that were cut stay a text. */
function objectIfWhole(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
