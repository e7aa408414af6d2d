/**
 * Writes observations as log lines. Takes every observation and writes one line for each that is severe enough: a JSON object, or a line for people,
 * who also get a short line for answered requests (request-lines.ts). Touches nothing but the given `write`. Text from outside stays inside its
 * field: JSON escapes it, and the pretty form escapes everything a terminal would act on.
 */
import { pino } from 'pino';
import { shownJson } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';
import { isRefused, requestLines } from './request-lines.ts';
import type { RequestLine } from './request-lines.ts';
import { observers } from '../observe/context.ts';
import type { Readers } from '../observe/context.ts';
import type { Observation, Observe, TableName } from '../observe/observations.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  /** Takes one whole line with its line break. */
  readonly write: (line: string) => void;
  /** ms since 1970 */
  readonly now: () => number;
  /** null: all lines of a kind are written, however many there are. */
  readonly thinned?: LogTiming | null;
}

const severity: Record<LogLevel, number> = { debug: 20, info: 30, warn: 40, error: 50 };

const levels: { readonly [kind in Observation['kind']]: LogLevel } = {
  'request.answered': 'debug',
  'request.failed': 'error',
  'gateway.answered': 'debug',
  'stream.opened': 'debug',
  'websocket.opened': 'debug',
  'websocket.closed': 'debug',
  'batch.answered': 'debug',
  'requests.more': 'debug',
  'group.committed': 'debug',
  'group.aborted': 'warn',
  'group.unknown': 'warn',
  'group.settled': 'warn',
  'keys.ignored': 'debug',
  'values.nulled': 'debug',
  'deliveries.repeated': 'debug',
  'deliveries.differ': 'warn',
  'rows.stale': 'debug',
  'sns.certificate': 'info',
  'sns.confirmed': 'info',
  'sns.failed': 'warn',
  'event_grid.confirmed': 'info',
  'event_grid.failed': 'warn',
  'jwks.fetched': 'info',
  'jwks.failed': 'warn',
  'secret.learned': 'info',
  'secret.contested': 'warn',
  'engine.starting': 'info',
  'engine.ready': 'info',
  'engine.lost': 'error',
  'engine.unreachable': 'error',
  'engine.orphan_stopped': 'warn',
  'engine.said': 'warn',
  'engine.stopped': 'info',
  'catalog.loaded': 'debug',
  'catalog.unreadable': 'error',
  'catalog.sealed_otherwise': 'error',
  'catalog.table_unusable': 'error',
  'catalog.answer_unusable': 'error',
  'catalog.migrated': 'info',
  'catalog.lost': 'error',
  'handshake.asked': 'debug',
  'handshakes.dropped': 'debug',
  'delivery.attempted': 'debug',
  'delivery.counted': 'debug',
  'delivery.resumed': 'info',
  'delivery.down': 'warn',
  'delivery.failed': 'warn',
  'keep.removed': 'debug',
  'keep.refused': 'warn',
  'keep.failed': 'warn',
  'reconcile.read': 'debug',
  'reconcile.refused': 'warn',
  'reconcile.failed': 'warn',
  'rejected.stored': 'debug',
  'rejected.dropped': 'debug',
  'commit.connections_limited': 'warn',
  'rejected.unwritable': 'warn',
  'rejected.retried': 'info',
  'spool.entered': 'warn',
  'spool.left': 'info',
  'spool.kept': 'debug',
  'spool.arrived': 'debug',
  'spool.refused': 'warn',
  'spool.blocked': 'warn',
  'spool.held': 'error',
  'spool.damaged': 'error',
  'spool.waiting': 'warn',
  'spool.failed': 'error',
  'spool.works': 'info',
  'spool.unavailable': 'error',
  'sql.connected': 'debug',
  'sql.login_failed': 'warn',
  'console.entered': 'info',
  'console.shared': 'info',
  'console.login_failed': 'warn',
  'sql.closed': 'debug',
  'sql.rewritten': 'debug',
  'sql.failed': 'error',
  'alerts.told': 'info',
  'alerts.failed': 'warn',
  'tls.loaded': 'info',
  'tls.doubtful': 'warn',
  'tls.unusable': 'error',
  'certificate.asked': 'info',
  'certificate.made': 'info',
  'certificate.failed': 'error',
  'certificate.unkept': 'warn',
  'door.opened': 'info',
  'spans.sent': 'debug',
  'spans.dropped': 'debug',
  'telemetry.failed': 'warn',
  'telemetry.works': 'info',
  'operator.leading': 'info',
  'operator.following': 'info',
  'operator.lease_failed': 'warn',
  'operator.watch_failed': 'warn',
  'operator.reconciled': 'debug',
  'operator.reconcile_failed': 'warn',
  'operator.told': 'info',
  'operator.too_many': 'error',
  'listener.started': 'info',
  'listener.lost': 'error',
  'listener.said': 'warn',
  'log.lost': 'error',
  'log.thinned': 'warn',
  'service.ready': 'info',
  'service.waiting': 'warn',
  'service.draining': 'info',
  'service.cut_off': 'error',
  'service.stopped': 'info',
};

