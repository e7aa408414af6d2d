/**
 * `headgate console` and `headgate tail`: commands that talk to a Headgate running on this machine, through its admin
 * port. They take its data directory, which holds the port and the owner's key, and refuse with PlainError, one line.
 * Anyone who can read the key can already do what Headgate itself may, so it grants no more than access to the directory
 * does.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { interrupted } from './print.ts';
import { PlainError } from '../kit/plain-error.ts';
import { type CommandIo, jsonLine, painted, plain } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';
import { spanOf } from '../kit/duration.ts';
import type { ApiError, TailEvent } from '../console/api.ts';
import { isRefused, wordsOf } from '../console/outcome-summary.ts';
import type { HeldRequest, TailLine } from '../observe/tail.ts';
import { consoleUrl, ownerKeyFile } from '../host/running.ts';

export interface TailOptions {
  readonly json?: boolean;
  readonly failed?: boolean;
  readonly table?: string | undefined;
  /** How many earlier requests are shown first. */
  readonly lines?: string;
  /** Of which last span of time; without `lines` all of them. */
  readonly since?: string;
  /** Also print what accepted requests held, if their table permits it. */
  readonly body?: boolean;
  /** Through a database: also the rows of tables whose owner's code then runs with the rights of the role. */
  readonly trustOwner?: boolean;
}

type TailIo = Pick<CommandIo, 'print' | 'note' | 'signal' | 'clock' | 'colours'>;

/** Returns what to print: a link, or the address and how to log in. `open`: the page to open, as it stands after the `#`. */
export async function consoleCommand(dataDir: string, open = ''): Promise<string> {
  const path = open.replace(/^.*#/, '').replace(/^\/*/, '/');
  const at = await runningAt(dataDir);
  const { link = '' } = await local<{ link?: string }>(at, 'link');
  if (link !== '') return `${at.url}${link}${path === '/' ? '' : `&to=${path}`}`;
  return `${at.url}${path === '/' ? '' : `#${path}`}\nLog in with a role and password of the SQL port.`;
}

/** Runs until it is interrupted (the status is 130) or Headgate stops. */
export async function tailCommand(dataDir: string, options: TailOptions, io: TailIo): Promise<number> {
  const earlier = earlierOf(options);
  const at = await runningAt(dataDir);
  const { token = '' } = await local<{ token?: string }>(at, 'tail');
  try {
    const beganMs = io.clock();
    const response = await fetch(`${at.url}api/tail`, {
      headers: { authorization: `Bearer ${token}` },
      signal: io.signal,
    });
    if (!response.ok || response.body === null)
      throw new PlainError(`the console answered ${response.status}`);
    io.note(followingText(options));
    const printing = { at, token, options, io };
    for await (const { lines, skipped } of eventsOf(response.body)) {
      const wanted = lines.filter((line) => isWanted(line, options));
      // The first event has what was answered before.
      const shown = earlierLines(wanted, earlier, beganMs);
      const fresh = wanted.filter(({ atMs }) => atMs >= beganMs);
      await printEvent({ lines: [...shown, ...fresh], skipped }, printing);
    }
    return io.signal.aborted ? interrupted : 0;
  } catch (error) {
    if (io.signal.aborted) return interrupted;
    if (error instanceof PlainError) throw error;
    throw new PlainError('Headgate has stopped, or can no longer be reached');
  }
}

/** What is shown of the past. */
export interface Earlier {
  readonly lines: number;
  /** null: as far back as it is remembered. */
  readonly seconds: number | null;
}

/** Throws PlainError. */
export function earlierOf({ lines, since }: Pick<TailOptions, 'lines' | 'since'>): Earlier {
  const seconds = since === undefined ? null : spanOf(since);
  if (lines === undefined) return { lines: seconds === null ? 10 : limits.tailRecentMax, seconds };
  if (!/^\d{1,9}$/.test(lines)) throw new PlainError(`-n: "${lines}" is not a number of requests`);
  return { lines: Math.min(Number(lines), limits.tailRecentMax), seconds };
}

function earlierLines(
  all: readonly TailLine[],
  { lines, seconds }: Earlier,
  beganMs: number,
): readonly TailLine[] {
  const since = seconds === null ? -Infinity : beganMs - seconds * 1_000;
  const before = all.filter(({ atMs }) => atMs < beganMs && atMs >= since);
  return lines === 0 ? [] : before.slice(-lines);
}

/** So that it is not silent until the first request. */
export function followingText({ table, failed, json }: TailOptions): string {
  if (json === true) return '';
  const what = failed === true ? 'refused requests' : 'requests';
  return `following ${what}${table === undefined ? '' : ` to ${plain(table)}`}; Ctrl-C ends\n`;
}

const isWanted = (line: TailLine, { failed, table }: TailOptions): boolean =>
  (failed !== true || isRefused(line)) && (table === undefined || isNamed(line, table));

interface RunningAt {
  readonly url: string;
  readonly key: string;
}

async function runningAt(dataDir: string): Promise<RunningAt> {
  const read = (name: string): Promise<string> => readFile(join(dataDir, name), 'utf8');
  let ports: { admin?: { host: string; port: number } };
  try {
    ports = JSON.parse(await read('ports.json')) as typeof ports;
  } catch {
    throw new PlainError(
      `no Headgate runs on ${dataDir}: name the data directory of a running one with --data-dir`,
    );
  }
  const key = await read(ownerKeyFile).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT')
      throw new PlainError('the console of this Headgate is off: set HEADGATE_CONSOLE=on');
    throw new PlainError(`${join(dataDir, ownerKeyFile)} cannot be read (${error.code ?? 'unknown error'})`);
  });
  if (ports.admin === undefined) throw new PlainError(`ports.json in ${dataDir} names no admin port`);
  return { url: consoleUrl(ports.admin), key: key.trim() };
}