type LogFields = Readonly<Record<string, unknown>>;

/** A log at `debug` is meant to contain everything: it is not thinned. Of the kinds that it never contains, nothing is called. */
export function createLog(options: LogOptions): Observe {
  const least = severity[options.level];
  const writer = writerOf(options);
  const write = (observation: Observation): void =>
    writer(levelOf(observation), observation.kind, fieldsOf(observation));
  const { thinned: timing = null } = options;
  const thinned =
    timing === null || options.level === 'debug'
      ? null
      : new ThrottledLog(limits.logBurstMax, limits.logLinesPerSecondMax, timing, (of, left) =>
          write({ kind: 'log.thinned', of, lines: left }),
        );
  const log: Observe = (observation) => {
    const level = levelOf(observation);
    if (severity[level] < least) return;
    if (observation.kind === 'service.stopped') thinned?.tellAll();
    // What an engine reports when it ends must not be lost in a flood of its lesser complaints.
    const kind = level === levels[observation.kind] ? observation.kind : `${observation.kind} ${level}`;
    if (thinned?.passes(kind) !== false) write(observation);
  };
  const kinds = Object.keys(levels) as Observation['kind'][];
  const logged = kinds.filter((kind) => kind in ownLevels || severity[levels[kind]] >= least);
  const readers: Readers = Object.fromEntries(logged.map((kind) => [kind, log]));
  return tellsRequests(options)
    ? observers(requestLines(requestWriter(options)), readers)
    : observers(readers);
}

/** One observation as a log line. */
export function logLine(options: Pick<LogOptions, 'format' | 'now'>, observation: Observation): string {
  let text = '';
  const write = writerOf({ ...options, level: 'debug', write: (line) => (text = line) });
  write(levelOf(observation), observation.kind, fieldsOf(observation));
  return text;
}

function writerOf(options: LogOptions): Write {
  return options.format === 'json' ? jsonWriter(options) : prettyWriter(options);
}

/** Whether the log has short lines for requests: a log for people has, at `info`. At `debug` it has long ones. */
export function tellsRequests({ format, level }: { format: string; level: LogLevel }): boolean {
  return format === 'pretty' && level === 'info';
}

/** Whether a log of that level contains it. */
export function isSaid(observation: Observation, level: LogLevel): boolean {
  return severity[levelOf(observation)] >= severity[level];
}

function levelOf(observation: Observation): LogLevel {
  const own = ownLevels[observation.kind] as ((it: Observation) => LogLevel) | undefined;
  return own?.(observation) ?? levels[observation.kind];
}

/** Of kinds whose level is not the same for all observations. */
const ownLevels: {
  readonly [K in Observation['kind']]?: (it: Extract<Observation, { readonly kind: K }>) => LogLevel;
} = {
  'engine.said': ({ line }) => levelOfEngine(line),
  // Clients that verify the certificate are refused now, not soon.
  'tls.doubtful': ({ state }) => (state === 'expires soon' ? levels['tls.doubtful'] : 'error'),
  'reconcile.refused': ({ repeated }) => (repeated ? 'debug' : levels['reconcile.refused']),
};

/**
 * PostgreSQL's own severity of its line; its routine messages are for close inspection. The severity follows the prefix, or is absent: further lines
 * of a message begin with a tab, and may contain a client's text.
 */
function levelOfEngine(line: string): LogLevel {
  const severity = /^(?:[^\t[]{0,40}\[\d+\] )?(DEBUG\d|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):/.exec(
    line,
  )?.[1];
  if (severity === 'FATAL' || severity === 'PANIC') return 'error';
  return severity === 'WARNING' || severity === 'ERROR' ? 'warn' : 'debug';
}

/** The content of a line besides time, level and kind: the observation's own fields, flat. */
function fieldsOf(observation: Observation): LogFields {
  const { kind: _, ...rest } = observation;
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(rest) as [string, unknown][]) {
    if (name === 'table') fields[name] = value === null ? null : tableText(value as TableName);
    else if (name === 'error') fields[name] = errorText(value);
    // As whoever joins logs and traces looks for it.
    else if (name === 'traceId') fields['trace_id'] = value;
    else fields[name] = value;
  }
  return fields;
}