const local = <T>({ url, key }: RunningAt, want: 'link' | 'tail') => ask<T>(`${url}api/local`, key, { want });

async function ask<T>(url: string, token: string, question: object): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'x-headgate-console': '1',
      },
      body: JSON.stringify(question),
    });
  } catch {
    throw new PlainError(`Headgate does not answer at ${url}`);
  }
  const answer = (await response.json().catch(() => ({}))) as T & Partial<ApiError>;
  if (!response.ok) throw new PlainError(answer.error ?? `the console answered ${response.status}`);
  return answer;
}

/** Server-sent events with one line of data each. */
async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncIterable<TailEvent> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as TailEvent;
  }
}

interface Printing {
  readonly at: RunningAt;
  readonly token: string;
  readonly options: TailOptions;
  readonly io: TailIo;
}

async function printEvent(
  { lines, skipped }: Pick<TailEvent, 'lines' | 'skipped'>,
  { at, token, options, io }: Printing,
): Promise<void> {
  const { json, body } = options;
  for (const line of lines) {
    // The request may have been forgotten by now.
    const request =
      body === true && line.held !== undefined
        ? await ask<HeldRequest>(`${at.url}api/held`, token, line).catch(() => null)
        : null;
    const said = fieldsOf(line);
    if (json === true) io.print(jsonLine(request === null ? said : { ...said, request: heldOf(request) }));
    else io.print(`${textOf(line, io)}\n${request === null ? '' : requestText(request)}`);
  }
  if (skipped > 0 && json !== true) io.note(`… and ${skipped} more\n`);
}

/** `id`: of a refused request, as `headgate explain` takes it. */
function fieldsOf({ id: _id, held: _held, atMs, arrivedAtMs, refusal, ...rest }: TailLine): object {
  const [at, received] = [atMs, arrivedAtMs].map((ms) => new Date(ms).toISOString());
  return { at, received_at: received, ...(refusal === undefined ? {} : { id: Number(refusal) }), ...rest };
}

/** With the time of its arrival as ISO 8601. */
function heldOf({ atMs, ...rest }: HeldRequest): object {
  return { at: new Date(atMs).toISOString(), ...rest };
}

/** The lines of a request, indented. */
export function requestText({
  method,
  target,
  headers,
  masked,
  body,
  bodyBytes,
}: Omit<HeldRequest, keyof TailLine | 'remoteAddress' | 'leftOut'>): string {
  const bytes = Buffer.from(body, 'base64');
  const cut = bytes.length < bodyBytes;
  const lines = [
    `${method} ${target}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...Object.entries(masked).map(([name, value]) => `${name}: not kept, ${value}`),
    '',
    ...bodyLines(bytes, cut),
    ...(cut ? [`(the first ${bytes.length} of ${bodyBytes} bytes)`] : []),
    '',
  ];
  return lines.map((line) => `    ${plain(line)}`.trimEnd().concat('\n')).join('');
}

function bodyLines(bytes: Buffer, cut: boolean): readonly string[] {
  try {
    // The last character may be cut in two.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut }).split('\n');
  } catch {
    return ['(the body is not text)'];
  }
}

function isNamed({ database, schema, table }: TailLine, name: string): boolean {
  return [table, `${schema}.${table}`, `${database}.${schema}.${table}`].includes(name);
}

function textOf(line: TailLine, io: TailIo): string {
  const { atMs, database, schema, table, status, bytes, ms, address } = line;
  const time = new Date(atMs).toISOString().slice(11, 23);
  const where = table === '' ? '(no table)' : plain(`${database}.${schema}.${table}`);
  const size = bytes === null ? '' : `  ${bytes} B`;
  const answer = painted(io, isRefused(line) ? 'bad' : 'good', status === 0 ? 'batch' : String(status));
  const what = wordsOf(line);
  const kept = line.refusal === undefined ? '' : `  refused request ${line.refusal}`;
  return `${time}  ${answer}  ${where}  ${what}${size}  ${ms} ms${address === '' ? '' : `  ${address}`}${kept}`;
}