/** Names are quoted as in SQL if they contain a dot, a quote or other special characters. */
function tableText({ database, schema, table }: TableName): string {
  return [database, schema, table]
    .map((name) => (/^[\w$-]+$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`))
    .join('.');
}

/** Includes its stack and its causes. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined ? text : `${text}\ncaused by ${errorText(error.cause)}`;
}

type Write = (level: LogLevel, kind: string, fields: LogFields) => void;

function jsonWriter({ write, now }: LogOptions): Write {
  const logger = pino(
    {
      level: 'debug',
      base: null,
      messageKey: 'kind',
      timestamp: () => `,"time":"${new Date(now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => write(shownJson(line)) },
  );
  return (level, kind, fields) => logger[level](fields, kind);
}

function prettyWriter({ write, now }: LogOptions): Write {
  return (level, kind, fields) => {
    const time = new Date(now()).toISOString().slice(11, 23);
    const text = Object.entries(fields).map(([name, value]) => ` ${name}=${prettyValue(value)}`);
    write(`${time} ${level.toUpperCase().padEnd(5)} ${kind}${text.join('')}\n`);
  };
}

function requestWriter({ write, now }: LogOptions): (line: RequestLine) => void {
  return (line) => write(`${new Date(now()).toISOString().slice(11, 23)} ${requestText(line)}\n`);
}

/** `200 dev.public.orders  1 row  2.1 ms`, `401 dev.public.orders  signature_failed  127.0.0.1` */
function requestText(line: RequestLine): string {
  if (line.kind === 'requests.more') {
    const refused = line.refused === 0 ? '' : `, ${count(line.refused)} refused`;
    return `and ${count(line.requests)} more${refused}`;
  }
  const status = line.kind === 'batch.answered' ? (isRefused(line) ? 'no ' : 'ack') : line.status;
  const where =
    line.kind === 'gateway.answered'
      ? `gateway ${line.route}`
      : line.table === null
        ? '-'
        : prettyValue(tableText(line.table));
  const from = 'remoteAddress' in line ? [prettyValue(line.remoteAddress)] : [];
  const what = isRefused(line)
    ? [line.code, ...from]
    : [`${count(line.rows)} ${line.rows === 1 ? 'row' : 'rows'}`, `${prettyValue(line.seconds * 1_000)} ms`];
  return [`${status} ${where}`, ...what].join('  ');
}

const count = (value: number): string => value.toLocaleString('en-US');

/** Unquoted if it is one plain word, otherwise a JSON string with only printable ASCII, letters and digits unescaped. */
function prettyValue(value: unknown): string {
  if (typeof value === 'number' && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  if (/^[\w.:/@+,-]+$/.test(text)) return text;
  return JSON.stringify(text).replace(
    /[^\x20-\x7e\p{L}\p{N}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** When it is. */
interface LogTiming {
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** setTimeout, without keeping the process alive. */
  readonly after: (run: () => void, ms: number) => void;
}

interface Flow {
  /** How many lines may be written, as of the time `atMs`. */
  allowance: number;
  atMs: number;
  leftOut: number;
}

/**
 * Thins out floods of one kind of line: a burst of each kind passes, then a number per second; lines left out are counted and reported when a line of the
 * kind may be written again. Holds one small entry for each kind of observation.
 */
export class ThrottledLog {
  readonly #burst: number;
  readonly #perSecond: number;
  readonly #timing: LogTiming;
  readonly #leftOut: (kind: string, lines: number) => void;
  readonly #flows = new Map<string, Flow>();

  /** `leftOut`: told that so many lines of a kind were left out since it was told last. */
  constructor(
    burst: number,
    perSecond: number,
    timing: LogTiming,
    leftOut: (kind: string, lines: number) => void,
  ) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#timing = timing;
    this.#leftOut = leftOut;
  }

  passes(kind: string): boolean {
    const { clock, after } = this.#timing;
    const [burst, perSecond] = [this.#burst, this.#perSecond];
    const nowMs = clock();
    let flow = this.#flows.get(kind);
    if (flow === undefined) {
      flow = { allowance: burst, atMs: nowMs, leftOut: 0 };
      this.#flows.set(kind, flow);
    }
    flow.allowance = Math.min(burst, flow.allowance + ((nowMs - flow.atMs) / 1_000) * perSecond);
    flow.atMs = nowMs;
    if (flow.allowance >= 1) {
      flow.allowance -= 1;
      return true;
    }
    flow.leftOut += 1;
    // Once for all lines left out in this second.
    if (flow.leftOut === 1) after(() => this.#tell(kind, flow), 1_000);
    return false;
  }

  /** Reports everything not yet reported, as before the process ends. */
  tellAll(): void {
    for (const [kind, flow] of this.#flows) this.#tell(kind, flow);
  }

  #tell(kind: string, flow: Flow): void {
    const { leftOut } = flow;
    flow.leftOut = 0;
    if (leftOut > 0) this.#leftOut(kind, leftOut);
  }
}
